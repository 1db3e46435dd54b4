package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/faulty"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// sliceRow is a row of the model: cells by column, NULL left out.
type sliceRow map[string]string

// sliceOf makes a slice of rows of columns that are all text.
func sliceOf(label string, columns []string, rows []sliceRow) ingest.Slice {
	return ingest.Slice{Label: label, Source: "rows of " + label, Open: func(context.Context, *schema.Schema) (ingest.SliceRows, error) {
		out := ingest.SliceRows{}
		for _, name := range columns {
			out.Columns = append(out.Columns, schema.Field{Name: name, Type: schema.Of(schema.StringType), Nullable: true})
		}
		out.Rows = func(yield func([]schema.Value, error) bool) {
			for _, r := range rows {
				cells := make([]schema.Value, len(columns))
				for i, name := range columns {
					if text, ok := r[name]; ok {
						cells[i] = schema.StringValue(text)
					}
				}
				if !yield(cells, nil) {
					return
				}
			}
		}
		return out, nil
	}}
}

func sliceOptions(t *testing.T, store objstore.Store) ingest.Options {
	t.Helper()
	calendar, err := snapshotter.NewCalendar("day", "Asia/Shanghai", "")
	if err != nil {
		t.Fatal(err)
	}
	return ingest.Options{Name: "t", Store: store, Calendar: calendar, Key: []string{"id"}, MaxDeleteFraction: 1}
}

// keyOfSlice is the key of a row; NULL is one.
func keyOfSlice(r sliceRow) string {
	if id, ok := r["id"]; ok {
		return "=" + id
	}
	return "NULL"
}

// sliceStates reads every sealed label.
func sliceStates(t *testing.T, store objstore.Store) map[string]map[string]sliceRow {
	t.Helper()
	ctx := context.Background()
	table, err := delta.Open(ctx, store)
	if err != nil {
		t.Fatal(err)
	}
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m, err := savepoint.Read(ctx, table, s)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]map[string]sliceRow{}
	for _, e := range m.Entries {
		if e.State != savepoint.Sealed {
			continue
		}
		at, err := table.SnapshotAt(ctx, e.Version)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := scan.New(store, at, scan.Options{})
		if err != nil {
			t.Fatal(err)
		}
		state := map[string]sliceRow{}
		for row, err := range rows.Rows(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			r := sliceRow{}
			for i, f := range rows.Columns() {
				if !row[i].IsNull() {
					r[f.Name] = strings.Clone(row[i].S)
				}
			}
			if _, twice := state[keyOfSlice(r)]; twice {
				t.Fatalf("%s has the key of %v twice", e.Name, r)
			}
			state[keyOfSlice(r)] = r
		}
		if evidence, err := m.Evidence(ctx, table, e); err != nil || evidence.Rows != int64(len(state)) {
			t.Fatalf("the evidence of %s: %+v, %v; %d rows", e.Name, evidence, err, len(state))
		}
		out[e.Name] = state
	}
	return out
}

func sameStates(t *testing.T, got, want map[string]map[string]sliceRow) {
	t.Helper()
	if labels, expected := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(labels, expected) {
		t.Fatalf("sealed: %v, want %v", labels, expected)
	}
	for label, state := range want {
		if !maps.EqualFunc(got[label], state, func(a, b sliceRow) bool { return maps.Equal(a, b) }) {
			t.Fatalf("as of %s:\n%v\nwant\n%v", label, got[label], state)
		}
	}
}

// slicePlan is random slices, and the states that they make of each day.
type slicePlan struct {
	loads []ingest.Slice
	want  map[string]map[string]sliceRow
}

