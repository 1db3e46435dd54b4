package write_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/write"
)

// Commits carry times that rise, whatever the clock does, and come first in their files.
func TestInCommitTimestamps(t *testing.T) {
	now := time.UnixMilli(5000)
	table := delta.New(mem.New(), delta.WithClock(func() time.Time { return now }))
	on := map[string]string{"delta.enableInCommitTimestamps": "true"}
	must(t)(write.Create(ctx, table, write.Definition{Columns: columns(t, "id long"), Properties: on}, values([]any{1})))
	now = time.UnixMilli(4000) // a clock that went back
	must(t)(write.Append(ctx, table, values([]any{2})))
	must(t)(write.Delete(ctx, table, "id = 1"))
	now = time.UnixMilli(9000)
	must(t)(write.Append(ctx, table, values([]any{3})))
	for v, want := range []int64{5000, 5001, 5002, 9000} {
		at, err := table.CommitTime(ctx, int64(v))
		if err != nil || at.UnixMilli() != want {
			t.Errorf("version %d: %d, %v, want %d", v, at.UnixMilli(), err, want)
		}
		raw, err := table.Store().Get(ctx, fmt.Sprintf("_delta_log/%020d.json", v))
		if err != nil || !strings.HasPrefix(string(raw), `{"commitInfo":{"inCommitTimestamp":`) {
			t.Errorf("%.80s, %v", raw, err)
		}
	}
	later := create(t, "id long", "", nil)
	alter(t, later, write.SetProperties(map[string]string{"x": "y"}))
	r := alter(t, later, write.SetProperties(on))
	m := r.Snapshot.Metadata().Configuration
	at, err := later.CommitTime(ctx, 2)
	if err != nil || m["delta.inCommitTimestampEnablementVersion"] != "2" || m["delta.inCommitTimestampEnablementTimestamp"] != fmt.Sprint(at.UnixMilli()) {
		t.Errorf("%v, %v, %v", m, at, err)
	}
}

// Every file gets numbers for its rows, which a deletion vector leaves as they are.
func TestRowTracking(t *testing.T) {
	table := create(t, "id long", "", map[string]string{"delta.feature.rowTracking": "supported", "delta.enableDeletionVectors": "true"})
	must(t)(write.Append(ctx, table, values([]any{1}, []any{2}, []any{3})))
	must(t)(write.Append(ctx, table, values([]any{4})))
	r := must(t)(write.Delete(ctx, table, "id = 2"))
	r = must(t)(write.Update(ctx, table, "id = 3", write.Set{"id": 30}))
	numbers := func(s *delta.Snapshot) (list []string) {
		for _, a := range s.Files() {
			list = append(list, fmt.Sprintf("%d@%d", *a.BaseRowID, *a.DefaultRowCommitVersion))
		}
		return list
	}
	want(t, numbers(r.Snapshot), "0@1", "3@2", "4@4")
	if d := r.Snapshot.Domains(); len(d) != 1 || d[0] != (action.DomainMetadata{Domain: "delta.rowTracking", Configuration: `{"rowIdHighWaterMark":4}`}) {
		t.Errorf("%+v", d)
	}
	r = must(t)(write.Restore(ctx, table, 1))
	want(t, numbers(r.Snapshot), "0@1")
	r = must(t)(write.Append(ctx, table, values([]any{5})))
	want(t, numbers(r.Snapshot), "0@1", "5@6")
	if reopened, err := table.Snapshot(ctx); err != nil || !slices.Equal(numbers(reopened), numbers(r.Snapshot)) {
		t.Errorf("%v", err)
	}

	alter(t, table, write.SetProperties(map[string]string{"delta.enableRowTracking": "true"}))
	if got := numbersOf(t, table); got[1] != "0@1" || got[5] != "5@6" {
		t.Errorf("switched on: %v", got)
	}
}

