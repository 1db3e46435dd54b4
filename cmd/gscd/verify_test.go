package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// loaded makes a table of days, each of which is CSV.
func loaded(t *testing.T, days ...string) string {
	t.Helper()
	dir := t.TempDir()
	table := filepath.Join(dir, "t")
	for i, csv := range days {
		file := filepath.Join(dir, "day.csv")
		if err := os.WriteFile(file, []byte(csv), 0o600); err != nil {
			t.Fatal(err)
		}
		args := []string{"load", "--snapshot", []string{"2022-07-16", "2022-07-17"}[i], file, "--max-delete-fraction", "90%"}
		if i == 0 {
			args = append(args, "--key", "id", "--timezone", "UTC", "--columns", "id=long,v=string,n=decimal(10,2)")
		}
		if code, _, errs := gscdOn(table, args...); code != exitOK {
			t.Fatal(errs)
		}
	}
	return table
}

// A day is compared with another table by key: what differs is printed and counted.
func TestVerifyTables(t *testing.T) {
	a := loaded(t, "id,v,n\n1,x,1.50\n2,,2\n3,same,3\n4,extra,\n", "id,v,n\n1,x,1.50\n2,\"\",2\n3,same,3\n5,missing,\n6,y,6.01\n")
	b := loaded(t, "id,v,n\n1,x,1.50\n2,\"\",2\n3,same,3\n5,missing,\n6,Y,6.01\n")
	for _, c := range []struct {
		name  string
		args  []string
		code  int
		out   []string
		lines int
		says  string
	}{
		{"itself", []string{"--as-of", "2022-07-16", "--against", a}, exitOK, nil, 0, "t as of 2022-07-16 has 4 rows"},
		{"the same label of another table", []string{"--as-of", "2022-07-16", "--against", b}, exitNo, []string{
			`{"kind":"range","key":{"id":1},"to":{"id":6},"rows":4,"rows_against":5,`,
			`{"kind":"different","key":{"id":2},"to":null,"rows":null,"rows_against":null,"hash":null,"hash_against":null,"columns":["v"]}`,
			`{"kind":"extra","key":{"id":4},`, `{"kind":"missing","key":{"id":5},`, `{"kind":"missing","key":{"id":6},`}, 5, "2 missing, 1 extra, 1 different"},
		{"another label", []string{"--as-of", "2022-07-17", "--against", b + "@2022-07-16"}, exitNo, []string{`{"kind":"different","key":{"id":6},`}, 2, "1 different"},
		{"some columns", []string{"--as-of", "2022-07-17", "--against", b + "@2022-07-16", "--columns", "n"}, exitOK, nil, 0, "equal"},
		{"some rows", []string{"--as-of", "2022-07-17", "--against", b + "@2022-07-16", "--where", "id < 6"}, exitOK, nil, 0, "4 rows"},
		{"a version", []string{"--as-of", "2022-07-16", "--against", a + "@1", "--ranges", "--key-range-rows", "3"}, exitOK, []string{`{"kind":"range"`}, 2, "2 ranges: equal"},
		{"few of many", []string{"--as-of", "2022-07-16", "--against", b, "--limit", "1"}, exitNo, []string{`"different"`}, 2, "2 missing, 1 extra, 1 different"},
		{"no table", []string{"--as-of", "2022-07-16", "--against", "nowhere"}, exitUsage, nil, 0, "--against"},
		{"a wrong filter", []string{"--as-of", "2022-07-16", "--against", b, "--where", "nope = 1"}, exitUsage, nil, 0, "--where"},
		{"a password", []string{"--as-of", "2022-07-16", "--against", "mysql://u:secret@h/d/t"}, exitUsage, nil, 0, "GSCD_MYSQL_PASSWORD"},
		{"no other side", []string{"--as-of", "2022-07-16"}, exitUsage, nil, 0, "--against"},
	} {
		code, out, errs := gscdOn(a, append([]string{"verify"}, c.args...)...)
		if code != c.code || strings.Count(out, "\n") != c.lines || !strings.Contains(errs, c.says) || strings.Contains(errs, "secret") {
			t.Errorf("%s: exit %d\n%s%s", c.name, code, out, errs)
		}
		for _, want := range c.out {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %s in\n%s", c.name, want, out)
			}
		}
	}
}
