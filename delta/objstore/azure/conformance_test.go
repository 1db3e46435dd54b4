package azure_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/azure"
	"github.com/gscd-io/gscd/delta/objstore/storetest"
)

func TestMain(m *testing.M) {
	// The connections of clients that are gone wait for their idle time to pass.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

func TestConformance(t *testing.T) {
	f := newFake(t)
	n := 0
	storetest.Run(t, func(t *testing.T) objstore.Store {
		n++
		return f.open(t, fmt.Sprintf("/tables/t%d/", n))
	})
}

// The root of a container is a store as well, and pages end anywhere.
func TestConformanceOfAWholeContainer(t *testing.T) {
	storetest.Run(t, func(t *testing.T) objstore.Store {
		f := newFake(t)
		f.page = 3
		return f.open(t, "")
	})
}

func TestName(t *testing.T) {
	f := newFake(t)
	for prefix, want := range map[string]string{"": "az://lake", "/dim/t/": "az://lake/dim/t"} {
		if s := f.open(t, prefix); s.String() != want {
			t.Errorf("prefix %q: %s, want %s", prefix, s, want)
		}
	}
	for prefix, want := range map[string]string{"": "abfss://lake@acct.dfs.core.windows.net", "dim/t": "abfss://lake@acct.dfs.core.windows.net/dim/t"} {
		s, err := azure.Open(lake, prefix, azure.Options{Account: account, Anonymous: true})
		if err != nil || s.String() != want {
			t.Errorf("prefix %q: %v, %v; want %s", prefix, s, err, want)
		}
	}
}

// Folders of a hierarchical namespace, and what is none of ours, do not disturb.
func TestFolders(t *testing.T) {
	f := newFake(t)
	s := f.open(t, "t")
	if err := s.Put(t.Context(), "a/b", []byte("x")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"t", "t/a", "t/a/", "t/a//c", "t2/other"} {
		f.blobs[name] = &stored{modified: time.Now(), kind: "directory", metadata: map[string][]string{"X-Ms-Meta-Hdi_isfolder": {"true"}}}
	}
	var got []string
	for o, err := range s.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, o.Key)
	}
	if strings.Join(got, " ") != "a/b" {
		t.Errorf("listed %q", got)
	}
	if _, err := s.Head(t.Context(), "a"); !errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("head of a folder: %v", err)
	}
}

// Azure keeps "a." as "a" and `a\b` as "a/b": such names are no keys.
func TestNamesThatAzureChanges(t *testing.T) {
	s := newFake(t).open(t, "t")
	for _, key := range []string{"a.", "a./b", `a\b`, "a../b"} {
		if err := s.Put(t.Context(), key, nil); !errors.Is(err, objstore.ErrKey) {
			t.Errorf("put %q: %v", key, err)
		}
	}
}

func TestRefusedSettings(t *testing.T) {
	f := newFake(t)
	with := func(change func(*azure.Options)) azure.Options {
		o := f.options()
		change(&o)
		return o
	}
	for name, c := range map[string]struct {
		container, prefix string
		o                 azure.Options
		says              string
	}{
		"no container":     {"", "t", f.options(), "az://CONTAINER/PATH"},
		"no name":          {"La_ke", "t", f.options(), "az://CONTAINER/PATH"},
		"dots":             {lake, "a/../b", f.options(), `".."`},
		"no account":       {lake, "t", with(func(o *azure.Options) { o.Account = "" }), "azure.account"},
		"no URL":           {lake, "t", with(func(o *azure.Options) { o.Endpoint = "localhost:10000" }), "http://HOST:PORT/ACCOUNT"},
		"login in the URL": {lake, "t", with(func(o *azure.Options) { o.Endpoint = "http://me:hush@host" }), "azure.sas_token"},
		"signature in it":  {lake, "t", with(func(o *azure.Options) { o.Endpoint = "http://host/acct?sig=hush" }), "azure.sas_token"},
		"two logins":       {lake, "t", with(func(o *azure.Options) { o.SASToken = "sv=1&sig=hush" }), "exclude each other"},
		"no key":           {lake, "t", with(func(o *azure.Options) { o.AccountKey = "hush!" }), "base64"},
		"no signature":     {lake, "t", with(func(o *azure.Options) { o.AccountKey, o.SASToken = "", "hush" }), "azure.sas_token"},
	} {
		_, err := azure.Open(c.container, c.prefix, c.o)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v, want one that says %s", name, err, c.says)
		}
		if !errors.Is(err, azure.ErrOptions) {
			t.Errorf("%s: %v is no ErrOptions", name, err)
		}
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if text := fmt.Sprintf(format, f.options()); slices.ContainsFunc([]string{accountKey, "hush"}, func(s string) bool { return strings.Contains(text, s) }) {
			t.Errorf("%s prints %s", format, text)
		}
	}
}
