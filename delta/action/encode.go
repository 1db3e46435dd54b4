package action

import (
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Append appends the commit as a commit file: commitInfo first, one action a
// line. Info must be one JSON object on one line.
func (c *Commit) Append(dst []byte) []byte {
	if c.Info != nil {
		dst = append(dst, infoPrefix...)
		dst = append(dst, c.Info...)
		dst = append(dst, "}\n"...)
	}
	if c.Protocol != nil {
		dst = c.Protocol.append(dst)
	}
	if c.Metadata != nil {
		dst = c.Metadata.append(dst)
	}
	for i := range c.Txns {
		dst = c.Txns[i].append(dst)
	}
	for i := range c.Domains {
		dst = c.Domains[i].append(dst)
	}
	for _, r := range c.Removes {
		dst = r.append(dst)
	}
	for _, a := range c.Adds {
		dst = a.append(dst)
	}
	for _, f := range c.CDC {
		dst = f.append(dst)
	}
	return dst
}

// object writes the fields of one JSON object after another; begin and end are
// the action's frame.
type object struct {
	dst   []byte
	comma bool
}

func begin(dst []byte, name string) object {
	dst = append(dst, `{"`...)
	dst = append(dst, name...)
	return object{dst: append(dst, `":{`...)}
}

func (o *object) end() []byte { return append(o.dst, "}}\n"...) }

func (o *object) key(name string) {
	if o.comma {
		o.dst = append(o.dst, ',')
	}
	o.comma = true
	o.dst = append(o.dst, '"')
	o.dst = append(o.dst, name...)
	o.dst = append(o.dst, `":`...)
}

func (o *object) str(name, value string) {
	o.key(name)
	o.dst = AppendString(o.dst, value)
}

// nonEmpty leaves an empty string out: readers take `"stats":""` for broken JSON.
func (o *object) nonEmpty(name, value string) {
	if value != "" {
		o.str(name, value)
	}
}

func (o *object) integer(name string, n int64) {
	o.key(name)
	o.dst = strconv.AppendInt(o.dst, n, 10)
}

func (o *object) optional(name string, n *int64) {
	if n != nil {
		o.integer(name, *n)
	}
}

func (o *object) boolean(name string, b bool) {
	o.key(name)
	o.dst = strconv.AppendBool(o.dst, b)
}

func (o *object) values(name string, m map[string]*string) {
	o.key(name)
	o.dst = append(o.dst, '{')
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			o.dst = append(o.dst, ',')
		}
		o.dst = append(AppendString(o.dst, k), ':')
		if v := m[k]; v != nil {
			o.dst = AppendString(o.dst, *v)
		} else {
			o.dst = append(o.dst, "null"...)
		}
	}
	o.dst = append(o.dst, '}')
}

func (o *object) strings(name string, m map[string]string) {
	o.key(name)
	o.dst = append(o.dst, '{')
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			o.dst = append(o.dst, ',')
		}
		o.dst = append(AppendString(o.dst, k), ':')
		o.dst = AppendString(o.dst, m[k])
	}
	o.dst = append(o.dst, '}')
}

func (o *object) names(name string, list []string) {
	o.key(name)
	o.dst = append(o.dst, '[')
	for i, s := range list {
		if i > 0 {
			o.dst = append(o.dst, ',')
		}
		o.dst = AppendString(o.dst, s)
	}
	o.dst = append(o.dst, ']')
}

func (o *object) vector(d *DeletionVector) {
	if d == nil {
		return
	}
	o.key("deletionVector")
	v := object{dst: append(o.dst, '{')}
	v.str("storageType", d.StorageType)
	v.str("pathOrInlineDv", d.PathOrInlineDV)
	if d.Offset != nil {
		v.integer("offset", int64(*d.Offset))
	}
	v.integer("sizeInBytes", int64(d.SizeInBytes))
	v.integer("cardinality", d.Cardinality)
	o.dst = append(v.dst, '}')
}

