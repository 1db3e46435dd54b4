package action

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

var infoPrefix = []byte(`{"commitInfo":`)

// Decode reads a commit file. The error wraps ErrCorrupt and names the line.
//
// A commitInfo, by far the longest line of a gscd commit, is passed over
// without a look into it, except on the last line: a file that was cut off
// shows there.
func Decode(data []byte) (*Commit, error) {
	c := &Commit{}
	d := decoder{commit: c}
	number, actions := 0, 0
	for rest := data; len(rest) > 0; {
		number++
		line := rest
		if end := bytes.IndexByte(rest, '\n'); end >= 0 {
			line, rest = rest[:end], rest[end+1:]
		} else {
			rest = nil
		}
		line = bytes.TrimRight(line, " \t\r")
		if len(line) == 0 {
			continue
		}
		actions++
		if err := d.line(line, len(bytes.TrimSpace(rest)) == 0); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrCorrupt, number, err)
		}
	}
	if actions == 0 {
		return nil, fmt.Errorf("%w: a commit without actions", ErrCorrupt)
	}
	return c, nil
}

// decoder holds what is reused from line to line.
type decoder struct {
	commit *Commit
	scan   scanner
}

func (d *decoder) line(line []byte, last bool) error {
	if bytes.HasPrefix(line, infoPrefix) {
		if last && !json.Valid(line) {
			return errEnd
		}
		if line[len(line)-1] != '}' {
			return errEnd
		}
		d.commit.Info = bytes.TrimSpace(line[len(infoPrefix) : len(line)-1])
		return nil
	}
	p := &d.scan
	// One copy a line: the strings of its actions are parts of it, so that a
	// file action that lives on keeps a line in memory and not the whole file.
	p.s, p.i = string(line), 0
	if err := p.object(d.action); err != nil {
		return err
	}
	if p.peek() != 0 || p.i < len(p.s) {
		return errors.New("more than one value")
	}
	return nil
}

func (d *decoder) action(key string) error {
	c, p := d.commit, &d.scan
	if p.null() { // {"add":null,"remove":{…}}, as some writers have it
		return nil
	}
	switch key {
	case "add":
		a := &Add{}
		c.Adds = append(c.Adds, a)
		return d.add(a)
	case "remove":
		r := &Remove{}
		c.Removes = append(c.Removes, r)
		return d.remove(r)
	case "cdc":
		f := &CDC{}
		c.CDC = append(c.CDC, f)
		return d.cdc(f)
	case "txn":
		c.Txns = append(c.Txns, Txn{})
		return d.txn(&c.Txns[len(c.Txns)-1])
	case "metaData":
		c.Metadata = &Metadata{}
		return d.metadata(c.Metadata)
	case "protocol":
		c.Protocol = &Protocol{}
		return d.protocol(c.Protocol)
	case "domainMetadata":
		c.Domains = append(c.Domains, DomainMetadata{})
		return d.domain(&c.Domains[len(c.Domains)-1])
	case "sidecar":
		c.Sidecars = append(c.Sidecars, Sidecar{})
		return d.sidecar(&c.Sidecars[len(c.Sidecars)-1])
	case "checkpointMetadata":
		return p.object(func(key string) (err error) {
			if key != "version" {
				return p.skip()
			}
			c.CheckpointVersion, err = p.optional()
			return err
		})
	case "commitInfo":
		p.peek()
		start := p.i
		err := p.skip()
		c.Info = json.RawMessage(p.s[start:p.i])
		if err == nil && !json.Valid(c.Info) {
			err = errors.New("commitInfo is no JSON")
		}
		return err
	}
	return p.skip()
}

var errNoPath = errors.New("a file action without a path")

func (d *decoder) add(a *Add) error {
	p := &d.scan
	err := p.object(func(key string) (err error) {
		switch key {
		case "path":
			a.Path, err = p.strOrNull()
		case "partitionValues":
			a.PartitionValues, err = p.values()
		case "size":
			a.Size, err = p.integer()
		case "modificationTime":
			a.ModificationTime, err = p.integer()
		case "dataChange":
			a.DataChange, err = p.boolean()
		case "stats":
			a.Stats, err = p.strOrNull()
		case "tags":
			a.Tags, err = p.strings()
		case "deletionVector":
			a.DeletionVector, err = d.vector()
		case "baseRowId":
			a.BaseRowID, err = p.optional()
		case "defaultRowCommitVersion":
			a.DefaultRowCommitVersion, err = p.optional()
		case "clusteringProvider":
			if !p.null() {
				var s string
				s, err = p.str()
				a.ClusteringProvider = &s
			}
		default:
			err = p.skip()
		}
		return err
	})
	if err == nil && a.Path == "" {
		return errNoPath
	}
	return err
}

