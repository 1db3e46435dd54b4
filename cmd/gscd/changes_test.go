package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

// changedTable is a table with change data: created, updated, merged.
func changedTable(t *testing.T) (dir string, table *delta.Table) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "users")
	store, err := local.New(dir, local.Options{})
	if err != nil {
		t.Fatal(err)
	}
	table = delta.New(store)
	must := func(_ write.Result, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(write.Create(t.Context(), table, write.Definition{
		Columns:    []schema.Field{write.Column("id", schema.Of(schema.Long)), write.Column("city", schema.Of(schema.StringType))},
		Properties: map[string]string{delta.PropertyChangeDataFeed: "true", delta.PropertyDeletionVectors: "true"},
	}, write.Values([][]any{{1, "Beijing"}, {2, "Hangzhou"}})))
	must(write.Update(t.Context(), table, "id = 1", write.Set{"city": "Hangzhou"}))
	must(write.Merge(t.Context(), table, write.MergeInto{Key: []string{"id"}}, write.Values([][]any{{3, "Wuhan"}})))
	must(write.Update(t.Context(), table, "id = 1", write.Set{"city": "Beijing"}))
	must(write.Delete(t.Context(), table, "id = 2"))
	return dir, table
}

func TestChanges(t *testing.T) {
	dir, _ := changedTable(t)
	out := func(code int, says string, args ...string) string {
		t.Helper()
		a, stdout, stderr := newTestApp()
		if got := run(append([]string{"changes", "--table", dir}, args...), a, commands); got != code || !strings.Contains(stderr.String(), says) {
			t.Errorf("%q: exit %d, want %d: %s", args, got, code, stderr)
		}
		return stdout.String()
	}
	short := func(text string) string { // without the times
		var b strings.Builder
		for line := range strings.Lines(text) {
			cells := strings.Split(strings.TrimSpace(line), ",")
			b.WriteString(strings.Join(cells[:len(cells)-1], ",") + "\n")
		}
		return b.String()
	}
	for _, c := range []struct{ args, want string }{
		{"--from-version 1 --to-version 2", "1,Beijing,update_preimage,1\n1,Hangzhou,update_postimage,1\n3,Wuhan,insert,2\n"},
		{"--from-version 4", "2,Hangzhou,delete,4\n"},
		{"--from-version 1 --net --key id", "2,Hangzhou,delete,4\n3,Wuhan,insert,4\n"},
		{"--from-timestamp 2000-01-01 --net --key id", "1,Beijing,insert,4\n3,Wuhan,insert,4\n"},
		{"--from-timestamp 2100-01-01", ""},
		{"--from-version 1 --columns city --to-version 1", "Beijing,update_preimage,1\nHangzhou,update_postimage,1\n"},
	} {
		head := "id,city,_change_type,_commit_version\n"
		if strings.Contains(c.args, "--columns") {
			head = "city,_change_type,_commit_version\n"
		}
		if got := short(out(0, "", append(strings.Fields(c.args), "--format", "csv")...)); got != head+c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.args, got, c.want)
		}
	}
	if got := out(0, "", "--from-version", "4"); !strings.HasPrefix(got, `{"id":2,"city":"Hangzhou","_change_type":"delete","_commit_version":4,"_commit_timestamp":"20`) {
		t.Errorf("JSON lines: %s", got)
	}
	file := filepath.Join(t.TempDir(), "changes.parquet")
	out(0, "rows written: 6", "--from-version", "1", "--output", file)
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	for name, args := range map[string][]string{"changes.feather": nil, "changes.arrow": nil, "changes": {"--format", "arrow"}} {
		file := filepath.Join(t.TempDir(), name)
		out(0, "rows written: 6", append(args, "--from-version", "1", "--output", file)...)
		if data, err := os.ReadFile(file); err != nil || !bytes.HasPrefix(data, []byte("ARROW1")) || !bytes.HasSuffix(data, []byte("ARROW1")) {
			t.Errorf("%s: %v, begins with %.8q", name, err, data)
		}
	}
	out(2, `unknown output format "arrow"`, "--from-version", "1", "--format", "arrow")
	out(2, `"xlsx" is no format for a file: use parquet, arrow, csv`, "--from-version", "1", "--output", "changes.xlsx")
	out(2, "give --from LABEL, --from-version N or --from-timestamp TIME")
	out(2, "bounds are two labels, or versions and times", "--from-version", "1", "--to", "2022-07-16")
	out(2, "versions begin at 0", "--from-version", "-1")
	out(2, "--from-version 3 is above --to-version 2", "--from-version", "3", "--to-version", "2")
	out(2, `--columns: the table has no column "town"`, "--from-version", "1", "--columns", "town")
	out(2, "the table has no key: name its columns with --key A,B", "--from-version", "1", "--net")
	out(1, "it has no labels, use --from-version", "--from", "2022-07-16")
	out(1, "version 9 is not there yet: the newest is 4", "--from-version", "9")
	if err := os.RemoveAll(filepath.Join(dir, "_change_data")); err != nil {
		t.Fatal(err)
	}
	out(1, "; change data can be read from version 4 on", "--from-version", "1")
}