// planSlices makes loads of days, with gaps, repeats, corrections, changes only, columns
// that appear, and NULL as a key.
func planSlices(random *rand.Rand, days int) slicePlan {
	p := slicePlan{want: map[string]map[string]sliceRow{}}
	columns := []string{"id", "v"}
	day, before := 1, map[string]sliceRow{}
	name := func(day int) string { return fmt.Sprintf("2022-07-%02d", day) }
	load := func(replace bool) map[string]sliceRow {
		upsert := random.IntN(3) == 0
		var rows []sliceRow
		state := map[string]sliceRow{}
		if upsert {
			state = maps.Clone(before)
		}
		for i := range 12 {
			if random.IntN(4) == 0 {
				continue
			}
			r := sliceRow{"id": fmt.Sprint(i)}
			if i == 0 {
				delete(r, "id")
			}
			for _, c := range columns[1:] {
				if random.IntN(3) > 0 {
					r[c] = fmt.Sprint(random.IntN(2))
				}
			}
			rows = append(rows, r)
			state[keyOfSlice(r)] = r
		}
		random.Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		s := sliceOf(name(day), slices.Clone(columns), rows)
		s.Upsert, s.Replace = upsert, replace
		p.loads = append(p.loads, s)
		if random.IntN(4) == 0 {
			p.loads = append(p.loads, s) // the same again
		}
		p.want[name(day)] = state
		return state
	}
	for range days {
		if random.IntN(5) == 0 {
			columns = append(columns, fmt.Sprintf("c%d", day))
		}
		state := load(false)
		if day > 1 && random.IntN(4) == 0 {
			state = load(true)
		}
		before = state
		for next := day + 1 + random.IntN(2)*random.IntN(3); day < next; day++ {
			p.want[name(day)] = before // days between are empty
		}
	}
	last := p.loads[len(p.loads)-1].Label
	maps.DeleteFunc(p.want, func(label string, _ map[string]sliceRow) bool { return label > last })
	return p
}

// Random slices give the states of a map, whatever is loaded again or corrected.
func TestSlicesModel(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			store := mem.New()
			o := sliceOptions(t, store)
			o.CopyOnWrite = seed%4 == 3
			p := planSlices(rand.New(rand.NewPCG(seed, 1)), 8)
			for i, s := range p.loads {
				if _, err := ingest.LoadSlice(context.Background(), o, s); err != nil {
					t.Fatalf("load %d, %s: %v", i, s.Label, err)
				}
			}
			sameStates(t, sliceStates(t, store), p.want)
		})
	}
}

// Whatever call of the storage fails, or is the last one before the program ends: the
// same loads again lead to the same days.
func TestSlicesFaults(t *testing.T) {
	var p slicePlan
	for seed := uint64(0); !slices.ContainsFunc(p.loads, func(s ingest.Slice) bool { return s.Replace }); seed++ {
		p = planSlices(rand.New(rand.NewPCG(seed, 3)), 2)
	}
	step := int64(1)
	if testing.Short() {
		step = 7
	}
	for kind, f := range []faulty.Fault{{}, {Applied: true}, {Crash: true}, {Crash: true, Applied: true}} {
		t.Run(fmt.Sprintf("%+v", f), func(t *testing.T) {
			t.Parallel()
			for n, calm := 1+int64(kind)%step, 0; calm < 20; n += step + n/40 {
				inner := mem.New()
				store := faulty.New(inner, faulty.Nth(n, f))
				failed := false
				for i := 0; i < len(p.loads); i++ {
					s := p.loads[i]
					_, err := ingest.LoadSlice(context.Background(), sliceOptions(t, store), s)
					switch {
					case err == nil:
						continue
					case failed:
						t.Fatalf("call %d, load %d of %s again: %v", n, i, s.Label, err)
					case !errors.Is(err, faulty.ErrInjected) && !errors.Is(err, faulty.ErrCrashed):
						t.Fatalf("call %d, load %d of %s: %v", n, i, s.Label, err)
					}
					failed, store = true, faulty.New(inner)
					i-- // again
				}
				if calm++; failed {
					calm = 0
				}
				sameStates(t, sliceStates(t, inner), p.want)
			}
		})
	}
}

