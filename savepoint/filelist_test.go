package savepoint_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/savepoint"
)

const latestList = savepoint.FileListFolder + "latest.json"

func listKey(version int64) string {
	return fmt.Sprintf("%s%020d.jsonl", savepoint.FileListFolder, version)
}

func (g *rig) text(key string) string {
	data, err := g.store.Get(ctx, key)
	if err != nil {
		return "no " + key
	}
	return string(data)
}

// listFaults are the faults of lists that check finds.
func (g *rig) listFaults(o savepoint.CheckOptions) (faults []savepoint.Fault) {
	g.t.Helper()
	o.Now = time.Now()
	report, err := savepoint.Check(ctx, g.table(), o)
	if err != nil {
		g.t.Fatal(err)
	}
	for _, f := range report.Faults {
		if f.Check != "list" {
			g.t.Errorf("%+v", f)
		}
		faults = append(faults, f)
	}
	return faults
}

// sameAsLog compares a list with what the version says.
func (g *rig) sameAsLog(version int64) {
	g.t.Helper()
	s, err := g.table().SnapshotAt(ctx, version)
	if err != nil {
		g.t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(g.text(listKey(version)), "\n"), "\n")
	if len(lines) != s.NumFiles() {
		g.t.Fatalf("%d lines, %d files: %q", len(lines), s.NumFiles(), lines)
	}
	for i, add := range s.Files() {
		var line struct {
			Path   string
			Size   int64
			Rows   int64
			Vector *struct {
				Path        string
				Offset      int32
				Size        int32
				Cardinality int64
			} `json:"deletion_vector"`
		}
		if err := json.Unmarshal([]byte(lines[i]), &line); err != nil {
			g.t.Fatal(err)
		}
		if line.Path != add.Path || line.Size != add.Size || !strings.Contains(add.Stats, fmt.Sprintf(`"numRecords":%d,`, line.Rows)) {
			g.t.Errorf("%s is not %+v", lines[i], add)
		}
		if d := add.DeletionVector; (d == nil) != (line.Vector == nil) {
			g.t.Errorf("%s: vector %+v", lines[i], d)
		} else if d != nil {
			key, _, err := delta.VectorKey(d)
			if v := line.Vector; err != nil || v.Path != key || v.Cardinality != d.Cardinality || v.Size != d.SizeInBytes || v.Offset != *d.Offset {
				g.t.Errorf("%s: vector %+v", lines[i], d)
			}
		}
	}
}

// Each seal lists its files; what a crash left undone is done at the next start; check
// sees what is wrong, and vacuum goes by the savepoints.
func TestFileLists(t *testing.T) {
	for _, kind := range []savepoint.ListKind{savepoint.FileList, savepoint.SymlinkList} {
		t.Run(string(kind), func(t *testing.T) {
			g := newRig(t)
			g.options = func(o *ingest.Options) { o.Lists, o.CopyOnWrite = kind, kind == savepoint.SymlinkList }
			for day := 1; day <= 4; day++ {
				g.day(day, 1, 2, 3)
				g.ingest()
			}
			_, _, m := g.newest()
			var versions []int64
			for _, e := range m.Entries {
				if e.State == savepoint.Sealed {
					versions = append(versions, e.Version)
					g.sameAsLog(e.Version)
				}
			}
			last := versions[len(versions)-1]
			want := fmt.Sprintf(`{"version":%d,"label":"2022-07-03","manifest":%q,"files":"%020d.jsonl"}`+"\n", last, kind, last)
			if got := g.text(latestList); len(versions) != 3 || got != want {
				t.Fatalf("%v: %s", versions, got)
			}
			if kind == savepoint.SymlinkList {
				s, err := g.table().SnapshotAt(ctx, last)
				if err != nil {
					t.Fatal(err)
				}
				var paths []string
				for _, a := range s.Files() {
					paths = append(paths, "file:"+g.store.String()+"/"+a.Path+"\n")
				}
				slices.Sort(paths)
				if got := g.text("_symlink_format_manifest/manifest"); got != strings.Join(paths, "") {
					t.Errorf("manifest %q, want %q", got, paths)
				}
			}
			if faults := g.listFaults(savepoint.CheckOptions{}); len(faults) != 0 {
				t.Errorf("%+v", faults)
			}
			// A crash behind the seal: the lists are those of the day before.
			old := strings.ReplaceAll(strings.ReplaceAll(want, fmt.Sprint(last), fmt.Sprint(versions[1])), "07-03", "07-02")
			damage := func() {
				if err := g.store.Delete(ctx, listKey(last)); err != nil {
					t.Fatal(err)
				}
				if err := g.store.Put(ctx, latestList, []byte(old)); err != nil {
					t.Fatal(err)
				}
			}
			damage()
			if faults := g.listFaults(savepoint.CheckOptions{}); len(faults) != 1 || faults[0].Severity != savepoint.SeverityWarning || faults[0].Repaired {
				t.Errorf("%+v", faults)
			}
			if faults := g.listFaults(savepoint.CheckOptions{Repair: true}); len(faults) != 1 || !faults[0].Repaired || g.text(latestList) != want {
				t.Errorf("%+v, %s", faults, g.text(latestList))
			}
			damage()
			g.ingest()
			if got := g.text(latestList); got != want {
				t.Errorf("after a start: %s", got)
			}
			g.sameAsLog(last)
			// Damaged lists are found.
			for _, text := range []string{"", "{", `{"path":"x","size":1,"rows":1}` + "\n"} {
				if err := g.store.Put(ctx, listKey(last), []byte(text)); err != nil {
					t.Fatal(err)
				}
				if faults := g.listFaults(savepoint.CheckOptions{Repair: true}); len(faults) != 1 || faults[0].File != listKey(last) {
					t.Errorf("%q: %+v", text, faults)
				}
				g.sameAsLog(last)
			}
			// A list goes with its savepoint.
			if _, err := savepoint.Delete(ctx, g.table(), "2022-07-01", time.Now()); err != nil {
				t.Fatal(err)
			}
			report := g.vacuum(savepoint.VacuumOptions{})
			if report.ByKind[savepoint.KindList].Files != 1 || !strings.HasPrefix(g.text(listKey(versions[0])), "no ") || g.text(latestList) != want {
				t.Errorf("%+v", report.ByKind)
			}
			if kind == savepoint.SymlinkList && !bytes.HasSuffix([]byte(g.text("_symlink_format_manifest/manifest")), []byte(".parquet\n")) {
				t.Error("vacuum took the manifest")
			}
			g.sameAsLog(last)
		})
	}
}

func TestManifestsNeedCopyOnWrite(t *testing.T) {
	o := ingest.Options{Lists: savepoint.SymlinkList}
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), "copy-on-write") {
		t.Error(err)
	}
}
