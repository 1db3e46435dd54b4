package decode

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
)

// AWSDMS is the format of AWS DMS's Kafka target.
const AWSDMS = "aws-dms"

// DefaultBeforeImage is DMS's default of BeforeImageSettings.FieldName, and
// DefaultBeforePrefix that of the prefix that add-before-image-columns gives.
const (
	DefaultBeforeImage  = "before-image"
	DefaultBeforePrefix = "BI_"
)

// DMS says how a task of AWS DMS was set up.
type DMS struct {
	// BeforeImage is the name of the object with the row before an update; "" is
	// DefaultBeforeImage.
	BeforeImage string
	// BeforePrefix begins the columns with the values before an update; "" is
	// DefaultBeforePrefix.
	BeforePrefix string
	// KeyChanges is "none" where no update changes a key: an update without a row
	// before is then not marked as KeyUnsure.
	KeyChanges string
}

// awsDMS reads the JSON of AWS DMS: one row a record, without types.
type awsDMS struct {
	single
	flat
	data, old []member
	meta      [dmsMetas]token
	rows      *rowSchema
	seen      recognition
}

// The members of a record that matter.
const (
	dmsData = iota
	dmsMetadata
	dmsControl
	dmsBefore
)

// The members of its metadata that matter.
const (
	dmsTimestamp = iota
	dmsRecordType
	dmsOperation
	dmsSchema
	dmsTable
	dmsCommit
	dmsMetas
)

func dmsMeta(name string) int {
	switch name {
	case "timestamp":
		return dmsTimestamp
	case "record-type":
		return dmsRecordType
	case "operation":
		return dmsOperation
	case "schema-name":
		return dmsSchema
	case "table-name":
		return dmsTable
	case "commit-timestamp":
		return dmsCommit
	}
	return -1
}

func newAWSDMS(o *Options) *awsDMS {
	o = o.writtenAs(dmsCodec)
	if o.DMS.BeforeImage == "" {
		o.DMS.BeforeImage = DefaultBeforeImage
	}
	if o.DMS.BeforePrefix == "" {
		o.DMS.BeforePrefix = DefaultBeforePrefix
	}
	d := &awsDMS{flat: newFlat(o, []string{"data", "metadata", "control", o.DMS.BeforeImage}), rows: newRowSchema(o, nil)}
	d.inside = func(slot, at int) (end int, took bool) {
		switch {
		case d.scan.b[at] != '{':
		case slot == dmsData:
			d.data, end = d.scan.members(at+1, 2, d.data)
			return end, true
		case slot == dmsBefore:
			d.old, end = d.scan.members(at+1, 2, d.old)
			return end, true
		case slot == dmsMetadata:
			return d.readMeta(at + 1), true
		}
		return 0, false
	}
	return d
}

// readMeta reads the metadata whose brace is before i.
func (d *awsDMS) readMeta(i int) int {
	s := &d.scan
	for first := true; ; first = false {
		name, at := s.next(i, first)
		if at < 0 || name.kind == kindNone {
			return at
		}
		var t token
		if t, i = s.value(at, 2); i < 0 {
			return i
		}
		slot := dmsMeta(view(s.b[name.start:name.end]))
		if slot < 0 {
			continue
		}
		if d.meta[slot].kind != kindNone {
			return s.failWith(int(name.start), errTwice)
		}
		d.meta[slot] = t
	}
}

// dmsCodec tells how DMS writes a type where it differs from Debezium.
func dmsCodec(_ ColumnSpec, c codec) codec {
	switch c.enc {
	case encBytes:
		c.enc = encHex
	case encBits:
		c.enc = encHexBits
	case encInt, encUnsigned, encFloat, encDouble:
		c.quoted = true
	case encDecimal, encLongDecimal:
		c.base64 = false
	}
	return c
}

func (d *awsDMS) Format() string { return AWSDMS }

func (d *awsDMS) recognised() recognition { return d.seen }

// Decode implements Decoder.
func (d *awsDMS) Decode(rec *change.Record, arena *change.Arena, out *change.Change) error {
	d.data, d.old = d.data[:0], d.old[:0]
	d.meta = [dmsMetas]token{}
	return d.oneRow(rec, arena, out, reading{seen: &d.seen, row: d.decode})
}

var (
	errNoDMS    = errors.New("no record of AWS DMS: metadata.operation is missing")
	errDMSTable = errors.New("metadata has no schema-name and table-name")
	errDMSData  = errors.New("the record has no data")
)

// metaWord is the text of a member of the metadata that is a plain string, else "".
func (d *awsDMS) metaWord(slot int) string {
	t := d.meta[slot]
	if t.kind != kindString || t.flags&flagEscaped != 0 {
		return ""
	}
	return view(d.cells.raw(t))
}

