package savepoint_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
	"github.com/gscd-io/gscd/savepoint"
)

// record records what checksums are missing.
func (g *rig) record() []savepoint.RecordedChecksum {
	g.t.Helper()
	done, err := savepoint.RecordChecksums(ctx, g.table(), savepoint.ChecksumOptions{})
	if err != nil {
		g.t.Fatal(err)
	}
	return done
}

// Checksums are those of the rows, made from the day before where that is less work; they
// stay through vacuum, log cleanup, rollback and other layouts, and the deep check agrees.
func TestChecksums(t *testing.T) {
	g := newRig(t)
	for id := 200; id < 1200; id++ {
		g.put(july(1, 0), "c", id, strings.Repeat(fmt.Sprint("stays ", id), 20))
	}
	for day := 1; day <= 3; day++ {
		g.day(day, 1, 2, 3, day+10)
		g.put(july(day, 22), "d", day+9, "")
	}
	g.ingest()
	dry, err := savepoint.RecordChecksums(ctx, g.table(), savepoint.ChecksumOptions{DryRun: true})
	if err != nil || len(dry) != 2 {
		t.Fatalf("dry run: %+v, %v", dry, err)
	}
	done := g.record()
	if len(done) != 2 || done[0].From != -1 || done[1].From != done[0].Version {
		t.Fatalf("recorded %+v", done)
	}
	table, s, m := g.newest()
	for _, d := range done {
		at, err := table.SnapshotAt(ctx, d.Version)
		if err != nil {
			t.Fatal(err)
		}
		if whole, err := savepoint.ContentOf(ctx, g.store, at); err != nil || whole != d.Content {
			t.Errorf("%v: step by step %s of %d rows, whole %s of %d, %v", d.Names, d.Text(), d.Rows, whole.Text(), whole.Rows, err)
		}
	}
	if again := g.record(); len(again) != 0 {
		t.Errorf("recorded again: %+v", again)
	}

	// Other days, a rollback, a vacuum and other files later.
	g.day(4, 1, 2, 3)
	g.put(july(5, 1), "u", 1, "x")
	g.put(july(5, 1), "u", 2, "x")
	g.ingest()
	g.rollback(m.Calendar.Name(m.Entries[1].Label), savepoint.RollbackOptions{})
	if _, err := layout.Optimize(ctx, g.table(), layout.Options{}); err != nil {
		t.Fatal(err)
	}
	g.vacuum(savepoint.VacuumOptions{})
	g.record()
	_, s, _ = g.newest()
	for _, d := range done {
		if c, ok, err := savepoint.ReadChecksum(ctx, g.store, s, d.Version); err != nil || !ok || c != d.Checksum {
			t.Errorf("later: %+v, %v, %v", c, ok, err)
		}
	}
	if whole, err := savepoint.ContentOf(ctx, g.store, s); err != nil || whole != done[1].Content {
		t.Errorf("rolled back and optimized: %s of %d rows, the day had %s of %d; %v", whole.Text(), whole.Rows, done[1].Text(), done[1].Rows, err)
	}
	if report := faults(t, g.store, savepoint.CheckOptions{Deep: true}); len(report.Faults) > 0 {
		t.Errorf("found %+v", report.Faults)
	}
	g.ingest() // an ingester goes on over the commits
}

// What the rows are is told apart from what was recorded, and a lost checksum comes back
// where the rows prove it.
func TestCheckComparesChecksums(t *testing.T) {
	g := fiveDays(t)
	done := g.record()
	key := fmt.Sprintf("%sv%d.json", savepoint.ChecksumFolder, done[1].Version)

	lost := g.store.Clone()
	if err := lost.Delete(ctx, key); err != nil {
		t.Fatal(err)
	}
	if found := faults(t, lost, savepoint.CheckOptions{}).Faults; len(found) != 1 || found[0].Check != "checksum" || found[0].File != key {
		t.Errorf("lost: %+v", found)
	}
	if report := faults(t, lost, savepoint.CheckOptions{Deep: true, Repair: true}); report.Open() != 0 || len(report.Faults) != 1 {
		t.Errorf("repair: %+v", report.Faults)
	}
	if left := faults(t, lost, savepoint.CheckOptions{Deep: true}).Faults; len(left) > 0 {
		t.Errorf("left: %+v", left)
	}

	// As if the rows had been others at the time.
	other := g.store.Clone()
	data := fmt.Appendf(nil, "{\"format\":1,\"version\":%d,\"rows\":%d,\"checksum\":\"%064x\"}\n", done[1].Version, done[1].Rows, 7)
	if err := other.Put(ctx, key, data); err != nil {
		t.Fatal(err)
	}
	if found := faults(t, other, savepoint.CheckOptions{}).Faults; len(found) != 1 || found[0].File != key {
		t.Errorf("another file than was recorded: %+v", found)
	}
	table := open(t, other)
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	tx, sum := delta.NewTransaction(table, s), sha256.Sum256(data)
	tx.SetTxn(fmt.Sprint("gscd.checksum/", done[1].Version), int64(binary.BigEndian.Uint64(sum[:])>>1))
	tx.SetCommitInfo("CHECKSUM", nil, nil, nil)
	if out, err := tx.Commit(ctx); err != nil || !out.Committed {
		t.Fatalf("%+v, %v", out, err)
	}
	found := faults(t, other, savepoint.CheckOptions{Deep: true}).Faults
	if len(found) != 1 || found[0].Check != "checksum" || found[0].Severity != savepoint.SeverityError || found[0].Label != done[1].Names[0] ||
		!strings.Contains(found[0].Message, "not those that were sealed") {
		t.Errorf("other rows: %+v", found)
	}
}

// A column that is added changes no checksum, each value and each row does.
func TestChecksumOfColumns(t *testing.T) {
	text := schema.Of(schema.StringType)
	ctx, store := t.Context(), mem.New()
	table := delta.New(store)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	content := func() savepoint.Content {
		t.Helper()
		s, err := table.Snapshot(ctx)
		must(err)
		c, err := savepoint.ContentOf(ctx, store, s)
		must(err)
		return c
	}
	_, err := write.Create(ctx, table, write.Definition{Columns: []schema.Field{write.Column("id", schema.Of(schema.Long)), write.Column("v", text)}},
		write.Values([][]any{{1, "a"}, {2, "b"}}, "id", "v"))
	must(err)
	two := content()
	_, err = write.Alter(ctx, table, []write.Change{write.AddColumn(write.Column("w", text), write.First())})
	must(err)
	if got := content(); got != two {
		t.Errorf("with a column of NULLs: %s, before %s", got.Text(), two.Text())
	}
	_, err = write.Update(ctx, table, "id = 2", write.Set{"v": "c"})
	must(err)
	if got := content(); got.Rows != 2 || got == two {
		t.Errorf("another value: %d rows, %s", got.Rows, got.Text())
	}
	_, err = write.Update(ctx, table, "id = 2", write.Set{"v": "b"})
	must(err)
	if got := content(); got != two {
		t.Errorf("as it was: %s, before %s", got.Text(), two.Text())
	}
	_, err = write.Append(ctx, table, write.Values([][]any{{1, "a"}}, "id", "v"))
	must(err)
	if got := content(); got.Rows != 3 || got.Text() == two.Text() || len(got.Text()) != 64 {
		t.Errorf("a row twice: %d rows, %s", got.Rows, got.Text())
	}
}
