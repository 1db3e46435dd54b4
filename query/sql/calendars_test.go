//go:build cgo

package sql_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/query/sql"
	"github.com/gscd-io/gscd/snapshotter"
)

// Tables with different calendars that are joined by dt are warned of; others are not.
func TestCalendarsThatDiffer(t *testing.T) {
	s := localShop(t)
	other, err := snapshotter.NewCalendar("day", "Asia/Shanghai", "04:00")
	if err != nil {
		t.Fatal(err)
	}
	shifted := sql.Table{Names: []string{"orders"}, Open: func(context.Context) (*sql.Source, error) {
		source, err := openSource(s.orders, "orders")
		if err == nil {
			source.Labels.Calendar = other
		}
		return source, err
	}}
	const join = "SELECT count(*) FROM orders o JOIN user_dim u USING (dt) WHERE dt = '2022-07-10'"
	warned := func(a answer) bool {
		return slices.ContainsFunc(a.notices, func(n string) bool { return strings.Contains(n, "one label is not the same time in both") })
	}
	if a := mustAsk(t, sql.Options{Tables: []sql.Table{table(s.users, "user_dim"), shifted}}, join); !warned(a) {
		t.Errorf("different: %q", a.notices)
	}
	if a := mustAsk(t, sql.Options{Tables: s.tables()}, join); warned(a) {
		t.Errorf("the same: %q", a.notices)
	}
}
