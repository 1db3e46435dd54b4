package capture

import "testing"

func TestWanted(t *testing.T) {
	o := Options{Name: "app", Tables: []string{"shop.*", "crm.cust?mer"}, Exclude: []string{"*.*_old"}, Topic: "{name}.{database}.{table}"}
	for name, want := range map[[2]string]bool{
		{"shop", "orders"}: true, {"shop", "a/b"}: true, {"shop", "orders_old"}: false, {"crm", "customer"}: true, {"crm", "customers"}: false,
		{"mysql", "user"}: false, {"shop2", "orders"}: false,
	} {
		if got := o.wanted(name[0], name[1]); got != want {
			t.Errorf("%v: %v", name, got)
		}
	}
	if got := o.topicOf("shop", "odd näme/x"); got != "app.shop.odd_n_me_x" {
		t.Error(got)
	}
}

func TestBefore(t *testing.T) {
	if fileNumber("bin.1000000") != 1_000_000 || fileNumber("a.b.000012") != 12 {
		t.Error("numbers of files")
	}
}
