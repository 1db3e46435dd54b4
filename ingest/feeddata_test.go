package ingest_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
)

// An adopted table has change data from its adoption on, of the rows of the engine before
// too, also where a later configuration leaves the setting out: the property counts.
func TestChangeDataOfAnAdoptedTable(t *testing.T) {
	s := foreignTable(t, map[int]string{1: "old", 2: "b", 9: "z"}, nil)
	src := &parts{}
	src.put(1, "u", 1, "aa", "16T10", 30)
	src.put(0, "d", 2, "b", "16T11", 40)
	src.put(0, "c", 3, "c", "16T12", 50)
	start := ingest.Start{At: ingest.AtOffsets, Offsets: map[change.PartitionID]int64{src.id(0): 0, src.id(1): 0}}
	feeds := func(o *ingest.Options) { o.ChangeData = true }
	done, err := s.adopt(src, ingest.Adoption{Label: "2022-07-16", Start: &start}, feeds)
	if err != nil {
		t.Fatal(err)
	}
	s.mustRun(src, "17T01:00")
	snap := s.snapshot()
	if p := snap.Protocol(); !strings.Contains(strings.Join(delta.FeaturesOf(p), " "), delta.FeatureChangeDataFeed) {
		t.Errorf("protocol %+v", p)
	}
	changed := 0
	for v := done.Committed; v <= snap.Version(); v++ {
		c, err := s.table.Commit(ctx, v)
		if err != nil {
			t.Fatal(err)
		}
		changed += len(c.CDC)
		if err := checkFeed(ctx, s.table, v, c); err != nil {
			t.Errorf("version %d: %v", v, err)
		}
	}
	if changed == 0 {
		t.Error("no change data files")
	}
}

// Columns that change data names itself are refused, in the table and in a record.
func TestChangeDataReservesColumns(t *testing.T) {
	s := foreignTable(t, nil, func(m *action.Metadata, _ *action.Protocol) {
		columns, err := schema.New(schema.Field{Name: "id", Type: schema.Of(schema.Long)}, schema.Field{Name: "v", Type: schema.Of(schema.StringType), Nullable: true},
			schema.Field{Name: "_Commit_Version", Type: schema.Of(schema.Long), Nullable: true})
		if err != nil {
			t.Fatal(err)
		}
		m.SchemaString = columns.String()
	})
	src := &parts{}
	src.put(0, "c", 1, "a", "16T10", 30)
	start := ingest.Start{At: ingest.AtOffsets, Offsets: map[change.PartitionID]int64{src.id(0): 0}}
	feeds := func(o *ingest.Options) { o.ChangeData = true }
	if _, err := s.adopt(src, ingest.Adoption{Label: "2022-07-16", Start: &start}, feeds); !errors.Is(err, ingest.ErrNotAdoptable) || !strings.Contains(err.Error(), "_Commit_Version") {
		t.Errorf("adopted: %v", err)
	}
	if _, err := s.adopt(src, ingest.Adoption{Label: "2022-07-16", Start: &start}); err != nil {
		t.Fatal(err)
	}
	s.o = feeds
	if err := s.run(src, "16T11:00", nil); !errors.Is(err, ingest.ErrRefused) || !strings.Contains(err.Error(), "_Commit_Version") {
		t.Errorf("switched on: %v", err)
	}

	f := newFound(t, 1)
	f.sc.feeds = 1
	f.put('c', 0, "1", "1")
	f.emit(what{op: 'c', part: 0, key: f.keyOf("2"), after: map[string]string{"id": "2", "v": "1", "_change_type": `"x"`}, time: -1})
	f.look()
	f.sc.f = f.source.f
	f.sc.events, _ = f.deliver()
	if fault := f.sc.play(t); !strings.Contains(fault, `column "_change_type": change data has a column of its own of that name`) {
		t.Errorf("a record with such a column: %s", fault)
	}
}
