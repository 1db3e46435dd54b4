package transform

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
)

// ReasonFilter is the reason of a record of which the row filter can't be judged.
const ReasonFilter decode.Reason = "filter"

// Decoder gives the changes of a format's decoder as the Rules have them. It is not
// safe for concurrent use.
type Decoder struct {
	decode.Decoder
	rules   *Rules
	plans   map[*change.Columns]*plan
	filters map[filterKey]*filter
	mac     hash.Hash
	sealer  *sealer // nil: stored records are as they came
	sum     [sha256.Size]byte
}

// Wrap puts the rules around a decoder; nil rules change nothing.
func (r *Rules) Wrap(d decode.Decoder) decode.Decoder {
	if r == nil {
		return d
	}
	out := &Decoder{Decoder: d, rules: r}
	if len(r.hash) > 0 {
		out.mac = hmac.New(sha256.New, r.secret)
	}
	if len(r.secret) > 0 {
		out.sealer = newSealer(r.secret) // also where it seals no more: what is stored may be
	}
	return out
}

// Rows implements decode.Decoder.
func (d *Decoder) Rows(rec *change.Record) int {
	if IsSealed(rec) {
		return 1 // what is stored stands alone
	}
	return d.Decoder.Rows(rec)
}

// Alone implements decode.Decoder: the record as it is stored.
func (d *Decoder) Alone(rec *change.Record) *change.Record {
	if IsSealed(rec) {
		return rec
	}
	alone := d.Decoder.Alone(rec)
	if d.rules.Seals() && d.sealer != nil {
		if sealed, err := d.sealer.seal(alone); err == nil { // keys of a fixed length are always made
			return sealed
		}
		alone = &change.Record{Topic: rec.Topic, Partition: rec.Partition, Offset: rec.Offset, Row: rec.Row, Timestamp: rec.Timestamp}
	}
	return alone
}

// maxPlans bounds the shapes that are remembered.
const maxPlans = 256

// plan is what becomes of a shape's columns.
type plan struct {
	out  *change.Columns
	from []int
	// hashed and masked tell of each column of out; masks says how.
	hashed, masked []bool
	masks          []Mask
	// same tells that nothing changes but names.
	same bool
	// lost is a column that is left out or masked, "" for none.
	lost string
}

// Decode implements decode.Decoder.
func (d *Decoder) Decode(rec *change.Record, arena *change.Arena, out *change.Change) error {
	if IsSealed(rec) {
		if d.sealer == nil {
			return &decode.SchemaError{Err: errSealed}
		}
		opened, err := d.sealer.open(rec)
		if err != nil {
			return err
		}
		rec = opened
	}
	if err := d.Decoder.Decode(rec, arena, out); err != nil {
		return err
	}
	switch out.Op {
	case change.Filtered, change.Heartbeat:
		return nil
	}
	var shard string
	if d.rules.shard != nil && out.Op != change.Tombstone {
		var err error
		if shard, err = d.rules.shardOf(rec, out); err != nil {
			*out = change.Change{Op: out.Op}
			return err
		}
		apart(out, shard)
	} else if d.rules.shard != nil {
		// A tombstone names its topic at most: without its shard its key is none.
		if shard, _ = d.rules.shardOf(rec, out); shard == "" {
			out.KeyColumns, out.Key = nil, nil
		}
	}
	switch out.Op {
	case change.Truncate:
		return nil
	case change.Schema:
		s, err := d.rules.schema(out.Schema)
		if err != nil {
			*out = change.Change{Op: out.Op}
		}
		out.Schema = s
		return err
	}
	err := d.filter(out)
	if err == nil && out.Op != change.Filtered {
		err = d.columns(arena, out, shard)
	}
	if err != nil {
		*out = change.Change{Op: out.Op}
	}
	return err
}

// columns changes the columns of row, row before and key.
func (d *Decoder) columns(arena *change.Arena, out *change.Change, shard string) (err error) {
	if out.Columns, out.After, _, err = d.row(arena, out.Columns, out.After, shard); err != nil {
		return err
	}
	if out.BeforeColumns, out.Before, _, err = d.row(arena, out.BeforeColumns, out.Before, shard); err != nil {
		return err
	}
	var lost string
	if out.KeyColumns, out.Key, lost, err = d.row(arena, out.KeyColumns, out.Key, shard); err != nil {
		return err
	}
	if lost != "" && !d.rules.ownKey {
		return &decode.Error{Reason: decode.ReasonKey, Err: fmt.Errorf("column %q is of the record's key, and is left out or masked: rows would become one; set key to other columns, or take it", lost)}
	}
	return nil
}

