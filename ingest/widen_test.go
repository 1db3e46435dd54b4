package ingest_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/savepoint"
)

// A column is widened, and the key with it, right before a commit of a running ingester:
// the ingester takes what it had in hand again, and the day is as if nothing had been.
func TestWidenBesideIngester(t *testing.T) {
	for _, copyOnWrite := range []bool{false, true} {
		s := newDDLSource(t, 2)
		s.run(t, "ALTER TABLE t ADD n int")
		s.filled = true
		for i := range 6 {
			s.row("c", i)
		}
		s.tick(24 * time.Hour)
		for i := range 4 {
			s.row("u", i)
		}
		s.row("d", 5)
		s.tick(24 * time.Hour)
		s.row("c", 6)
		s.row("c", 7)

		table := newShared(t)
		table.o = func(o *ingest.Options) { o.Format, o.CopyOnWrite, o.BatchRows = "gscd-json", copyOnWrite, 3 }
		widened := false
		before := func(version int64) {
			if version < 4 || widened {
				return
			}
			widened = true
			snap := table.snapshot()
			p, err := savepoint.ProgressOf(context.Background(), table.table, snap)
			if err != nil {
				t.Fatal(err)
			}
			report, err := layout.Widen(context.Background(), table.table, map[string]schema.Type{"n": schema.Of(schema.Long), "id": schema.Of(schema.Long)}, ingest.Layout(p))
			if err != nil || len(report.Versions) != 1 {
				t.Fatal(report, err)
			}
		}
		if err := table.run(s.upTo(100, 100), "18T05:00", before); err != nil {
			t.Fatal(err)
		}
		p := table.progress()
		if !widened || p.Totals.DeadLetters != 0 || len(p.Foreign) != 0 {
			t.Fatalf("widened %t, %+v, %+v", widened, p.Totals, p.Foreign)
		}
		var types []string
		for _, f := range table.snapshot().Schema().Fields {
			types = append(types, f.Type.String())
		}
		if !slices.Equal(types, []string{"long", "string", "string", "string", "long"}) {
			t.Errorf("types %v", types)
		}
		s.check(t, table, 0)
	}
}
