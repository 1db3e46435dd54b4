package binlog_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/capture/event"
	"github.com/gscd-io/gscd/ddl"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
)

// TestExpectedAsRecords takes the events through each form's records: written, read by
// the decoder of the form, and applied, they give the same rows.
func TestExpectedAsRecords(t *testing.T) {
	formats := map[event.Form]string{event.GSCD: decode.GSCDJSON, event.Debezium: "debezium-json", event.DebeziumSchemas: "debezium-json"}
	for _, e := range expectations(t) {
		if e.Error {
			continue
		}
		for form, format := range formats {
			t.Run(fmt.Sprint(e.File)+"/"+e.Table+"/"+string(form), func(t *testing.T) { e.checkRecords(t, form, format) })
		}
	}
}

func (e *expectation) checkRecords(t *testing.T, form event.Form, format string) {
	r, files := e.reader(t)
	defer files.Close()
	enc, err := event.NewEncoder(form)
	if err != nil {
		t.Fatal(err)
	}
	m := &mirror{keys: e.Keys, rows: map[string]map[string]any{}}
	if len(e.rows) > 0 && e.rows[0]["@1"] != nil {
		m.keys = []string{"@1"}
	}
	if e.Table == "datetime_key_test.dbz_1194_datetime_key_test" {
		m.keys = []string{"id"} // the others are zero dates, and NULL then
	}
	changes := map[string]int{}
	count := 0
	decoders := map[*ddl.Table]decode.Decoder{}
	arena := &change.Arena{}
	var offset int64
	for {
		ev, err := r.Next(context.Background())
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if ev.Op == event.Schema {
			m.shape(ev)
			if form == event.GSCD {
				var c change.Change
				d := newDecoder(t, format, decode.Options{})
				if err := d.Decode(&change.Record{Value: enc.Append(nil, ev)}, arena, &c); err != nil || c.Op != change.Filtered && c.Op != change.Schema {
					t.Errorf("a statement: %s, %v", c.Op, err)
				}
			}
			continue
		}
		// Records without types are read by those of the configuration.
		d := decoders[ev.Table]
		if d == nil {
			o := decode.Options{}
			if form == event.Debezium {
				o.Columns = map[string]decode.ColumnSpec{}
				for _, c := range ev.Table.Columns {
					if spec, err := decode.ParseColumnType(c.Type); err == nil {
						o.Columns[c.Name] = spec
					}
				}
			}
			d = newDecoder(t, format, o)
			decoders[ev.Table] = d
		}
		name := ev.Table.Database + "." + ev.Table.Name
		op := ev.Op
		err = enc.Records(ev, func(out event.Record) error {
			rec := change.Record{Key: bytes.Clone(out.Key), Value: bytes.Clone(out.Value), Offset: offset}
			for _, h := range out.Headers {
				rec.Headers = append(rec.Headers, change.Header{Key: h.Key, Value: h.Value})
			}
			offset++
			var c change.Change
			if err := d.Decode(&rec, arena, &c); err != nil {
				return fmt.Errorf("%s: %w", out.Value, err)
			}
			if form == event.GSCD && c.HasPosition { // a file's name without a number gives none
				if c.Position.Pos != int64(ev.Source.Pos) || c.Position.Row != ev.Source.Row || c.GTID != ev.Source.GTID || c.EventTime != ev.Source.Time || c.EventTimeIsCommit != ev.Source.CommitTime {
					t.Errorf("source %+v became %+v", ev.Source, c)
				}
			}
			if c.Before != nil && e.Table != "" {
				if err := m.remove(decoded(c.BeforeColumns, c.Before)); err != nil && e.RowChanges == nil {
					t.Error(err)
				}
			}
			if c.After != nil {
				m.put(decoded(c.Columns, c.After))
			}
			if c.Op == change.Truncate {
				clear(m.rows)
				m.bag = nil
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		switch op {
		case event.Insert:
			changes[name+" I"]++
			count++
		case event.Update:
			changes[name+" U"]++
		case event.Delete:
			changes[name+" D"]++
		}
	}
	e.judge(t, m, changes, count)
}

func newDecoder(t *testing.T, format string, o decode.Options) decode.Decoder {
	t.Helper()
	d, err := decode.New(format, o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// decoded gives a decoded row in the forms that expectations compare with.
func decoded(cols *change.Columns, cells []schema.Value) map[string]any {
	row := map[string]any{}
	for i, c := range cols.List {
		row[c.Name] = printed(cells[i], c.Type)
	}
	return row
}

func printed(v schema.Value, t schema.Type) any {
	switch v.Kind {
	case schema.Null:
		return nil
	case schema.Unavailable:
		return "(absent)"
	case schema.Dec:
		return v.DecimalText(t.Scale)
	case schema.Float:
		return v.Float32()
	case schema.Double:
		return v.Float64()
	case schema.Bool:
		return strconv.FormatInt(v.I, 10)
	case schema.Binary:
		return "b64:" + base64.StdEncoding.EncodeToString([]byte(v.S))
	case schema.String, schema.Number:
		return v.S
	}
	switch t.Primitive {
	case schema.Date:
		return time.Unix(v.I*86400, 0).UTC().Format(time.DateOnly)
	case schema.Timestamp, schema.TimestampNTZ:
		return time.UnixMicro(v.I).UTC().Format("2006-01-02 15:04:05.999999")
	}
	return strconv.FormatInt(v.I, 10)
}

// sameTime compares a date or time with what the server printed: the digits of the
// second's part that are zero may be missing, a TIME may be microseconds, and a zero
// date is NULL.
func sameTime(got any, want string) bool {
	if got == nil {
		return strings.HasPrefix(want, "0000-00-00") || len(want) >= 10 && want[4] == '-' && (want[5:7] == "00" || want[8:10] == "00")
	}
	g, ok := got.(string)
	if !ok {
		return false
	}
	trim := func(s string) string {
		if strings.Contains(s, ".") {
			s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
		}
		return s
	}
	if trim(g) == trim(want) && strings.Contains(want, ":") {
		return true
	}
	n, err := strconv.ParseInt(g, 10, 64)
	if err != nil || !strings.Contains(want, ":") {
		return false
	}
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	return trim(fmt.Sprintf("%s%02d:%02d:%02d.%06d", sign, n/3600e6, n/60e6%60, n/1e6%60, n%1e6)) == trim(want)
}