// A slice is told apart from those that can't be meant, before anything is written.
func TestSliceRefused(t *testing.T) {
	store := mem.New()
	o := sliceOptions(t, store)
	rows := []sliceRow{{"id": "1", "v": "a"}, {"id": "2", "v": "b"}}
	load := func(s ingest.Slice) error {
		_, err := ingest.LoadSlice(context.Background(), o, s)
		return err
	}
	if err := load(sliceOf("2022-07-15", []string{"id", "v"}, rows)); err != nil {
		t.Fatal(err)
	}
	if err := load(sliceOf("2022-07-16", []string{"id", "v"}, rows[:1])); err != nil {
		t.Fatal(err)
	}
	wrongType := sliceOf("2022-07-17", nil, nil)
	wrongType.Open = func(context.Context, *schema.Schema) (ingest.SliceRows, error) {
		return ingest.SliceRows{Columns: []schema.Field{{Name: "id", Type: schema.Of(schema.Long)}, {Name: "V", Type: schema.Of(schema.StringType)}}}, nil
	}
	tests := []struct {
		name  string
		slice ingest.Slice
		is    error
		says  string
	}{
		{"missing column", sliceOf("2022-07-17", []string{"id"}, rows), ingest.ErrSlice, "lacks: v"},
		{"missing key", sliceOf("2022-07-17", []string{"v"}, rows), ingest.ErrSlice, "key column id is missing"},
		{"changed type", wrongType, ingest.ErrSlice, "the column id is string in the table, and long in the slice"},
		{"column twice", sliceOf("2022-07-17", []string{"id", "v", "V"}, rows), ingest.ErrSlice, "column V is there twice"},
		{"reserved name", sliceOf("2022-07-17", []string{"id", "v", "__gscd_offset"}, rows), ingest.ErrSlice, "__gscd_offset"},
		{"no rows", sliceOf("2022-07-17", []string{"id", "v"}, nil), ingest.ErrIncompleteSlice, "0 rows"},
		{"an older label", sliceOf("2022-07-15", []string{"id", "v"}, rows[:1]), ingest.ErrSliceLabel, "2022-07-16"},
		{"before the first", sliceOf("2022-07-14", []string{"id", "v"}, rows), ingest.ErrSliceLabel, "2022-07-15"},
		{"no label", sliceOf("July", []string{"id", "v"}, rows), snapshotter.ErrNotLabel, "July"},
	}
	ctx := context.Background()
	table := delta.New(store)
	before, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		if err := load(tt.slice); !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	after, err := table.Snapshot(ctx)
	if err != nil || after.Version() != before.Version() {
		t.Errorf("version %d, before %d: %v", after.Version(), before.Version(), err)
	}
	again := sliceOf("2022-07-15", []string{"id", "v"}, rows)
	if done, err := ingest.LoadSlice(ctx, o, again); err != nil || !done.Known {
		t.Errorf("the slice of an older label again: %+v, %v", done, err)
	}
	null := sliceOf("2022-07-17", []string{"id"}, rows[:1])
	null.MissingAsNull = true
	if done, err := ingest.LoadSlice(ctx, o, null); err != nil || done.Changed != 1 {
		t.Errorf("a missing column as NULL: %+v, %v", done, err)
	}
}

// Slices go into a locked table, and leave it locked.
func TestSlicesOfLockedTable(t *testing.T) {
	store := mem.New()
	for i, label := range []string{"2022-07-01", "2022-07-02", "2022-07-03"} {
		o := sliceOptions(t, store)
		o.Protect = savepoint.ProtectLock
		s := sliceOf(label, []string{"id", "v"}, []sliceRow{{"id": "1", "v": label}, {"id": fmt.Sprint(i + 2), "v": "new"}})
		if _, err := ingest.LoadSlice(context.Background(), o, s); err != nil {
			t.Fatal(err)
		}
	}
	states := sliceStates(t, store)
	if n := len(states); n != 3 {
		t.Errorf("%d days, want 3", n)
	}
	if got := states["2022-07-02"]; len(got) != 2 {
		t.Errorf("the second day is %v", got)
	}
	table, err := delta.Open(context.Background(), store)
	if err != nil {
		t.Fatal(err)
	}
	if snap, err := table.Snapshot(context.Background()); err != nil || !savepoint.Locked(snap) {
		t.Errorf("not locked: %v", err)
	}
}
