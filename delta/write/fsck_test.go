package write_test

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/write"
)

// sumOfCommit is what a commit says of its own bytes.
var sumOfCommit = regexp.MustCompile(`,"sha256":"[0-9a-f]{64}"`)

// Logs that lie about a file are told from damaged files, and corrected where the file
// itself is whole.
func TestRestateFiles(t *testing.T) {
	for name, c := range map[string]struct {
		vector bool
		lie    func(log string, add string, size int64) string // changes the commit that adds the file
		damage string                                          // in place of the file
		kinds  []delta.FileFaultKind
		mended int
	}{
		"rows":             {lie: lieRows, kinds: []delta.FileFaultKind{delta.WrongRows}, mended: 1},
		"size":             {lie: lieSize, kinds: []delta.FileFaultKind{delta.WrongSize}, mended: 1},
		"both":             {lie: func(l, a string, n int64) string { return lieSize(lieRows(l, a, n), a, n) }, kinds: []delta.FileFaultKind{delta.WrongSize, delta.WrongRows}, mended: 2},
		"rows and vector":  {vector: true, lie: lieRows, kinds: []delta.FileFaultKind{delta.WrongRows}, mended: 1},
		"size and vector":  {vector: true, lie: lieSize, kinds: []delta.FileFaultKind{delta.WrongSize}},
		"not a file":       {damage: strings.Repeat("x", 5000), kinds: []delta.FileFaultKind{delta.WrongSize, delta.UnreadableFile}},
		"nothing is wrong": {},
	} {
		t.Run(name, func(t *testing.T) {
			table := create(t, "id long, name string", "", modes["vectors"])
			r := must(t)(write.Append(ctx, table, values([]any{1, "a"}, []any{2, "b"}, []any{3, nil})))
			file := add(t, r.Snapshot)
			if c.vector {
				r = must(t)(write.Delete(ctx, table, "id = 2"))
			}
			must(t)(write.Append(ctx, table, values([]any{9, "z"})))
			want9 := rows(t, table, -1)
			if c.lie != nil {
				key := deltalog.CommitKey(r.Version)
				log, err := table.Store().Get(ctx, key)
				if err != nil {
					t.Fatal(err)
				}
				lied := c.lie(string(log), file.Path, file.Size)
				if lied == string(log) {
					t.Fatalf("nothing to lie about in %s", log)
				}
				lied = sumOfCommit.ReplaceAllString(lied, "") // or nothing else of it would be believed
				if err := table.Store().Put(ctx, key, []byte(lied)); err != nil {
					t.Fatal(err)
				}
			}
			if c.damage != "" {
				if err := table.Store().Put(ctx, file.Path, []byte(c.damage)); err != nil {
					t.Fatal(err)
				}
			}
			table = delta.New(table.Store())
			found := func() (kinds []delta.FileFaultKind) {
				t.Helper()
				s, err := table.Snapshot(ctx)
				if err != nil {
					t.Fatal(err)
				}
				sizes, err := table.CheckFiles(ctx, s, false)
				if err != nil {
					t.Fatal(err)
				}
				counts, err := table.CheckRows(ctx, s)
				if err != nil {
					t.Fatal(err)
				}
				for _, f := range slices.Concat(sizes, counts) {
					if f.Path != file.Path {
						t.Errorf("%+v", f)
					}
					kinds = append(kinds, f.Kind)
				}
				return kinds
			}
			if got := found(); !slices.Equal(got, c.kinds) {
				t.Errorf("found %v, want %v", got, c.kinds)
			}
			version, mended, err := table.RestateFiles(ctx)
			if err != nil || len(mended) != c.mended || (version >= 0) != (c.mended > 0) {
				t.Fatalf("version %d, %+v, %v", version, mended, err)
			}
			switch {
			case c.mended > 0:
				if got := found(); len(got) != 0 {
					t.Errorf("left %v", got)
				}
				want(t, rows(t, table, -1), want9...)
				s, err := table.Snapshot(ctx)
				if err != nil || s.NumFiles() != 2 || len(s.Tombstones()) != 0 && !c.vector {
					t.Errorf("%v, %v", s, err)
				}
				if op, _, metrics := commitInfo(t, table, version); op != "FSCK" || metrics["numRestatedFiles"] != "1" {
					t.Error(op, metrics)
				}
				if _, err := table.Checkpoint(ctx, s, delta.CheckpointOptions{}); err != nil {
					t.Error(err)
				}
				must(t)(write.Delete(ctx, table, "id = 1"))
				want(t, rows(t, table, -1), slices.DeleteFunc(slices.Clone(want9), func(r string) bool { return strings.HasPrefix(r, "1|") })...)
			case len(c.kinds) > 0:
				s, err := table.Snapshot(ctx)
				if err != nil {
					t.Fatal(err)
				}
				reading, err := scan.New(table.Store(), s, scan.Options{})
				if err != nil {
					t.Fatal(err)
				}
				for _, err = range reading.Rows(ctx) {
				}
				if !errors.Is(err, scan.ErrFileMismatch) {
					t.Errorf("what can't be mended reads: %v", err)
				}
			}
		})
	}
}

func lieRows(log, _ string, _ int64) string {
	return strings.Replace(log, `\"numRecords\":3`, `\"numRecords\":7`, 1)
}

// lieSize changes the size of adds alone.
func lieSize(log, _ string, size int64) string {
	var lines []string
	for line := range strings.Lines(log) {
		if strings.HasPrefix(line, `{"add"`) {
			line = strings.Replace(line, fmt.Sprintf(`"size":%d`, size), fmt.Sprintf(`"size":%d`, size+1), 1)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "")
}
