package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
	"github.com/gscd-io/gscd/query/changes"
)

// layers are the tables. users and cities are written by the source; userCity and
// population follow. How far each has followed is in its own log, as txn actions, so it moves
// with the rows.
type layers struct {
	users, cities        *delta.Table // user_id, name, city_id; city_id, city
	userCity, population *delta.Table // user_id, name, city; city, population
}

// The names of the tables, which are those of the txn actions too.
const (
	userDim    = "user_dim"
	cityDim    = "city_dim"
	userCity   = "user_city_tbl"
	population = "city_population_tbl"
)

// create makes the four tables, with change data.
func create(ctx context.Context, dir string) (*layers, error) {
	l := &layers{}
	long, text := schema.Of(schema.Long), schema.Of(schema.StringType)
	for _, t := range []struct {
		table   **delta.Table
		name    string
		columns []schema.Field
	}{
		{&l.users, userDim, []schema.Field{write.Column("user_id", long), write.Column("name", text), write.Column("city_id", long)}},
		{&l.cities, cityDim, []schema.Field{write.Column("city_id", long), write.Column("city", text)}},
		{&l.userCity, userCity, []schema.Field{write.Column("user_id", long), write.Column("name", text), write.Column("city", text)}},
		{&l.population, population, []schema.Field{write.Column("city", text), write.Column("population", long)}},
	} {
		store, err := local.New(filepath.Join(dir, t.name), local.Options{})
		if err != nil {
			return nil, err
		}
		*t.table = delta.New(store)
		if _, err := write.Create(ctx, *t.table, write.Definition{Columns: t.columns, Name: t.name, Properties: map[string]string{
			delta.PropertyChangeDataFeed: "true", delta.PropertyDeletionVectors: "true",
		}}, write.Source{}); err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
	}
	return l, nil
}

// put upserts rows into user_dim or city_dim.
func (l *layers) put(ctx context.Context, table *delta.Table, rows ...[]any) error {
	key := "user_id"
	if table == l.cities {
		key = "city_id"
	}
	_, err := write.Merge(ctx, table, write.MergeInto{Key: []string{key}}, write.Values(rows))
	return err
}

// report says what a refresh did.
type report struct {
	users  int // rows of user_city_tbl that were written or deleted
	cities []cityChange
}

type cityChange struct {
	city              string
	delta, population int64
}

// refresh brings both layers up to date.
func (l *layers) refresh(ctx context.Context) (r report, err error) {
	if r.users, err = l.refreshUserCity(ctx); err != nil {
		return r, fmt.Errorf("%s: %w", userCity, err)
	}
	if r.cities, err = l.refreshPopulation(ctx); err != nil {
		return r, fmt.Errorf("%s: %w", population, err)
	}
	return r, nil
}

// refreshUserCity joins the users anew that have changed, or whose city has.
func (l *layers) refreshUserCity(ctx context.Context) (int, error) {
	target, err := l.userCity.Snapshot(ctx)
	if err != nil {
		return 0, err
	}
	users, err := since(ctx, l.users, target, userDim, "user_id")
	if err != nil {
		return 0, err
	}
	cities, err := since(ctx, l.cities, target, cityDim, "city_id")
	if err != nil {
		return 0, err
	}

	// Who is touched, with the row of user_dim as it is now; nil is gone.
	touched := map[int64][]schema.Value{}
	for _, k := range users.keys {
		touched[keyed(k)[0].I] = k.After
	}
	moved := map[int64]bool{}
	for _, k := range cities.keys {
		moved[keyed(k)[0].I] = true
	}
	if err := rows(ctx, l.users, users.now, in("city_id", slices.Sorted(maps.Keys(moved))), func(row []schema.Value) {
		if _, known := touched[row[0].I]; !known {
			touched[row[0].I] = row
		}
	}); err != nil {
		return 0, err
	}
	if len(touched) == 0 {
		return 0, nil
	}

	wanted := map[int64]bool{}
	for _, user := range touched {
		if user != nil && !user[2].IsNull() {
			wanted[user[2].I] = true
		}
	}
	names := map[int64]schema.Value{}
	if err := rows(ctx, l.cities, cities.now, in("city_id", slices.Sorted(maps.Keys(wanted))), func(row []schema.Value) { names[row[0].I] = row[1] }); err != nil {
		return 0, err
	}
	var joined [][]schema.Value
	for _, id := range slices.Sorted(maps.Keys(touched)) {
		row := []schema.Value{schema.IntValue(id), {}, {}}
		if user := touched[id]; user != nil {
			row[1] = user[1]
			if !user[2].IsNull() {
				row[2] = names[user[2].I]
			}
		}
		joined = append(joined, row)
	}
	// Who has no city, or is gone, is not in the join.
	drop := func(row []schema.Value) write.Act {
		if row[2].IsNull() {
			return write.Drop
		}
		return write.Put
	}
	return len(joined), merge(ctx, l.userCity, write.MergeInto{Key: []string{"user_id"}, Matched: drop, NotMatched: drop}, joined,
		map[string]int64{userDim: users.now.Version(), cityDim: cities.now.Version()})
}

