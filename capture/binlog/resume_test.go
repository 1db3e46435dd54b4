package binlog_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/capture/binlog"
	"github.com/gscd-io/gscd/capture/event"
	"github.com/gscd-io/gscd/ddl"
)

// line is what two readings of a log have to have in common.
func line(ev *event.Event) string {
	s := fmt.Sprintf("%d %s %d/%d %s %t", ev.Op, ev.Source.File, ev.Source.Pos, ev.Source.Row, ev.Source.GTID, ev.Source.Last)
	for _, cells := range [][]event.Cell{ev.Before, ev.After} {
		for _, c := range cells {
			s += fmt.Sprint(" ", value(c))
		}
	}
	return s
}

// from is the file as a server sends it from a place on: its name, its format, and the
// events behind the place.
func from(raw []byte, name string, pos uint64) *memory {
	size := binary.LittleEndian.Uint32(raw[4+9:])
	cut := append(append([]byte(nil), raw[:4+size]...), raw[pos:]...)
	return &memory{name: name, raw: cut}
}

// A reader that goes on at any position of another one gives exactly what that one
// gave behind it.
func TestResume(t *testing.T) {
	for _, name := range []string{"edge.000002", "flow.000005"} {
		raw, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		ctx := context.Background()
		read := func(pos uint64, known map[string]*ddl.Table) (lines []string, places []uint64, positions []binlog.Position, tables []map[string]*ddl.Table) {
			catalog, now, safe := ddl.NewCatalog(), maps.Clone(known), known
			for _, t := range known {
				catalog.Put(t)
			}
			r := binlog.NewReader(from(raw, name, max(pos, 4+uint64(binary.LittleEndian.Uint32(raw[4+9:])))), catalog, binlog.Options{Name: "app"})
			for {
				ev, err := r.Next(ctx)
				if err == io.EOF {
					return lines, places, positions, tables
				}
				if err != nil {
					t.Fatalf("%s from %d: %v", name, pos, err)
				}
				if ev.Op == event.Schema {
					now = maps.Clone(now)
					if ev.Old != nil {
						delete(now, ev.Old.Database+"."+ev.Old.Name)
					}
					if ev.Table != nil {
						now[ev.Table.Database+"."+ev.Table.Name] = ev.Table
					}
				}
				if ev.Source.Last {
					safe = now
				}
				lines, places = append(lines, line(ev)), append(places, ev.Source.Pos)
				positions, tables = append(positions, r.Position()), append(tables, safe)
			}
		}
		lines, places, positions, tables := read(0, map[string]*ddl.Table{})
		if len(lines) < 10 {
			t.Fatalf("%s: %d events", name, len(lines))
		}
		for i, p := range positions {
			at := 0
			for at < len(lines) && places[at] < p.Pos {
				at++
			}
			if want := "false"; at <= i && !strings.Contains(lines[i], want) && !strings.Contains(lines[i], "between") {
				t.Errorf("%s: the position behind %q is %+v", name, lines[i], p)
			}
			got, _, _, _ := read(p.Pos, tables[i])
			want := lines[at:]
			if !slices.Equal(got, want) {
				t.Fatalf("%s: behind event %d (%s), from %+v:\n%q\nwant\n%q", name, i, lines[i], p, got, want)
			}
		}
	}
}

// slow gives an error of its context at every other call.
type slow struct {
	log  binlog.Log
	wait bool
}

func (s *slow) Next(ctx context.Context) ([]byte, error) {
	if s.wait = !s.wait; s.wait {
		return nil, context.Canceled
	}
	return s.log.Next(context.Background())
}

// After an error of its context a reader goes on where it was.
func TestInterrupted(t *testing.T) {
	raw, err := os.ReadFile("testdata/flow.000005")
	if err != nil {
		t.Fatal(err)
	}
	read := func(log binlog.Log) (lines []string) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		r := binlog.NewReader(log, ddl.NewCatalog(), binlog.Options{Name: "app"})
		for {
			ev, err := r.Next(ctx)
			switch {
			case err == io.EOF:
				return lines
			case errors.Is(err, context.Canceled):
			case err != nil:
				t.Fatal(err)
			default:
				lines = append(lines, line(ev))
			}
		}
	}
	want := read(&memory{name: "flow.000005", raw: raw})
	if got := read(&slow{log: &memory{name: "flow.000005", raw: raw}}); !slices.Equal(got, want) || len(got) < 20 {
		t.Errorf("%q\nwant\n%q", got, want)
	}
}

// What the errors of the samples are, and that they name the statement.
func TestRefused(t *testing.T) {
	for name, want := range map[string]struct {
		err  error
		text string
	}{
		"binlog/blackbeam/bug40482-bin.000001": {binlog.ErrIncident, "were lost here"},
		"binlog/blackbeam/ver_5_1_23.001":      {binlog.ErrStatementFormat, "byte"},
		"binlog/percona/raw_binlog.log":        {binlog.ErrStatementFormat, "insert into nokey"},
		"binlog/zalora/mysql-bin.05":           {binlog.ErrStatementFormat, "DELETE"},
		"binlog/zalora/mysql-bin.01":           {binlog.ErrNoDefinition, "test_db.buildings"},
	} {
		files := binlog.OpenFiles(cdcFile(t, name))
		r := binlog.NewReader(files, ddl.NewCatalog(), binlog.Options{})
		var err error
		for err == nil {
			_, err = r.Next(context.Background())
		}
		files.Close()
		var at *binlog.Error
		if !errors.Is(err, want.err) || !errors.As(err, &at) || at.Pos < 4 || !strings.Contains(err.Error(), want.text) {
			t.Errorf("%s: %v", name, err)
		}
		if _, again := r.Next(context.Background()); again != err {
			t.Errorf("%s: asked again: %v", name, again)
		}
		t.Log(err)
	}
}

// A file that is missing between two is told.
func TestGap(t *testing.T) {
	files := binlog.OpenFiles("testdata/flow.000005", "testdata/edge.000002")
	defer files.Close()
	r := binlog.NewReader(files, ddl.NewCatalog(), binlog.Options{})
	var err error
	for err == nil {
		_, err = r.Next(context.Background())
	}
	if !errors.Is(err, binlog.ErrGap) {
		t.Errorf("%v", err)
	}
}
