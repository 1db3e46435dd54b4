package decode

import (
	"bytes"
	"encoding/binary"
	"os"
	"testing"

	"github.com/gscd-io/gscd/ingest/change"
)

// binlogRecords cuts a file of MariaDB into records, one for each transaction: the
// format description, a ROTATE with the file's name, and the events from GTID to commit.
func binlogRecords(t testing.TB, path, name string) (out [][]byte) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var format, group []byte
	rotate := make([]byte, 27, 27+len(name))
	rotate[4], rotate[17], rotate[19] = 4, 0x20, 4
	binary.LittleEndian.PutUint32(rotate[9:], uint32(27+len(name)))
	rotate = append(rotate, name...)
	for at := 4; at < len(raw); {
		size := int(binary.LittleEndian.Uint32(raw[at+9:]))
		ev := raw[at : at+size]
		at += size
		switch ev[4] {
		case 15:
			format = ev
		case 162: // GTID
			group = append(append(bytes.Clone(format), rotate...), ev...)
		case 16, 2: // XID, a statement
			out = append(out, append(group, ev...))
			group = nil
		default:
			group = append(group, ev...)
		}
	}
	return out
}

func TestBinlogRecords(t *testing.T) {
	d, err := New(Auto, Options{Source: "edge.texts"})
	if err != nil {
		t.Fatal(err)
	}
	arena := &change.Arena{}
	var rows []map[string]typed
	for offset, value := range binlogRecords(t, "../../capture/binlog/testdata/edge.000002", "edge.000002") {
		rec := change.Record{Offset: int64(offset), Value: value}
		rec.Rows = int32(d.Rows(&rec))
		for ; rec.Row == 0 || rec.Row < rec.Rows; rec.Row++ {
			var c, again change.Change
			if err := d.Decode(&rec, arena, &c); err != nil {
				t.Fatalf("record %d row %d: %v", offset, rec.Row, err)
			}
			if c.Op == change.Filtered {
				continue
			}
			if c.Op != change.Insert || !c.HasPosition || c.Position.File != 2 || c.Position.Row != rec.Row || c.GTID == "" || len(c.Key) != 1 {
				t.Errorf("record %d row %d: %+v", offset, rec.Row, c)
			}
			row := named(c.Columns, c.After)
			rows = append(rows, row)
			// A row by itself says the same.
			alone := d.Alone(&rec)
			if err := d.Decode(alone, arena, &again); err != nil || again.Position != c.Position || len(again.After) != len(c.After) || again.After[1] != c.After[1] {
				t.Errorf("alone: %+v, %v", again, err)
			}
		}
	}
	if d.Format() != Binlog || len(rows) != 2 {
		t.Fatalf("format %q, %d rows", d.Format(), len(rows))
	}
	for column, want := range map[string]string{"latin1": "äöü€ß", "gbk": "你好", "utf16": "𝄞é", "en": "ö", "st": "ä,ß", "id": "1"} {
		if got := show(rows[0][column]); got != want {
			t.Errorf("%s: %s, want %s", column, got, want)
		}
	}
}

// Every cut of a record is an error or has fewer rows, never a panic.
func TestBinlogRecordCut(t *testing.T) {
	records := binlogRecords(t, "../../capture/binlog/testdata/edge.000002", "edge.000002")
	d, err := New(Binlog, Options{})
	if err != nil {
		t.Fatal(err)
	}
	faults := 0
	for _, value := range records {
		for n := range value {
			rec := change.Record{Value: bytes.Clone(value[:n])}
			if d.Rows(&rec) == 0 {
				t.Fatal("no rows")
			}
			var c change.Change
			if d.Decode(&rec, &change.Arena{}, &c) != nil {
				faults++
			}
		}
	}
	if faults < 1000 {
		t.Errorf("%d cuts of records were faults", faults)
	}
}
