package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/selfsum"
	"github.com/gscd-io/gscd/ingest/deadletter"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
)

// noTable are commands that open no table.
var noTable = []string{
	"notify test", "notify send", // the latter reads the map as snapshots does, of the tables of a section notify
	"shell", // not before a statement, which is that of query
	"bench", "bench broker", "bench scenario", "capture", "completion", "config check", "config show", "convert", "demo", "help", "record", "version",
}

// askedOf are calls of every other command on the table T of a configuration C.
func askedOf() []string {
	return []string{
		"adopt --label 2022-07-18 --location T --key id --timezone UTC --topic items --yes --input WHOLE --offsets items/0=3,items/1=3",
		"blame --table T --as-of 2022-07-17", "changes --table T --from 2022-07-16 --to 2022-07-17", "check --table T", "check --table T --deep --repair",
		"dead-letter dismiss -c C --reason late", "dead-letter list --table T", "dead-letter replay -c C --all", "dead-letter show items/0/0 --table T",
		"describe --table T", "diff 2022-07-16 2022-07-17 --table T", "export --table T --as-of 2022-07-16 --to /w/out --deep",
		"history --table T --key id=1", "ingest -c C --input WHOLE --until-end", "load --snapshot 2022-07-25 s3://w/in/x.csv --table T",
		"maintain -c C --once", "offsets set items/0=5 -c C --input WHOLE --yes", "optimize --table T", "query --table T --as-of 2022-07-16", "query --table T --version 0", "query SELECT/**/id/**/FROM/**/t -c C",
		"report --table T --html OUT", "rollback --table T --to 2022-07-16 --yes", "savepoint create here --table T", "savepoint delete 2022-07-16 --table T --yes",
		"savepoint list --table T", "scd2 --table T --out /w/h", "seal 2022-07-20 --force -c C --input WHOLE", "snapshots --table T", "status --table T", "status --why --table T", "wait --as-of 2022-07-16 --timeout 5s --table T",
		"vacuum --table T --retain 0s --grace 0s", "verify --table T --as-of 2022-07-16 --against /w/t", "views --table T --dialect spark", "widen n=bigint --table T",
	}
}

// A table of a newer gscd is refused by every command, reading ones too, with the release to use; nothing of it changes.
func TestNewerTableIsRefused(t *testing.T) {
	c, whole := tableConfig(t, "t", ""), input(t, "items.jsonl", storyOf(4))
	base := newWorld()
	base.ok(t, "ingest", "-c", c, "--input", whole, "--until-end")
	if err := base.below.Put(t.Context(), "w/in/x.csv", []byte("id,name,day\n1,a,b\n")); err != nil {
		t.Fatal(err)
	}
	lines := strings.NewReplacer(" C", " "+c, "WHOLE", whole, "OUT", t.TempDir()+"/page.html", " T", " /w/t")
	asked := askedOf()

	a, _, _ := newTestApp()
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			visit(sub)
		}
		path := strings.TrimPrefix(c.CommandPath(), "gscd ")
		if c.Runnable() && c.HasParent() && !c.HasAvailableSubCommands() && !slices.Contains(noTable, path) &&
			!slices.ContainsFunc(asked, func(line string) bool { return line == path || strings.HasPrefix(line, path+" ") }) {
			t.Errorf("gscd %s: say in askedOf how it opens a table, or in noTable that it does not", path)
		}
	}
	visit(newRootCommand(a, commands))

	for name, bump := range map[string]func(*testing.T, *world) string{
		"property": func(t *testing.T, w *world) string {
			w.newVersion(t, "/w/t", func(m *action.Metadata) { m.Configuration[savepoint.PropertyFormatVersion] = "2" }, nil)
			return "property gscd.format_version has version 2, this program knows 1"
		},
		"progress": func(t *testing.T, w *world) string {
			w.newVersion(t, "/w/t", nil, func(info map[string]any) {
				gscd := info[progress.Key].(map[string]any)
				gscd["format_version"], gscd["kind"] = 2, []string{"of another type"}
			})
			return "the progress in commitInfo.gscd has version 2, this program knows 1"
		},
	} {
		w := base.clone()
		want := bump(t, w) + ": it was written by a newer gscd; use gscd v9.1.0 or newer"
		before := w.objects(t)
		for _, line := range asked {
			args := strings.Fields(lines.Replace(line))
			if code, stderr := w.gscd(io.Discard, args...); code != exitFailed || !strings.Contains(stderr, want) || strings.Contains(stderr, "panic") {
				t.Errorf("%s: gscd %s: exit %d\n%s", name, line, code, stderr)
			}
		}
		if !maps.Equal(w.objects(t), before) {
			t.Errorf("%s: the storage has changed", name)
		}
	}
}

