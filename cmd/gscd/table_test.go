package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const twoTables = `
calendar: {timezone: UTC}
tables:
  - {location: /lake/user_dim, late: fail}
  - {name: orders, location: s3://lake/order_fact}
`

func TestResolveTable(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, d := range []string{"copy/_delta_log", "plain", "orders/_delta_log"} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	two, one := filepath.Join(dir, "two.yaml"), filepath.Join(dir, "one.yaml")
	for name, text := range map[string]string{two: twoTables, one: "calendar: {timezone: UTC}\ntables: [{location: " + dir + "/copy}]"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		file, table   string
		name, address string
		configured    bool
		says          string
	}{
		{two, "user_dim", "user_dim", "/lake/user_dim", true, ""},
		{two, "/lake/user_dim/", "user_dim", "/lake/user_dim", true, ""},
		{two, "file:///lake/user_dim", "user_dim", "/lake/user_dim", true, ""},
		{two, "s3a://lake/order_fact/", "orders", "s3://lake/order_fact", true, ""},
		{two, "s3://lake/other", "other", "s3://lake/other", false, ""},
		{two, "./plain", "plain", "./plain", false, ""},
		{two, "copy", "copy", "copy", false, ""},
		// A folder with a table goes before a configured name.
		{two, "orders", "orders", "orders", false, ""},
		{two, "plain", "", "", false, `table "plain" is not configured: use one of user_dim, orders, or an address such as ./plain`},
		{two, "", "", "", false, "2 tables are configured: give --table with one of user_dim, orders"},
		{one, "", "copy", dir + "/copy", true, ""},
		{one, "copy", "copy", dir + "/copy", true, ""},
		{"", "", "", "", false, "no table: give --table ADDRESS"},
		{"", "plain", "", "", false, "no folder of that name has a _delta_log"},
		{"", "copy", "copy", "copy", false, ""},
		{filepath.Join(dir, "none.yaml"), "copy", "", "", false, "read configuration: open"},
	} {
		a, _, _ := newTestApp()
		a.flags.config = c.file
		got, err := a.resolveTable(c.table)
		if c.says != "" {
			if err == nil || !strings.Contains(err.Error(), c.says) || exitCode(err, true, false) != exitUsage {
				t.Errorf("%s --table %q: %v, want %q", c.file, c.table, err, c.says)
			}
			continue
		}
		if err != nil || got.Name != c.name || got.Address != c.address || (got.Config != nil) != c.configured {
			t.Errorf("%s --table %q: %+v, %v, want %s at %s", c.file, c.table, got, err, c.name, c.address)
		}
		if got.Name == "user_dim" && got.Config.Late != "fail" {
			t.Errorf("%s: late %s, want fail", c.table, got.Config.Late)
		}
	}
}

// The file is -c, else GSCD_CONFIG, else ./gscd.yaml; only the last may be absent.
func TestConfigFile(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("gscd.yaml", []byte("calendar: {timezone: Asia/Shanghai}"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("other.yaml", []byte("calendar: {timezone: Europe/Berlin}"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flag, env, zone string
	}{
		{"", "", "Asia/Shanghai"},
		{"", "other.yaml", "Europe/Berlin"},
		{"./gscd.yaml", "other.yaml", "Asia/Shanghai"},
	} {
		a, _, _ := newTestApp("GSCD_CONFIG=" + c.env)
		a.flags.config = c.flag
		cfg, err := a.config()
		if err != nil || cfg.Calendar.Timezone != c.zone {
			t.Errorf("-c %q GSCD_CONFIG=%q: %+v, %v, want %s", c.flag, c.env, cfg, err, c.zone)
		}
	}
}
