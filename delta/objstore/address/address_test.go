package address_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gscd-io/gscd/delta/objstore/address"
)

func TestOpen(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ address, want string }{
		{"/data/orders", "/data/orders"},
		{"/data/orders/", "/data/orders"},
		{"file:///data/orders", "/data/orders"},
		{"file:/data/orders", "/data/orders"},
		{"FILE://localhost/data/orders", "/data/orders"},
		{"file:///data/a%20b%25", "/data/a b%"},
		{"orders", filepath.Join(here, "orders")},
		{"./orders", filepath.Join(here, "orders")},
		{"dt:2022/t", filepath.Join(here, "dt:2022/t")},
	} {
		s, err := address.Open(t.Context(), c.address)
		if err != nil || s.String() != c.want {
			t.Errorf("open %q = %v, %v; want %s", c.address, s, err, c.want)
		}
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		address string
		want    error
	}{
		{"", address.ErrAddress},
		{"file://elsewhere/data", address.ErrAddress},
		{"file:///a?b", address.ErrAddress},
		{"file:///a%zz", address.ErrAddress},
		{"ftp://host/data", address.ErrAddress},
		{"s3://bucket/orders", address.ErrUnavailable},
		{"s3a://bucket/orders", address.ErrUnavailable},
	} {
		if s, err := address.Open(t.Context(), c.address); !errors.Is(err, c.want) {
			t.Errorf("open %q = %v, %v; want %v", c.address, s, err, c.want)
		}
	}
}
