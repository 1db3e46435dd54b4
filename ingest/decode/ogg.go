package decode

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
)

// OGGJSON is the format of Oracle GoldenGate's JSON formatter, one operation a record.
const OGGJSON = "ogg-json"

// OGG says how GoldenGate was set up.
type OGG struct {
	// Timezone is the zone of op_ts; nil: UTC, which goldengate.userexit.timestamp=utc gives.
	Timezone *time.Location
}

// ogg reads GoldenGate's records: the rows before and after, without types.
type ogg struct {
	single
	flat
	before, after []member
	rows          *rowSchema
	seen          recognition
}

// The members of a record that matter.
const (
	oggTable = iota
	oggType
	oggTime
	oggCurrent
	oggPos
	oggKey
	oggBefore
	oggAfter
)

var oggNames = []string{"table", "op_type", "op_ts", "current_ts", "pos", "primary_keys", "before", "after"}

func newOGG(o *Options) *ogg {
	o = o.writtenAs(oggCodec)
	d := &ogg{flat: newFlat(o, oggNames), rows: newRowSchema(o, nil)}
	d.inside = func(slot, at int) (end int, took bool) {
		switch {
		case d.scan.b[at] != '{':
		case slot == oggBefore:
			d.before, end = d.scan.members(at+1, 2, d.before)
			return end, true
		case slot == oggAfter:
			d.after, end = d.scan.members(at+1, 2, d.after)
			return end, true
		}
		return 0, false
	}
	return d
}

// oggCodec tells how GoldenGate writes a type where it differs from Debezium: with
// treatAllColumnsAsStrings numbers are texts, and decimals are texts of digits.
func oggCodec(_ ColumnSpec, c codec) codec {
	switch c.enc {
	case encInt, encUnsigned, encFloat, encDouble:
		c.quoted = true
	case encDecimal, encLongDecimal:
		c.base64 = false
	}
	return c
}

func (d *ogg) Format() string { return OGGJSON }

func (d *ogg) recognised() recognition { return d.seen }

// Decode implements Decoder.
func (d *ogg) Decode(rec *change.Record, arena *change.Arena, out *change.Change) error {
	d.before, d.after = d.before[:0], d.after[:0]
	return d.oneRow(rec, arena, out, reading{seen: &d.seen, row: d.decode})
}

var (
	errNoOGG  = errors.New("no record of GoldenGate: table and op_type are missing")
	errOGGRow = errors.New("the record has no row: is the formatter json, and does the trail have full images?")
)

func (d *ogg) decode(rec *change.Record, out *change.Change) error {
	r := &d.cells
	if d.at[oggTable].kind != kindString || d.at[oggType].kind != kindString {
		return errNoOGG
	}
	row, changed := d.after, false
	switch kind := d.word(oggType); kind {
	case "I":
		out.Op = change.Insert
	case "U":
		out.Op = change.Update
		changed = d.at[oggBefore].kind == kindObject
	case "D":
		out.Op = change.Delete
		row = d.before
	case "T":
		out.Op = change.Truncate
	default:
		return fmt.Errorf("unknown op_type %.40q", r.raw(d.at[oggType]))
	}
	d.seen = own
	if d.opts.Source != "" {
		if mine, err := d.ofTable(out); err != nil || !mine {
			out.Op = change.Filtered
			return err
		}
	}
	if err := d.origin(rec, out); err != nil || out.Op == change.Truncate {
		return err
	}
	if len(row) == 0 {
		return errOGGRow
	}
	if err := d.namedKey(oggKey, row, d.keyRows, out); err != nil {
		return err
	}
	return d.fill(d.rows, row, d.before, changed, out)
}

// ofTable reports whether the record is of the table "owner.table": table may have a
// catalog in front of the two.
func (d *ogg) ofTable(out *change.Change) (bool, error) {
	name, err := text(d.cells.b, d.at[oggTable], d.cells.arena)
	if err != nil {
		return false, err
	}
	parts := strings.Split(name, ".")
	if len(parts) < 2 {
		return false, nil
	}
	mine := d.opts.takes(parts[len(parts)-2], parts[len(parts)-1], out)
	if !d.opts.pattern {
		rest, ok := strings.CutSuffix(name, d.opts.Source)
		mine = ok && (rest == "" || strings.HasSuffix(rest, "."))
	}
	return mine, nil
}

// origin fills in when the change was made. pos is a place in the trail, which is
// written anew where GoldenGate is set back: its order is no promise.
func (d *ogg) origin(rec *change.Record, out *change.Change) error {
	us := int64(0)
	if t := d.at[oggTime]; d.sourceTime() && t.kind != kindNone && t.kind != kindNull {
		v, err := d.stamp(t)
		if err != nil {
			return fmt.Errorf("op_ts is %.40q: %w", d.cells.raw(t), err)
		}
		us = v
	}
	if v, err := d.stamp(d.at[oggCurrent]); err == nil { // GoldenGate's own clock
		out.ProcessingTime = floorDiv(v, 1000)
	}
	return timeOf("op_ts", us, micros, d.opts, rec, out)
}

// stamp reads a time like 2020-05-13 15:40:06.000000, in the zone configured
// unless it names its own.
func (d *ogg) stamp(t token) (int64, error) {
	if t.kind != kindString {
		return 0, errTimestamp
	}
	s := view(d.cells.raw(t))
	us, zero, err := parseTimestamp(s, true)
	if errors.Is(err, errZone) {
		if us, zero, err = parseTimestamp(s, false); err == nil && d.opts.OGG.Timezone != nil {
			us = inZone(schema.IntValue(us), d.opts.OGG.Timezone)
		}
	}
	if err == nil && zero {
		err = errTimestamp
	}
	return us, err
}