func (d *awsDMS) decode(rec *change.Record, out *change.Change) error {
	operation := d.meta[dmsOperation]
	if operation.kind != kindString {
		return errNoDMS
	}
	control := d.metaWord(dmsRecordType) == "control"
	switch kind := d.metaWord(dmsOperation); {
	case kind == "truncate-table":
		out.Op = change.Truncate
	case control:
		d.seen = own
		out.Op = change.Filtered
		return nil
	case kind == "load":
		out.Op = change.Read
	case kind == "insert":
		out.Op = change.Insert
	case kind == "update":
		out.Op = change.Update
	case kind == "delete":
		out.Op = change.Delete
	default:
		return fmt.Errorf("unknown operation %.40q", d.cells.raw(operation))
	}
	if d.meta[dmsTable].kind != kindString || d.meta[dmsSchema].kind != kindString {
		return errDMSTable
	}
	if d.at[dmsData].kind != kindObject && out.Op != change.Truncate {
		return errDMSData
	}
	d.seen = own
	if d.opts.Source != "" {
		if mine, err := d.spell(out, d.meta[dmsSchema], d.meta[dmsTable]); err != nil || !mine {
			out.Op = change.Filtered
			return err
		}
	}
	if strings.HasPrefix(d.metaWord(dmsTable), "awsdms_") { // DMS's own tables
		out.Op = change.Filtered
		return nil
	}
	if err := d.origin(rec, out); err != nil || out.Op == change.Truncate {
		return err
	}
	return d.row(out, rec)
}

// origin fills in when the change was made. The time stamp of the record is DMS's
// clock; stream-position has another form for each source, and says no order.
func (d *awsDMS) origin(rec *change.Record, out *change.Change) error {
	stamp, err := d.stamp("timestamp", d.meta[dmsTimestamp])
	if err != nil {
		return err
	}
	out.ProcessingTime = floorDiv(stamp, 1000)
	commit := int64(0)
	if out.Op != change.Read && d.sourceTime() {
		if commit, err = d.stamp("commit-timestamp", d.meta[dmsCommit]); err != nil {
			return err
		}
		out.EventTimeIsCommit = commit != 0
	}
	return timeOf("commit-timestamp", commit, micros, d.opts, rec, out)
}

// stamp reads a time like 2024-07-29T00:58:17.974340Z, 0 where there is none.
func (d *awsDMS) stamp(name string, t token) (int64, error) {
	switch t.kind {
	case kindNone, kindNull:
		return 0, nil
	case kindString:
	default:
		return 0, fmt.Errorf("metadata.%s is %s", name, t.kind)
	}
	us, zero, err := parseTimestamp(view(d.cells.raw(t)), true)
	if err != nil || zero {
		return 0, fmt.Errorf("metadata.%s is %.40q: %w", name, d.cells.raw(t), errTimestamp)
	}
	return us, nil
}

// row fills in before and after.
func (d *awsDMS) row(out *change.Change, rec *change.Record) error {
	before := d.at[dmsBefore].kind == kindObject
	row, images := d.split()
	if out.Op == change.Delete && len(row) == 0 {
		row = d.old
	}
	if len(row) == 0 {
		return errDMSData
	}
	if out.Op == change.Update {
		out.Whole = true
		out.KeyUnsure = !before && !images && d.opts.DMS.KeyChanges != "none"
	}
	d.cells.b = rec.Value
	return d.fill(d.rows, row, d.old, before || images, out)
}

// split takes the columns with values before the update out of data. A name that
// columns: has is a column, whatever it begins with.
func (d *awsDMS) split() (row []member, images bool) {
	prefix := d.opts.DMS.BeforePrefix
	row = d.data[:0]
	for _, m := range d.data {
		name := view(d.cells.raw(m.name))
		if len(name) > len(prefix) && strings.HasPrefix(name, prefix) {
			if _, own := d.opts.columns[strings.ToLower(name)]; !own {
				m.name.start += int32(len(prefix))
				d.old = append(d.old, m)
				images = true
				continue
			}
		}
		row = append(row, m)
	}
	return row, images
}

var errHex = errors.New("no bytes in hexadecimal")

// hexBytes decodes a string token into the arena, with zeros up to pad bytes.
func (r *cells) hexBytes(t token, pad int) ([]byte, error) {
	if t.kind != kindString {
		return nil, wrongKind(t.kind, "hexadecimal")
	}
	raw, err := r.unescaped(t)
	if err != nil {
		return nil, err
	}
	if len(raw) >= 2 && raw[0] == '0' && raw[1]|0x20 == 'x' {
		raw = raw[2:]
	}
	out := r.arena.Bytes(max(len(raw)/2, pad))
	n, err := hex.Decode(out, raw)
	if err != nil {
		return nil, errHex
	}
	clear(out[n:])
	return out, nil
}

func (r *cells) hex(t token, pad int) (schema.Value, error) {
	out, err := r.hexBytes(t, pad)
	if err == nil && pad > 0 && len(out) > pad {
		err = errLarge
	}
	if err != nil {
		return schema.Value{}, err
	}
	return schema.BinaryValue(view(out)), nil
}

// hexBits reads a number, or the bytes of one with the highest first.
func (r *cells) hexBits(c *codec, t token) (schema.Value, error) {
	if t.kind != kindString {
		return r.bits(c, t)
	}
	b, err := r.hexBytes(t, 0)
	if err != nil {
		return schema.Value{}, err
	}
	var n uint64
	for _, x := range b {
		if n>>56 != 0 {
			return schema.Value{}, errLarge
		}
		n = n<<8 | uint64(x)
	}
	if c.length < 64 && n>>c.length != 0 {
		return schema.Value{}, errLarge
	}
	if c.typ.Primitive == schema.DecimalType {
		return decimalValue(false, uint128{0, n}, r.arena), nil
	}
	return schema.IntValue(int64(n)), nil
}