func (a *Add) append(dst []byte) []byte {
	o := begin(dst, "add")
	o.str("path", a.Path)
	o.values("partitionValues", a.PartitionValues)
	o.integer("size", a.Size)
	o.integer("modificationTime", a.ModificationTime)
	o.boolean("dataChange", a.DataChange)
	o.nonEmpty("stats", a.Stats)
	if len(a.Tags) > 0 {
		o.strings("tags", a.Tags)
	}
	o.vector(a.DeletionVector)
	o.optional("baseRowId", a.BaseRowID)
	o.optional("defaultRowCommitVersion", a.DefaultRowCommitVersion)
	if a.ClusteringProvider != nil {
		o.str("clusteringProvider", *a.ClusteringProvider)
	}
	return o.end()
}

func (r *Remove) append(dst []byte) []byte {
	o := begin(dst, "remove")
	o.str("path", r.Path)
	if r.DeletionTimestamp != 0 {
		o.integer("deletionTimestamp", r.DeletionTimestamp)
	}
	o.boolean("dataChange", r.DataChange)
	o.boolean("extendedFileMetadata", r.ExtendedFileMetadata)
	if r.ExtendedFileMetadata || r.PartitionValues != nil {
		o.values("partitionValues", r.PartitionValues)
	}
	o.optional("size", r.Size)
	o.nonEmpty("stats", r.Stats)
	if len(r.Tags) > 0 {
		o.strings("tags", r.Tags)
	}
	o.vector(r.DeletionVector)
	o.optional("baseRowId", r.BaseRowID)
	o.optional("defaultRowCommitVersion", r.DefaultRowCommitVersion)
	return o.end()
}

func (f *CDC) append(dst []byte) []byte {
	o := begin(dst, "cdc")
	o.str("path", f.Path)
	o.values("partitionValues", f.PartitionValues)
	o.integer("size", f.Size)
	o.boolean("dataChange", f.DataChange)
	if len(f.Tags) > 0 {
		o.strings("tags", f.Tags)
	}
	return o.end()
}

func (t *Txn) append(dst []byte) []byte {
	o := begin(dst, "txn")
	o.str("appId", t.AppID)
	o.integer("version", t.Version)
	o.optional("lastUpdated", t.LastUpdated)
	return o.end()
}

func (m *Metadata) append(dst []byte) []byte {
	o := begin(dst, "metaData")
	o.str("id", m.ID)
	o.nonEmpty("name", m.Name)
	o.nonEmpty("description", m.Description)
	o.key("format")
	f := object{dst: append(o.dst, '{')}
	f.str("provider", m.Format.Provider)
	f.strings("options", m.Format.Options)
	o.dst = append(f.dst, '}')
	o.str("schemaString", m.SchemaString)
	o.names("partitionColumns", m.PartitionColumns)
	o.strings("configuration", m.Configuration)
	o.optional("createdTime", m.CreatedTime)
	return o.end()
}

func (v *Protocol) append(dst []byte) []byte {
	o := begin(dst, "protocol")
	o.integer("minReaderVersion", int64(v.MinReaderVersion))
	o.integer("minWriterVersion", int64(v.MinWriterVersion))
	if v.ReaderFeatures != nil {
		o.names("readerFeatures", v.ReaderFeatures)
	}
	if v.WriterFeatures != nil {
		o.names("writerFeatures", v.WriterFeatures)
	}
	return o.end()
}

func (m *DomainMetadata) append(dst []byte) []byte {
	o := begin(dst, "domainMetadata")
	o.str("domain", m.Domain)
	o.str("configuration", m.Configuration)
	o.boolean("removed", m.Removed)
	return o.end()
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. Bytes that are no UTF-8 become
// U+FFFD, as JSON can't hold them.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		run := i
		for i < len(s) && s[i] >= 0x20 && s[i] != '"' && s[i] != '\\' && s[i] < utf8.RuneSelf {
			i++
		}
		dst = append(dst, s[run:i]...)
		if i == len(s) {
			break
		}
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
			i++
		case c == '\n':
			dst = append(dst, '\\', 'n')
			i++
		case c == '\t':
			dst = append(dst, '\\', 't')
			i++
		case c == '\r':
			dst = append(dst, '\\', 'r')
			i++
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
			i++
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += size
		}
	}
	return append(dst, '"')
}
