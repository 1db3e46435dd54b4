package decode

import (
	"testing"

	"github.com/gscd-io/gscd/ingest/change"
)

func TestSourcePattern(t *testing.T) {
	for _, c := range []struct {
		source, db, table string
		want              bool
	}{
		{"shop.orders", "shop", "orders", true}, {"shop.orders", "shop", "orders_00", false}, {"shop.a.b", "shop", "a.b", true},
		{"shop.orders_*", "shop", "orders_00", true}, {"shop.orders_*", "shop", "orders", false}, {"shop.orders_*", "shop2", "orders_00", false},
		{"shop_[0-9].orders", "shop_7", "orders", true}, {"shop_[0-9].orders", "shop_77", "orders", false}, {"*.orders_??", "x", "orders_07", true},
		{"shop.*", "shop", "any.thing", true}, {`shop.a\*b`, "shop", "a*b", true}, {`shop.a\*b`, "shop", "axb", false},
	} {
		d, err := New(CanalJSON, Options{Source: c.source})
		if err != nil {
			t.Fatal(err)
		}
		var out change.Change
		value := `{"database":"` + c.db + `","table":"` + c.table + `","type":"INSERT","es":1657936800123,"data":[{"id":"1"}]}`
		if err := d.Decode(&change.Record{Value: []byte(value)}, &change.Arena{}, &out); err != nil || (out.Op == change.Insert) != c.want || c.want && (out.Database != c.db || out.Table != c.table) {
			t.Errorf("%s of %s.%s: %+v, %v", c.source, c.db, c.table, out, err)
		}
	}
	for _, bad := range []string{"orders", "shop.", ".orders", "shop.orders_[", "[.x"} {
		if _, err := New(Auto, Options{Source: bad}); err == nil {
			t.Errorf("%s: taken", bad)
		}
	}
}
