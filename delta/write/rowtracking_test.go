package write_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

// numbersOf gives the numbers of the live rows by the first column: "id@version".
func numbersOf(t tester, table *delta.Table) map[int64]string {
	t.Helper()
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatalf("%v", err)
	}
	tracking, err := s.RowTracking()
	if err != nil || tracking == nil {
		t.Fatalf("%v, %v", tracking, err)
	}
	out, ids := map[int64]string{}, map[int64]bool{}
	for _, add := range s.Files() {
		f, err := scan.OpenFile(ctx, table.Store(), add)
		if err != nil {
			t.Fatalf("%v", err)
		}
		dead, err := delta.ReadDeletionVector(ctx, table.Store(), add)
		if err != nil {
			t.Fatalf("%v", err)
		}
		columns := append([]parquet.Column{parquet.ColumnOf(&s.Schema().Fields[0])}, tracking.Columns()...)
		for b, err := range f.Scan(ctx, columns, parquet.ScanOptions{}) {
			if err != nil {
				t.Fatalf("%v", err)
			}
			for i := range b.Rows {
				place := b.FirstRow + int64(i)
				if dead != nil && dead.Contains(uint32(place)) {
					continue
				}
				id, version := b.Columns[1][i], b.Columns[2][i]
				if err := tracking.Fill(add, place, &id, &version); err != nil {
					t.Fatalf("%v", err)
				}
				if ids[id.I] {
					t.Fatalf("two rows have the number %d", id.I)
				}
				ids[id.I] = true
				out[b.Columns[0][i].I] = fmt.Sprintf("%d@%d", id.I, version.I)
			}
		}
	}
	return out
}

// Rows keep their numbers wherever they move, and changed ones get a new version.
func TestRowNumbersStay(t *testing.T) {
	for name, properties := range modes {
		t.Run(name, func(t *testing.T) {
			properties = maps.Clone(properties)
			properties["delta.enableRowTracking"] = "true"
			table := create(t, "id long, v long", "", properties)
			check := func(what string, want map[int64]string) {
				t.Helper()
				if got := numbersOf(t, table); !maps.Equal(got, want) {
					t.Fatalf("%s: got %v, want %v", what, got, want)
				}
				s, err := table.Snapshot(ctx)
				if err != nil {
					t.Fatal(err)
				}
				if raw, err := table.CommitInfo(ctx, s.Version()); err != nil || !strings.Contains(string(raw), `"tags":{"delta.rowTracking.preserved":"true"}`) {
					t.Errorf("%s: %s, %v", what, raw, err)
				}
			}
			must(t)(write.Append(ctx, table, values([]any{1, 10}, []any{2, 20}, []any{3, 30})))
			must(t)(write.Append(ctx, table, values([]any{4, 40}, []any{5, 50})))
			want := map[int64]string{1: "0@1", 2: "1@1", 3: "2@1", 4: "3@2", 5: "4@2"}
			check("append", want)

			must(t)(write.Update(ctx, table, "id = 2", write.Set{"v": 21}))
			want[2] = "1@3"
			check("update", want)

			must(t)(write.Delete(ctx, table, "id = 1"))
			delete(want, 1)
			check("delete", want)

			s, err := table.Snapshot(ctx)
			if err != nil {
				t.Fatal(err)
			}
			next := int64(0) // numbers of new files rise, whatever came before
			for _, a := range s.Files() {
				next = max(next, *a.BaseRowID)
			}
			must(t)(write.Merge(ctx, table, write.MergeInto{Key: []string{"id"}}, values([]any{3, 31}, []any{9, 90})))
			got := numbersOf(t, table)
			var id, version int64
			if _, err := fmt.Sscanf(got[9], "%d@%d", &id, &version); err != nil || version != 5 || id <= next || id < 5 {
				t.Fatalf("a new row is %s, beyond %d", got[9], next)
			}
			want[3], want[9] = "2@5", got[9]
			check("merge", want)

			for _, o := range []layout.Options{{}, {OrderBy: []string{"v", "id"}}} {
				must(t)(write.Append(ctx, table, values([]any{100, -1})))
				must(t)(write.Delete(ctx, table, "id = 100"))
				report, err := layout.Optimize(ctx, table, o)
				if err != nil {
					t.Fatal(err)
				}
				if len(report.Versions) > 0 {
					check("optimize", want)
				} else if got := numbersOf(t, table); !maps.Equal(got, want) {
					t.Fatalf("got %v", got)
				}
			}
			report, err := layout.Optimize(ctx, table, layout.Options{OrderBy: []string{"id"}})
			if err != nil || len(report.Versions) != 1 {
				t.Fatalf("%+v, %v", report, err)
			}
			check("optimize again", want)
			must(t)(write.Update(ctx, table, "id >= 4", write.Set{"v": 0}))
			s, err = table.Snapshot(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for key := range want {
				if key >= 4 {
					want[key] = fmt.Sprintf("%s@%d", strings.Split(want[key], "@")[0], s.Version())
				}
			}
			check("update of moved rows", want)
		})
	}
}

// Where rows need not keep their numbers, the commit says that they do not.
func TestRowNumbersLost(t *testing.T) {
	table := create(t, "id long", "", map[string]string{"delta.feature.rowTracking": "supported"})
	must(t)(write.Append(ctx, table, values([]any{1}, []any{2})))
	must(t)(write.Delete(ctx, table, "id = 1"))
	for version, want := range []string{"true", "true", "false"} {
		raw, err := table.CommitInfo(ctx, int64(version))
		if err != nil || !strings.Contains(string(raw), `"delta.rowTracking.preserved":"`+want+`"`) {
			t.Errorf("version %d: %s, %v", version, raw, err)
		}
	}
	stable := create(t, "id long", "", map[string]string{"delta.enableRowTracking": "true"})
	_, err := write.Alter(ctx, stable, []write.Change{write.SetProperties(map[string]string{delta.PropertyRowIDColumn: "x"})})
	if !errors.Is(err, write.ErrChange) {
		t.Error(err)
	}
	s, err := stable.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	tracking, err := s.RowTracking()
	if err != nil {
		t.Fatal(err)
	}
	names := []string{tracking.IDColumn, tracking.VersionColumn}
	if slices.Contains(names, "") || names[0] == names[1] {
		t.Errorf("%q", names)
	}
	var id, version schema.Value
	if err := tracking.Fill(&action.Add{Path: "x"}, 3, &id, &version); !errors.Is(err, delta.ErrCorrupt) {
		t.Error(err)
	}
}