// What lies beside the log is refused by those who need it, by its name.
func TestNewerFilesAreRefused(t *testing.T) {
	c, whole := tableConfig(t, "t", ", late: dead_letter"), input(t, "items.jsonl", storyOf(4))
	base := newWorld()
	base.ok(t, "ingest", "-c", c, "--input", whole, "--until-end")
	base.ok(t, "dead-letter", "dismiss", "-c", c, "--reason", "late")
	base.ok(t, "check", "--table", "/w/t", "--checksums")
	base.ok(t, "scd2", "--table", "/w/t", "--out", "/w/h")
	longer := input(t, "longer.jsonl", storyOf(5))
	for _, f := range []struct {
		name  string
		bump  func(*testing.T, *world)
		want  string
		lines []string
	}{
		{"held", bumpFile("w/t/_delta_log/_gscd/held/", "gscd held 1\n", "gscd held 2\n"), "held file _delta_log/_gscd/held/", []string{"ingest -c C --input LONGER --until-end"}},
		{"markers", bumpFile("w/t/_delta_log/_gscd/markers/", "gscd markers 1\n", "gscd markers 2\n"), "the marker file", []string{"ingest -c C --input LONGER --until-end", "history --table T --key id=3"}},
		{"settled", bumpFile("w/t/_delta_log/_gscd/settled/", "", `{"format":2,"more":[]}`+"\n"), "the file of settled dead letters", []string{"dead-letter list --table T", "dead-letter replay -c C --all"}},
		{"dead-letter table", func(t *testing.T, w *world) {
			w.newVersion(t, "/w/t"+deadletter.Suffix, func(m *action.Metadata) { m.Configuration["gscd.format_version"] = "2" }, nil)
		}, "property gscd.format_version of the dead-letter table", []string{"dead-letter list --table T", "dead-letter replay -c C --all", "ingest -c C --input LONGER --until-end"}},
		{"history table", func(t *testing.T, w *world) {
			w.newVersion(t, "/w/h", func(m *action.Metadata) {
				m.Configuration["gscd.scd2"] = strings.Replace(m.Configuration["gscd.scd2"], "{", `{"format":2,`, 1)
			}, nil)
		}, "property gscd.scd2", []string{"scd2 --table T --out /w/h", "scd2 --table T --out /w/h --check"}},
		{"checksum", func(t *testing.T, w *world) { w.newChecksum(t) }, "checksum file _delta_log/_gscd/checksums/v", []string{"check --table T --deep"}},
	} {
		t.Run(f.name, func(t *testing.T) {
			w := base.clone()
			f.bump(t, w)
			want := f.want
			for _, line := range f.lines {
				args := strings.Fields(strings.NewReplacer(" C", " "+c, "LONGER", longer, " T", " /w/t").Replace(line))
				before := w.objects(t)
				code, stderr := w.gscd(io.Discard, args...)
				if code != exitFailed || !strings.Contains(stderr, want) || !strings.Contains(stderr, "has version 2, this program knows 1: it was written by a newer gscd; use the release that wrote it or newer") {
					t.Errorf("gscd %s: exit %d\n%s\nwant %s", line, code, stderr, want)
				}
				if !maps.Equal(w.objects(t), before) {
					t.Errorf("gscd %s: the storage has changed", line)
				}
			}
		})
	}
}

