package write_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/write"
)

// What other writers of the format got wrong once, and what no test beside these looks
// at in so many words. The list of all of them is in the README of package delta.

// The remove of a file under a vector repeats the vector; else the file's old add stays
// live for who replays the log, and its rows come back.
func TestRemovesRepeatTheVector(t *testing.T) {
	table := create(t, "id long, n long", "", modes["vectors"])
	must(t)(write.Append(ctx, table, values([]any{1, 0}, []any{2, 0}, []any{3, 0}, []any{4, 0})))
	must(t)(write.Delete(ctx, table, "id = 1"))
	for name, op := range map[string]func() (write.Result, error){
		"delete": func() (write.Result, error) { return write.Delete(ctx, table, "id = 2") },
		"update": func() (write.Result, error) { return write.Update(ctx, table, "id = 3", write.Set{"n": 1}) },
		"merge": func() (write.Result, error) {
			return write.Merge(ctx, table, write.MergeInto{Key: []string{"id"}}, values([]any{4, 5}))
		},
	} {
		before, err := table.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		r := must(t)(op())
		c, err := table.Commit(ctx, r.Version)
		if err != nil || len(c.Removes) == 0 {
			t.Fatalf("%s: %+v, %v", name, c, err)
		}
		for _, remove := range c.Removes {
			was, ok := before.File(remove.Path)
			if !ok || remove.Key() != was.Key() {
				t.Errorf("%s removes %+v, live was %+v", name, remove.Key(), was)
			}
		}
	}
	want(t, rows(t, table, -1), "3|1", "4|5")
}

// A table that may have no new vectors keeps those that it has, from a checkpoint too.
func TestVectorsOutliveTheirProperty(t *testing.T) {
	store := mem.New()
	table := delta.New(store)
	must(t)(write.Create(ctx, table, write.Definition{Columns: columns(t, "id long"), Properties: modes["vectors"]}, values([]any{1}, []any{2}, []any{3})))
	must(t)(write.Delete(ctx, table, "id = 2"))
	must(t)(write.Alter(ctx, table, []write.Change{write.SetProperties(map[string]string{delta.PropertyDeletionVectors: "false"})}))
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := table.Checkpoint(ctx, s, delta.CheckpointOptions{}); err != nil {
		t.Fatal(err)
	}
	for v := range s.Version() {
		if err := store.Delete(ctx, deltalog.CommitKey(v)); err != nil {
			t.Fatal(err)
		}
	}
	table = delta.New(store)
	want(t, rows(t, table, -1), "1", "3")
	r := must(t)(write.Update(ctx, table, "id = 3", write.Set{"id": 30})) // rewrites the file
	want(t, rows(t, table, -1), "1", "30")
	for _, a := range r.Snapshot.Files() {
		if a.DeletionVector != nil {
			t.Errorf("%s has a new vector", a.Path)
		}
	}
}

// One batch that two processes bring at once is there once: the one that comes second
// looks at the txn of the commit that came first.
func TestTxnIsLookedAtAgainAfterAConflict(t *testing.T) {
	for name, op := range map[string]func(*delta.Table) (write.Result, error){
		"append": func(t *delta.Table) (write.Result, error) {
			return write.Append(ctx, t, values([]any{1, 1}), write.WithTxn("loader", 7))
		},
		"merge": func(t *delta.Table) (write.Result, error) {
			return write.Merge(ctx, t, write.MergeInto{Key: []string{"id"}}, values([]any{1, 1}), write.WithTxn("loader", 7))
		},
	} {
		store := &cutIn{Store: mem.New()}
		must(t)(write.Create(ctx, delta.New(store), write.Definition{Columns: columns(t, "id long, n long")}, values([]any{0, 0})))
		store.first = func() { must(t)(op(delta.New(store.Store))) }
		r, err := op(delta.New(store))
		if err != nil || r.Committed || !r.Known || r.Version != 1 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
		want(t, rows(t, delta.New(store), -1), "0|0", "1|1")
		if got := dataFiles(t, delta.New(store)); len(got) != 2 {
			t.Errorf("%s left %q", name, got)
		}
	}
}

