package layout_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
)

// wider are types that hold what the fixture's columns have.
var wider = map[string]schema.Type{"price": schema.Decimal(38, 4), "day": schema.Of(schema.TimestampNTZ)}

// TestWiden: every row is there afterwards with its values in the new types, its hidden
// cell and its partition; the version before stays as it was.
func TestWiden(t *testing.T) {
	for _, partition := range []bool{false, true} {
		f := newFixture(t, partition)
		f.append(5, 300)
		tx := delta.NewTransaction(f.table, f.newest())
		f.add(tx, 200, true) // one of another writer, without the hidden column
		f.commit(tx)
		f.kill(map[int64]bool{3: true, 400: true, 1500: true})
		before := f.newest()
		ids := f.readIDs(before)

		o := layout.Options{Extra: []parquet.Column{hidden}, Footer: func(in []map[string]string) map[string]string { return map[string]string{"from": in[0]["first"]} }}
		dry := o
		dry.DryRun = true
		report, err := layout.Widen(context.Background(), f.table, wider, dry)
		f.must(err)
		if report.FilesRemoved != before.NumFiles() || len(report.Versions) > 0 || f.newest().Version() != before.Version() {
			t.Errorf("a dry run reports %+v", report)
		}
		report, err = layout.Widen(context.Background(), f.table, wider, o)
		f.must(err)
		now := f.newest()
		if len(report.Versions) != 1 || now.Version() != before.Version()+1 || report.Rows != int64(len(ids)) || report.RowsPurged != int64(1700-len(ids)) {
			t.Errorf("version %d behind %d: %+v", now.Version(), before.Version(), report)
		}
		if got := now.Schema().Fields[2].Type.String() + " " + now.Schema().Fields[4].Type.String(); got != "decimal(38,4) timestamp_ntz" {
			t.Errorf("types %s", got)
		}
		if features := delta.FeaturesOf(now.Protocol()); !slices.Contains(features, delta.FeatureTimestampNTZ) || !slices.Contains(features, delta.FeatureDeletionVectors) {
			t.Errorf("features %v", features)
		}
		if got := f.readIDs(now); !slices.Equal(got, ids) {
			t.Errorf("%d rows, want %d", len(got), len(ids))
		}
		if got := f.readIDs(before); !slices.Equal(got, ids) {
			t.Errorf("the version before has %d rows, want %d", len(got), len(ids))
		}
		for _, add := range now.Files() {
			if add.DataChange {
				t.Errorf("%s says that it changes data", add.Path)
			}
		}
		report, err = layout.Widen(context.Background(), f.table, wider, o)
		f.must(err)
		if len(report.Versions) > 0 {
			t.Errorf("a second time: %+v", report)
		}
	}
}

// TestWidenFollows: others add and delete rows before each of its first commits.
func TestWidenFollows(t *testing.T) {
	f := newFixture(t, true)
	f.append(4, 500)
	left, dead := 3, map[int64]bool{}
	f.store.before = func(string) {
		if left--; left >= 0 {
			f.append(1, 50)
			now := f.readIDs(f.newest())
			doomed := map[int64]bool{now[10+left]: true, now[900+left]: true, now[len(now)-1]: true}
			maps.Copy(dead, doomed)
			f.kill(doomed)
		}
	}
	report, err := layout.Widen(context.Background(), f.table, wider, layout.Options{Extra: []parquet.Column{hidden}})
	f.store.before = nil
	f.must(err)
	var want []int64
	for _, ids := range f.ids {
		want = append(want, slices.DeleteFunc(slices.Clone(ids), func(id int64) bool { return dead[id] })...)
	}
	slices.Sort(want)
	s := f.newest()
	if got := f.readIDs(s); !slices.Equal(got, want) || len(want) != 2000+3*50-9 || report.Conflicts != 3 || len(report.Versions) != 1 || report.Versions[0] != s.Version() {
		t.Errorf("%d rows, want %d: %+v", len(got), len(want), report)
	}
}

func TestWidenRefuses(t *testing.T) {
	f := newFixture(t, true)
	f.append(1, 10)
	for _, c := range []struct {
		column string
		to     schema.Type
		says   string
	}{
		{"prices", schema.Decimal(38, 2), `"prices"; the table has`},
		{"price", schema.Decimal(20, 4), `"price" is of type decimal(20,2), and decimal(20,4) does not hold all values of that`},
		{"id", schema.Of(schema.DoubleType), `"id" is of type long, and double does not`},
		{"city", schema.Of(schema.BinaryType), `"city" is of type string, and binary does not`},
	} {
		_, err := layout.Widen(context.Background(), f.table, map[string]schema.Type{c.column: c.to}, layout.Options{})
		if !errors.Is(err, layout.ErrColumn) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s to %s: %v", c.column, c.to, err)
		}
	}
	if v := f.newest().Version(); v != 1 {
		t.Errorf("version %d", v)
	}
}