// refreshPopulation counts one less where a user went, one more where one came.
func (l *layers) refreshPopulation(ctx context.Context) ([]cityChange, error) {
	target, err := l.population.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	lives, err := since(ctx, l.userCity, target, userCity, "user_id")
	if err != nil {
		return nil, err
	}
	diffs := map[string]int64{}
	for _, k := range lives.keys {
		if k.Before != nil {
			diffs[k.Before[2].S]--
		}
		if k.After != nil {
			diffs[k.After[2].S]++
		}
	}
	maps.DeleteFunc(diffs, func(_ string, n int64) bool { return n == 0 })
	if len(diffs) == 0 {
		return nil, nil
	}
	counts := map[string]int64{}
	if err := rows(ctx, l.population, target, in("city", slices.Sorted(maps.Keys(diffs))), func(row []schema.Value) { counts[row[0].S] = row[1].I }); err != nil {
		return nil, err
	}
	var list []cityChange
	var out [][]schema.Value
	for _, city := range slices.Sorted(maps.Keys(diffs)) {
		n := counts[city] + diffs[city]
		list = append(list, cityChange{city, diffs[city], n})
		out = append(out, []schema.Value{schema.StringValue(city), schema.IntValue(n)})
	}
	empty := func(row []schema.Value) write.Act {
		if row[1].I == 0 {
			return write.Drop
		}
		return write.Put
	}
	return list, merge(ctx, l.population, write.MergeInto{Key: []string{"city"}, Matched: empty, NotMatched: empty}, out, map[string]int64{userCity: lives.now.Version()})
}

// merge writes rows into a layer, and how far it has followed its sources, in one commit.
func merge(ctx context.Context, table *delta.Table, into write.MergeInto, list [][]schema.Value, followed map[string]int64) error {
	_, err := write.Merge(ctx, table, into, write.Rows(func(yield func([]schema.Value, error) bool) {
		for _, row := range list {
			if !yield(row, nil) {
				return
			}
		}
	}), write.WithTxns(followed))
	return err
}

// news is what a source has had of net changes since a layer followed it, up to now.
type news struct {
	now  *delta.Snapshot
	keys []changes.KeyChange
}

// since reads the net changes of a source behind the version that the target names.
func since(ctx context.Context, source *delta.Table, target *delta.Snapshot, name, key string) (news, error) {
	now, err := source.Snapshot(ctx)
	if err != nil {
		return news{}, err
	}
	n := news{now: now}
	from := int64(0)
	if txn, ok := target.Txn(name); ok {
		from = txn.Version + 1
	}
	if from > now.Version() {
		return n, nil
	}
	feed, err := changes.Open(source, now, nil, changes.Options{Key: []string{key}})
	if err != nil {
		return n, err
	}
	u, end, err := feed.NetRange(ctx, from, now.Version())
	if err != nil {
		return n, err
	}
	defer end()
	for k, err := range u.Keys {
		if err != nil {
			return n, err
		}
		n.keys = append(n.keys, *k)
	}
	return n, nil
}

// keyed is a row that has the key: the one after, of a delete the one before.
func keyed(k changes.KeyChange) []schema.Value {
	if k.After != nil {
		return k.After
	}
	return k.Before
}

// rows reads the rows of a version that pass a filter; "" is none.
func rows(ctx context.Context, table *delta.Table, at *delta.Snapshot, where string, take func([]schema.Value)) error {
	if where == "" {
		return nil
	}
	o, err := filter(at, where)
	if err != nil {
		return err
	}
	reading, err := scan.New(table.Store(), at, o)
	if err != nil {
		return err
	}
	for row, err := range reading.Rows(ctx) {
		if err != nil {
			return err
		}
		take(slices.Clone(row))
	}
	return nil
}

// in is the filter for some values, "" for none.
func in[T cmp.Ordered](column string, values []T) string {
	var list []string
	for _, v := range values {
		text := fmt.Sprint(v)
		if s, ok := any(v).(string); ok {
			text = "'" + strings.ReplaceAll(s, "'", "''") + "'"
		}
		list = append(list, text)
	}
	if list == nil {
		return ""
	}
	return column + " IN (" + strings.Join(list, ", ") + ")"
}