// objects are all objects, by key, and their bytes.
func (w *world) objects(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for o, err := range w.below.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		body, err := w.below.Get(t.Context(), o.Key)
		if err != nil {
			t.Fatal(err)
		}
		all[o.Key] = string(body)
	}
	return all
}

// newVersion lays a commit of a newer release down: with other metadata, or as the newest commit's progress.
func (w *world) newVersion(t *testing.T, location string, metadata func(*action.Metadata), info func(map[string]any)) {
	t.Helper()
	store := w.open(location, true)
	table, err := savepoint.OpenTable(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	s, err := table.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	raw := []byte("{}")
	if txn, ok := s.Txn(progress.AppID); ok {
		if raw, err = table.CommitInfo(t.Context(), txn.Version); err != nil {
			t.Fatal(err)
		}
	}
	next := s.Version() + 1
	commitInfo := map[string]any{}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&commitInfo); err != nil {
		t.Fatal(err)
	}
	delete(commitInfo, "sha256")
	commitInfo["engineInfo"] = "gscd/v9.1.0"
	if info != nil {
		info(commitInfo)
	}
	c := action.Commit{Txns: []action.Txn{{AppID: progress.AppID, Version: next}}}
	if c.Info, err = json.Marshal(commitInfo); err != nil {
		t.Fatal(err)
	}
	if metadata != nil {
		m := *s.Metadata()
		m.Configuration = maps.Clone(m.Configuration)
		if m.Configuration == nil {
			m.Configuration = map[string]string{}
		}
		metadata(&m)
		c.Metadata = &m
	}
	if err := store.Put(t.Context(), deltalog.CommitKey(next), c.Append(nil)); err != nil {
		t.Fatal(err)
	}
}

// bumpFile gives each file below a prefix another beginning.
func bumpFile(prefix, from, to string) func(*testing.T, *world) {
	return func(t *testing.T, w *world) {
		n := 0
		for key, body := range w.objects(t) {
			if !strings.HasPrefix(key, prefix) {
				continue
			}
			z, err := zstd.NewReader(strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			plain, err := io.ReadAll(z)
			z.Close()
			if err != nil || !bytes.HasPrefix(plain, []byte(from)) {
				t.Fatalf("%s begins with %.20q: %v", key, plain, err)
			}
			out, err := zstd.NewWriter(nil)
			if err != nil {
				t.Fatal(err)
			}
			data := selfsum.AppendFrame(out.EncodeAll(append([]byte(to), plain[len(from):]...), nil))
			if err := w.below.Put(t.Context(), key, data); err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n == 0 {
			t.Fatalf("nothing lies below %s", prefix)
		}
	}
}

// newChecksum records the checksum of a savepoint in another form.
func (w *world) newChecksum(t *testing.T) {
	t.Helper()
	key := w.first(t, "w/t/_delta_log/_gscd/checksums/", ".json")
	body, err := w.below.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	var version int64
	if _, err := fmt.Sscanf(key[strings.LastIndex(key, "/")+1:], "v%d.json", &version); err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(body, []byte(`"format":1`), []byte(`"format":2`), 1)
	if bytes.Equal(changed, body) {
		t.Fatalf("%s has no format: %s", key, body)
	}
	if err := w.below.Put(t.Context(), key, changed); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(changed)
	store := w.open("/w/t", true)
	table, err := savepoint.OpenTable(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	s, err := table.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	commit := fmt.Sprintf(`{"commitInfo":{"operation":"CHECKSUM","engineInfo":"gscd/v9.1.0"}}`+"\n"+`{"txn":{"appId":"gscd.checksum/%d","version":%d}}`+"\n", version, binary.BigEndian.Uint64(sum[:])>>1)
	if err := store.Put(t.Context(), deltalog.CommitKey(s.Version()+1), []byte(commit)); err != nil {
		t.Fatal(err)
	}
}
