package main

import (
	"context"
	"fmt"
	"maps"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
)

func filter(at *delta.Snapshot, where string) (o scan.Options, err error) {
	o.Where, err = expr.Parse(where, at.Schema())
	return o, err
}

// all reads a table into a map by its first column.
func all(ctx context.Context, table *delta.Table, take func(row []schema.Value)) error {
	now, err := table.Snapshot(ctx)
	if err != nil {
		return err
	}
	return rows(ctx, table, now, "TRUE", take)
}

// check computes both layers from user_dim and city_dim anew and compares.
func (l *layers) check(ctx context.Context) error {
	cities := map[int64]schema.Value{}
	wantUsers, wantCities := map[string]bool{}, map[string]int64{}
	gotUsers, gotCities := map[string]bool{}, map[string]int64{}
	err := first(
		all(ctx, l.cities, func(row []schema.Value) { cities[row[0].I] = row[1] }),
		all(ctx, l.users, func(row []schema.Value) {
			city := cities[row[2].I]
			if row[2].IsNull() || city.IsNull() {
				return
			}
			wantUsers[fmt.Sprint(row[0].I, row[1].S, city.S)] = true
			wantCities[city.S]++
		}),
		all(ctx, l.userCity, func(row []schema.Value) { gotUsers[fmt.Sprint(row[0].I, row[1].S, row[2].S)] = true }),
		all(ctx, l.population, func(row []schema.Value) { gotCities[row[0].S] += row[1].I }),
	)
	switch {
	case err != nil:
		return err
	case !maps.Equal(gotUsers, wantUsers):
		return fmt.Errorf("%s is %v, computed anew it is %v", userCity, gotUsers, wantUsers)
	case !maps.Equal(gotCities, wantCities):
		return fmt.Errorf("%s is %v, computed anew it is %v", population, gotCities, wantCities)
	}
	return nil
}
