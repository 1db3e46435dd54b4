package changes_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/changes"
	"github.com/gscd-io/gscd/savepoint"
)

var ctx = context.Background()

// rows counts rows by their text.
type rows map[string]int

func text(cells []schema.Value) string { return fmt.Sprint(cells) }

// rowsAt reads a version, in the columns of another one.
func rowsAt(t testing.TB, table *delta.Table, version int64, columns []schema.Field) rows {
	t.Helper()
	out := rows{}
	if version < 0 {
		return out
	}
	s, err := table.SnapshotAt(ctx, version)
	if err != nil {
		t.Fatal(err)
	}
	reading, err := scan.New(table.Store(), s, scan.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range reading.Rows(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		cells := make([]schema.Value, len(columns))
		for i := range columns {
			if at := slices.IndexFunc(reading.Columns(), func(f schema.Field) bool { return f.Stored() == columns[i].Stored() }); at >= 0 {
				cells[i] = row[at]
			}
		}
		out[text(cells)]++
	}
	return out
}

// apply applies changes to rows, those of one version at a time: what goes before what
// comes, for a version has no order inside.
func (r rows) apply(t testing.TB, list []changes.Change) rows {
	t.Helper()
	out := maps.Clone(r)
	for len(list) > 0 {
		n := slices.IndexFunc(list, func(c changes.Change) bool { return c.Version != list[0].Version })
		if n < 0 {
			n = len(list)
		}
		for _, c := range list[:n] {
			if c.Kind == scan.Insert || c.Kind == scan.UpdatePostimage {
				out[text(c.Row)]++
			}
		}
		for _, c := range list[:n] {
			if c.Kind == scan.Delete || c.Kind == scan.UpdatePreimage {
				key := text(c.Row)
				switch out[key]--; {
				case out[key] < 0:
					t.Fatalf("version %d takes away %s, which is not there", c.Version, key)
				case out[key] == 0:
					delete(out, key)
				}
			}
		}
		list = list[n:]
	}
	return out
}

func collect(t testing.TB, seq iter.Seq2[*changes.Change, error]) (out []changes.Change) {
	t.Helper()
	for c, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		kept := *c
		kept.Row = slices.Clone(c.Row)
		out = append(out, kept)
	}
	return out
}

// collectUnits gives net changes as changes, and checks that each unit has a key once, in order.
func collectUnits(t testing.TB, f *changes.Feed, seq iter.Seq2[*changes.Unit, error]) (out []changes.Change) {
	t.Helper()
	for u, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, unit(t, f, u)...)
	}
	return out
}

func unit(t testing.TB, f *changes.Feed, u *changes.Unit) (out []changes.Change) {
	t.Helper()
	last := ""
	for k, err := range u.Keys {
		if err != nil {
			t.Fatal(err)
		}
		if k.Before != nil && k.After != nil && text(k.Before) == text(k.After) {
			t.Fatalf("no change: %v", k.After)
		}
		var key []byte
		for _, i := range f.Key() {
			row := k.After
			if row == nil {
				row = k.Before
			}
			key = row[i].AppendEncoded(key)
		}
		if strings.Compare(last, string(key)) >= 0 {
			t.Fatalf("key %q behind %q", key, last)
		}
		last = string(key)
		out = append(out, k.Changes(u)...)
	}
	return out
}

func open(t testing.TB, table *delta.Table, o changes.Options) (*changes.Feed, *savepoint.Map) {
	t.Helper()
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m, err := savepoint.Read(ctx, table, s)
	if err != nil {
		m = nil
	}
	f, err := changes.Open(table, s, m, o)
	if err != nil {
		t.Fatal(err)
	}
	return f, m
}

func equal(t testing.TB, what string, got, want rows) {
	t.Helper()
	if !maps.Equal(got, want) {
		t.Fatalf("%s: %d rows, want %d\n got %.600v\nwant %.600v", what, len(got), len(want), got, want)
	}
}
