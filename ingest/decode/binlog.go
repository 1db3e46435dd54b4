package decode

import (
	"context"
	"errors"
	"io"
	"math"
	"unsafe"

	"github.com/gscd-io/gscd/capture/binlog"
	"github.com/gscd-io/gscd/capture/event"
	"github.com/gscd-io/gscd/ddl"
	"github.com/gscd-io/gscd/ingest/change"
)

// Binlog is the format of records that hold raw binlog events.
const Binlog = "binlog"

// rawBinlog reads the events of a record into the form of gscd capture, a record of
// one row each, and these with its decoder: the types are the same, and a row can be kept
// by itself.
type rawBinlog struct {
	rows *gscd
	enc  *event.Encoder

	// scanned is the value that was read last, fault what is wrong with it.
	scanned []byte
	fault   error
	values  [][]byte
	seen    recognition
}

func newRawBinlog(o *Options) *rawBinlog {
	enc, err := event.NewEncoder(event.GSCD)
	if err != nil { // the form is one of them
		panic(err)
	}
	return &rawBinlog{rows: newGSCD(o), enc: enc}
}

func (d *rawBinlog) Format() string { return Binlog }

func (d *rawBinlog) recognised() recognition { return d.seen }

// message reads the record's events, unless it was the last one. A row that was kept by
// itself stands as it is.
func (d *rawBinlog) message(rec *change.Record) error {
	if len(rec.Value) == len(d.scanned) && unsafe.SliceData(rec.Value) == unsafe.SliceData(d.scanned) && d.scanned != nil {
		return d.fault
	}
	d.scanned, d.values, d.fault = rec.Value, d.values[:0], nil
	if len(rec.Value) > 0 && rec.Value[0] == '{' {
		d.values = append(d.values, rec.Value)
		return nil
	}
	if d.fault = d.read(rec.Value); d.fault != nil {
		d.fault = &Error{Reason: ReasonDecode, Err: d.fault}
	}
	return d.fault
}

var errNoEvents = errors.New("no binlog event in the record")

func (d *rawBinlog) read(raw []byte) error {
	if len(raw) < 19 {
		return errNoEvents
	}
	r := binlog.NewReader(binlog.NewEvents(raw), ddl.NewCatalog(), binlog.Options{})
	var all []byte
	var ends []int
	for {
		ev, err := r.Next(context.Background())
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if ev.Op == event.Heartbeat {
			continue
		}
		all = d.enc.Append(all, ev)
		if ends = append(ends, len(all)); len(ends) > maxRows {
			return errManyRows
		}
	}
	from := 0
	for _, end := range ends {
		d.values = append(d.values, all[from:end:end])
		from = end
	}
	return nil
}

// Rows implements Decoder.
func (d *rawBinlog) Rows(rec *change.Record) int {
	if rec.Value == nil || len(rec.Value) > math.MaxInt32 || d.message(rec) != nil {
		return 1
	}
	return max(1, len(d.values))
}

// Alone implements Decoder: the row as gscd capture writes it.
func (d *rawBinlog) Alone(rec *change.Record) *change.Record {
	if rec.Rows <= 1 || d.Rows(rec) <= 1 || int(rec.Row) >= len(d.values) {
		return rec
	}
	alone := *rec
	alone.Value, alone.Rows = d.values[rec.Row], 0
	return &alone
}

// Decode implements Decoder.
func (d *rawBinlog) Decode(rec *change.Record, arena *change.Arena, out *change.Change) error {
	out.Reset()
	d.seen = foreign
	if len(rec.Value) > math.MaxInt32 {
		return decodeError("the record is larger than 2 GiB")
	}
	if rec.Value == nil {
		d.seen = neutral
		out.Op = change.Tombstone
		if d.rows.opts.Tombstones != "delete" {
			return nil
		}
		return needKey(out, errNullKey, "a tombstone that is to delete")
	}
	if err := d.message(rec); err != nil {
		return err
	}
	d.seen = own
	if len(d.values) == 0 { // the begin or the end of a transaction
		out.Op = change.Filtered
		return nil
	}
	at := 0
	if len(d.values) > 1 {
		at = int(rec.Row)
	}
	if at >= len(d.values) {
		return decodeError("row %d of a record of %d", at, len(d.values))
	}
	row := *rec
	row.Value = d.values[at]
	err := d.rows.Decode(&row, arena, out)
	if err == nil && !out.HasPosition {
		out.Position = change.Position{Row: rec.Row}
	}
	if rec.Value[0] == '{' {
		d.seen = d.rows.recognised()
	}
	return err
}