// Row tracking that is switched on gives the rows that are there numbers in that commit,
// with deletion vectors and without statistics; they keep them from then on.
func TestRowTrackingIsSwitchedOn(t *testing.T) {
	table := create(t, "id long, v long", "", map[string]string{"delta.enableDeletionVectors": "true"})
	must(t)(write.Append(ctx, table, values([]any{1, 1}, []any{2, 2}, []any{3, 3})))
	must(t)(write.Append(ctx, table, values([]any{4, 4})))
	must(t)(write.Delete(ctx, table, "id = 2"))
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	x := delta.NewTransaction(table, s) // a file without statistics
	x.Restates = true
	bare := *s.Files()[len(s.Files())-1]
	bare.Stats = ""
	for _, a := range s.Files() {
		if a.DeletionVector == nil {
			bare = *a
			bare.Stats, bare.DataChange = "", false
		}
	}
	x.Add(&bare)
	if out, err := x.Commit(ctx); err != nil || !out.Committed {
		t.Fatalf("%+v, %v", out, err)
	}
	on := map[string]string{"delta.enableRowTracking": "true"}
	alter(t, table, write.SetProperties(on))
	got := numbersOf(t, table)
	if len(got) != 3 || !strings.HasSuffix(got[1], "@5") || !strings.HasSuffix(got[4], "@5") {
		t.Fatalf("%v", got)
	}
	first := maps.Clone(got)
	must(t)(write.Update(ctx, table, "id = 3", write.Set{"v": 30}))
	must(t)(write.Append(ctx, table, values([]any{5, 5})))
	got = numbersOf(t, table)
	number, _, _ := strings.Cut(first[3], "@")
	if got[1] != first[1] || got[4] != first[4] || got[3] != number+"@6" || len(got) != 4 {
		t.Errorf("%v, then %v", first, got)
	}
	if r, err := write.Alter(ctx, table, []write.Change{write.SetProperties(on)}); err != nil || r.Committed {
		t.Errorf("again: %+v, %v", r, err)
	}
	off := create(t, "id long", "", map[string]string{"delta.feature.rowTracking": "supported", "delta.rowTrackingSuspended": "true"})
	if _, err := write.Alter(ctx, off, []write.Change{write.SetProperties(on)}); !errors.Is(err, write.ErrChange) {
		t.Error(err)
	}
}

// A clustered table has statistics of the columns that it is clustered by, wherever they stand.
func TestClusteredTable(t *testing.T) {
	table := create(t, "a long, b long, c long", "", map[string]string{"delta.feature.clustering": "supported", "delta.dataSkippingNumIndexedCols": "1", "delta.columnMapping.mode": "name"})
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	x := delta.NewTransaction(table, s)
	x.Implements(delta.FeatureClustering, delta.FeatureColumnMapping)
	x.SetDomain(action.DomainMetadata{Domain: "delta.clustering", Configuration: `{"clusteringColumns":[["c"]],"domainName":"delta.clustering"}`})
	if out, err := x.Commit(ctx); err != nil || !out.Committed {
		t.Fatalf("%+v, %v", out, err)
	}
	r := must(t)(write.Append(ctx, table, values([]any{1, 2, 3})))
	var stats struct{ MinValues map[string]int }
	if err := json.Unmarshal([]byte(add(t, r.Snapshot).Stats), &stats); err != nil || len(stats.MinValues) != 2 || stats.MinValues["c"] != 3 {
		t.Errorf("%s, %v", add(t, r.Snapshot).Stats, err)
	}
	if _, err := write.Alter(ctx, table, []write.Change{write.DropColumn("c")}); !errors.Is(err, write.ErrChange) || !strings.Contains(err.Error(), "clustered") {
		t.Error(err)
	}
	alter(t, table, write.RenameColumn("c", "d"))
	must(t)(write.Append(ctx, table, values([]any{4, 5, 6})))
	r = must(t)(write.Replace(ctx, table, write.Definition{Columns: columns(t, "z long")}, values([]any{1})))
	if d := r.Snapshot.Domains(); len(d) != 0 {
		t.Errorf("%+v", d)
	}
}