func (d *decoder) remove(r *Remove) error {
	p := &d.scan
	r.DataChange = true // the field's default in the oldest writers
	err := p.object(func(key string) (err error) {
		switch key {
		case "path":
			r.Path, err = p.strOrNull()
		case "deletionTimestamp":
			r.DeletionTimestamp, err = p.integer()
		case "dataChange":
			r.DataChange, err = p.boolean()
		case "extendedFileMetadata":
			r.ExtendedFileMetadata, err = p.boolean()
		case "partitionValues":
			r.PartitionValues, err = p.values()
		case "size":
			r.Size, err = p.optional()
		case "stats":
			r.Stats, err = p.strOrNull()
		case "tags":
			r.Tags, err = p.strings()
		case "deletionVector":
			r.DeletionVector, err = d.vector()
		case "baseRowId":
			r.BaseRowID, err = p.optional()
		case "defaultRowCommitVersion":
			r.DefaultRowCommitVersion, err = p.optional()
		default:
			err = p.skip()
		}
		return err
	})
	if err == nil && r.Path == "" {
		return errNoPath
	}
	return err
}

func (d *decoder) vector() (*DeletionVector, error) {
	p := &d.scan
	if p.null() {
		return nil, nil
	}
	v := &DeletionVector{}
	err := p.object(func(key string) (err error) {
		switch key {
		case "storageType":
			v.StorageType, err = p.strOrNull()
		case "pathOrInlineDv":
			v.PathOrInlineDV, err = p.strOrNull()
		case "offset":
			if !p.null() {
				var n int32
				n, err = p.int32()
				v.Offset = &n
			}
		case "sizeInBytes":
			v.SizeInBytes, err = p.int32()
		case "cardinality":
			v.Cardinality, err = p.integer()
		default:
			err = p.skip()
		}
		return err
	})
	if err == nil && v.StorageType == "" {
		if v.PathOrInlineDV != "" {
			return nil, errors.New("a deletion vector without a storage type")
		}
		return nil, nil // an object of nulls stands for none
	}
	return v, err
}

func (d *decoder) cdc(f *CDC) error {
	p := &d.scan
	err := p.object(func(key string) (err error) {
		switch key {
		case "path":
			f.Path, err = p.strOrNull()
		case "partitionValues":
			f.PartitionValues, err = p.values()
		case "size":
			f.Size, err = p.integer()
		case "dataChange":
			f.DataChange, err = p.boolean()
		case "tags":
			f.Tags, err = p.strings()
		default:
			err = p.skip()
		}
		return err
	})
	if err == nil && f.Path == "" {
		return errNoPath
	}
	return err
}

func (d *decoder) sidecar(s *Sidecar) error {
	p := &d.scan
	err := p.object(func(key string) (err error) {
		switch key {
		case "path":
			s.Path, err = p.strOrNull()
		case "sizeInBytes":
			s.SizeInBytes, err = p.integer()
		case "modificationTime":
			s.ModificationTime, err = p.integer()
		default:
			err = p.skip()
		}
		return err
	})
	if err == nil && s.Path == "" {
		return errNoPath
	}
	return err
}

func (d *decoder) txn(t *Txn) error {
	p := &d.scan
	return p.object(func(key string) (err error) {
		switch key {
		case "appId":
			t.AppID, err = p.strOrNull()
		case "version":
			t.Version, err = p.integer()
		case "lastUpdated":
			t.LastUpdated, err = p.optional()
		default:
			err = p.skip()
		}
		return err
	})
}

func (d *decoder) metadata(m *Metadata) error {
	p := &d.scan
	return p.object(func(key string) (err error) {
		switch key {
		case "id":
			m.ID, err = p.strOrNull()
		case "name":
			m.Name, err = p.strOrNull()
		case "description":
			m.Description, err = p.strOrNull()
		case "format":
			err = d.format(&m.Format)
		case "schemaString":
			m.SchemaString, err = p.strOrNull()
		case "partitionColumns":
			m.PartitionColumns, err = p.names()
		case "configuration":
			m.Configuration, err = p.strings()
		case "createdTime":
			m.CreatedTime, err = p.optional()
		default:
			err = p.skip()
		}
		return err
	})
}

func (d *decoder) format(f *Format) error {
	p := &d.scan
	if p.null() {
		return nil
	}
	return p.object(func(key string) (err error) {
		switch key {
		case "provider":
			f.Provider, err = p.strOrNull()
		case "options":
			f.Options, err = p.strings()
		default:
			err = p.skip()
		}
		return err
	})
}

func (d *decoder) protocol(v *Protocol) error {
	p := &d.scan
	return p.object(func(key string) (err error) {
		switch key {
		case "minReaderVersion":
			v.MinReaderVersion, err = p.int32()
		case "minWriterVersion":
			v.MinWriterVersion, err = p.int32()
		case "readerFeatures":
			v.ReaderFeatures, err = p.names()
		case "writerFeatures":
			v.WriterFeatures, err = p.names()
		default:
			err = p.skip()
		}
		return err
	})
}

func (d *decoder) domain(m *DomainMetadata) error {
	p := &d.scan
	return p.object(func(key string) (err error) {
		switch key {
		case "domain":
			m.Domain, err = p.strOrNull()
		case "configuration":
			m.Configuration, err = p.strOrNull()
		case "removed":
			m.Removed, err = p.boolean()
		default:
			err = p.skip()
		}
		return err
	})
}