// Values at the very edge of a file's bounds are found.
func TestBoundsKeepTheirEdges(t *testing.T) {
	table := create(t, "id long, at timestamp, d double", "", nil)
	must(t)(write.Append(ctx, table, values([]any{1, "2024-01-01 10:00:00.000001", math.Inf(1)})))
	must(t)(write.Append(ctx, table, values([]any{2, "2024-01-01 10:00:00.999999", math.NaN()})))
	must(t)(write.Append(ctx, table, values([]any{3, "1969-12-31 23:59:59.999999", math.Inf(-1)})))
	must(t)(write.Append(ctx, table, values([]any{4, "2024-01-01 10:00:00.000999", math.Copysign(0, -1)})))
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for where, ids := range map[string]string{
		"at > '2024-01-01 10:00:00.999998'":  "2",
		"at = '2024-01-01 10:00:00.000999'":  "4",
		"at <= '1969-12-31 23:59:59.999999'": "3",
		"d > 1e308":                          "1 2", // NaN is the greatest, as in Spark
		"d = 'NaN'":                          "2",
		"d < -1e308":                         "3",
		"d = 0":                              "4",
	} {
		p, err := expr.Parse(where, s.Schema())
		if err != nil {
			t.Fatal(err)
		}
		reading, err := scan.New(table.Store(), s, scan.Options{Where: p, Columns: []string{"id"}})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for row, err := range reading.Rows(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, rowText(reading.Columns(), row))
		}
		want(t, got, strings.Fields(ids)...)
	}
}

// A path in the log is the key's, encoded once: what the log names is there, for vacuum
// too, whatever the partition's value.
func TestPartitionPathsAreEncodedOnce(t *testing.T) {
	store := mem.New()
	now := time.Now()
	table := delta.New(store, delta.WithClock(func() time.Time { return now }))
	must(t)(write.Create(ctx, table, write.Definition{Columns: columns(t, "p string, id long"), PartitionBy: []string{"p"}}, write.Source{}))
	odd := []string{"a b", "50%", "%20", "%2520", "x/y", "k=v", "2024-01-01 10:11:12", "ä+é", "#?&", "a\\b", `"'`, "..", "{}[]^"}
	for i, p := range odd {
		must(t)(write.Append(ctx, table, values([]any{p, i})))
	}
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if faults, err := table.CheckFiles(ctx, s, true); err != nil || len(faults) != 0 {
		t.Errorf("%+v, %v", faults, err)
	}
	before, live := rows(t, table, -1), dataFiles(t, table)
	now = now.AddDate(1, 0, 0)
	if report, err := delta.Vacuum(ctx, table, delta.VacuumOptions{}); err != nil || len(report.Deleted) != 0 {
		t.Errorf("vacuum of live files alone: %+v, %v", report, err)
	}
	want(t, rows(t, table, -1), before...)
	must(t)(write.Delete(ctx, table, "TRUE"))
	now = now.AddDate(1, 0, 0)
	report, err := delta.Vacuum(ctx, table, delta.VacuumOptions{})
	if err != nil || len(report.Deleted) != len(odd) {
		t.Fatalf("%+v, %v", report, err)
	}
	var said []string
	for _, g := range report.Deleted {
		said = append(said, g.Key)
	}
	want(t, said, live...)
	want(t, dataFiles(t, table))
}

// A commit holds at most one metaData, one protocol and one commitInfo.
func TestOneMetadataInACommit(t *testing.T) {
	table := create(t, "id long, name string", "", map[string]string{"delta.columnMapping.mode": "name"})
	must(t)(write.Alter(ctx, table, []write.Change{
		write.AddColumn(columns(t, "a long")[0], write.First()), write.RenameColumn("name", "text"),
		write.SetProperties(map[string]string{"delta.enableChangeDataFeed": "true"}),
	}))
	must(t)(write.Alter(ctx, table, []write.Change{write.AddConstraint("c", "id > 0"), write.Describe("", "ids")}))
	must(t)(write.Replace(ctx, table, write.Definition{Columns: columns(t, "id long"), Properties: modes["vectors with feed"]}, values([]any{1})))
	for v := range int64(4) {
		data, err := table.Store().Get(ctx, deltalog.CommitKey(v))
		if err != nil {
			t.Fatal(err)
		}
		for _, action := range []string{"metaData", "protocol", "commitInfo"} {
			if n := strings.Count("\n"+string(data), "\n{\""+action+"\":"); n > 1 || n == 0 && action != "protocol" {
				t.Errorf("version %d: %d of %s", v, n, action)
			}
		}
	}
}
