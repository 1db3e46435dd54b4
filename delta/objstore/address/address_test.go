package address_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/address"
	"github.com/gscd-io/gscd/delta/objstore/mem"
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
		{"s3://", address.ErrAddress},
		{"s3:///orders", address.ErrAddress},
		{"s3://bucket", address.ErrAddress},
		{"s3://bucket//", address.ErrAddress},
		{"s3://bucket/t?endpoint=http://host", address.ErrAddress},
		{"s3://key:hush@bucket/t", address.ErrAddress},
		{"gs://key:hush@bucket/t", address.ErrAddress},
		{"gs://bucket/t", address.ErrUnavailable},
		{"gs://bucket", address.ErrAddress},
		{"az://lake/t", address.ErrUnavailable},
		{"az:///t", address.ErrAddress},
		{"az://key:hush@lake/t", address.ErrAddress},
		{"abfss://lake@acct.dfs.core.windows.net/t", address.ErrUnavailable},
		{"abfss://lake@acct.dfs.core.windows.net", address.ErrAddress},
		{"abfss://lake@acct.elsewhere.example/t", address.ErrAddress},
		{"abfss://lake/t", address.ErrAddress},
		{"abfss://lake:hush@acct.dfs.core.windows.net/t", address.ErrAddress},
		{"abfss://lake@acct.dfs.core.windows.net/t?sig=x", address.ErrAddress},
	} {
		if s, err := address.Open(t.Context(), c.address); !errors.Is(err, c.want) {
			t.Errorf("open %q = %v, %v; want %v", c.address, s, err, c.want)
		} else if strings.Contains(err.Error(), "hush") {
			t.Errorf("open %q prints the login: %v", c.address, err)
		}
	}
}

func TestOpenS3(t *testing.T) {
	for text, want := range map[string]string{
		"s3://lake/orders":       "lake orders",
		"s3://lake/dim/orders/":  "lake dim/orders",
		"S3A://lake/dim//orders": "lake dim//orders", // the store's to refuse
		"s3://lake/a%20b@c d":    "lake a%20b@c d",
	} {
		var got string
		store := mem.New()
		s, err := address.Open(t.Context(), text, address.S3(func(_ context.Context, bucket, folder string) (objstore.Store, error) {
			got = bucket + " " + folder
			return store, nil
		}))
		if err != nil || s != store || got != want {
			t.Errorf("open %q: opened %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestOpenGoogleAndAzure(t *testing.T) {
	for text, want := range map[string]string{
		"gs://lake/dim/orders/": "google lake dim/orders",
		"az://lake/orders":      "azure  lake orders",
		"abfss://lake@acct.dfs.core.windows.net/dim/orders":   "azure acct lake dim/orders",
		"ABFSS://lake@acct.blob.core.windows.net/dim/orders/": "azure acct lake dim/orders",
	} {
		var got string
		store := mem.New()
		s, err := address.Open(t.Context(), text, address.Google(func(_ context.Context, bucket, folder string) (objstore.Store, error) {
			got = "google " + bucket + " " + folder
			return store, nil
		}), address.Azure(func(_ context.Context, account, container, folder string) (objstore.Store, error) {
			got = "azure " + account + " " + container + " " + folder
			return store, nil
		}))
		if err != nil || s != store || got != want {
			t.Errorf("open %q: opened %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestShown(t *testing.T) {
	for text, want := range map[string]string{
		"/data/a@b":              "/data/a@b",
		"s3://lake/a@b":          "s3://lake/a@b",
		"s3://key:hush@lake/a@b": "s3://***@lake/a@b",
		"s3://key:hush@lake":     "s3://***@lake",
		"gs://a@b@lake/":         "gs://***@lake",

		"abfss://lake@acct.dfs.core.windows.net/t":      "abfss://lake@acct.dfs.core.windows.net/t",
		"abfss://lake:hush@acct.dfs.core.windows.net/t": "abfss://***@acct.dfs.core.windows.net/t",
	} {
		if got := address.Shown(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