func (d *Decoder) row(arena *change.Arena, cols *change.Columns, cells []schema.Value, shard string) (*change.Columns, []schema.Value, string, error) {
	if cols == nil {
		return nil, cells, "", nil
	}
	p := d.plans[cols]
	if p == nil {
		var err error
		if p, err = d.rules.plan(cols); err != nil {
			return nil, nil, "", err
		}
		if d.plans == nil || len(d.plans) >= maxPlans {
			d.plans = map[*change.Columns]*plan{}
		}
		d.plans[cols] = p
	}
	if p.same {
		return p.out, cells, p.lost, nil
	}
	out := arena.Values(len(p.from))
	for i, from := range p.from {
		if from < 0 {
			out[i] = schema.StringValue(shard)
			continue
		}
		v := cells[from]
		switch {
		case v.Kind == schema.Null || v.Kind == schema.Unavailable:
		case p.masked[i]:
			v = p.masks[i].of(arena, v, cols.List[from].Type)
		case p.hashed[i]:
			v = d.hash(arena, v, cols.List[from].Type)
		}
		out[i] = v
	}
	return p.out, out, p.lost, nil
}

// plan is made once for a shape.
func (r *Rules) plan(cols *change.Columns) (*plan, error) {
	p := &plan{out: &change.Columns{FromSchema: cols.FromSchema}, same: true}
	seen := map[string]string{}
	if r.shard != nil {
		p.out.List = append(p.out.List, change.Column{Name: r.shard.Column, Type: schema.Of(schema.StringType)})
		p.from, p.hashed, p.masked, p.masks = append(p.from, -1), append(p.hashed, false), append(p.masked, false), append(p.masks, Mask{})
		p.same = false
		seen[strings.ToLower(r.shard.Column)] = "shard_column"
	}
	for i, col := range cols.List {
		name := strings.ToLower(col.Name)
		if !r.takes(name) {
			p.lost, p.same = col.Name, false
			continue
		}
		mask, masked := r.mask[name]
		if masked {
			p.lost = col.Name
		}
		out := change.Column{Name: r.TableName(col.Name), Type: col.Type}
		if masked || r.hash[name] {
			p.same = false
		}
		if r.Text(name) {
			out.Type = schema.Of(schema.StringType)
		}
		if other, twice := seen[strings.ToLower(out.Name)]; twice {
			return nil, &decode.Error{Reason: decode.ReasonDecode, Err: fmt.Errorf("columns %q and %q are both called %q in the table", other, col.Name, out.Name)}
		}
		seen[strings.ToLower(out.Name)] = col.Name
		p.out.List = append(p.out.List, out)
		p.from = append(p.from, i)
		p.hashed = append(p.hashed, r.hash[name])
		p.masked = append(p.masked, masked)
		p.masks = append(p.masks, mask)
	}
	return p, nil
}

// hash gives the keyed hash of a value's text.
func (d *Decoder) hash(arena *change.Arena, v schema.Value, t schema.Type) schema.Value {
	d.mac.Reset()
	d.mac.Write([]byte(textOf(v, t)))
	sum := d.mac.Sum(d.sum[:0])
	out := arena.Bytes(hex.EncodedLen(len(sum)))
	hex.Encode(out, sum)
	return schema.StringValue(arena.String(out))
}

// textOf is what is hashed of a value: text and bytes as they are, numbers in
// decimal, times as the number that is stored.
func textOf(v schema.Value, t schema.Type) string {
	switch v.Kind {
	case schema.Dec:
		return v.DecimalText(t.Scale)
	case schema.Bool:
		return strconv.FormatBool(v.I == 1)
	case schema.Float:
		return strconv.FormatFloat(float64(v.Float32()), 'g', -1, 32)
	case schema.Double:
		return strconv.FormatFloat(v.Float64(), 'g', -1, 64)
	case schema.Int:
		return strconv.FormatInt(v.I, 10)
	}
	return v.S
}
