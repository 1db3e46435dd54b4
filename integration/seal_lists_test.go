package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/clone"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/savepoint"
)

// A process that is killed at any write around a seal leaves lists that hold together: the
// newest one names a sealed version whose list has exactly the files of the log. The next
// start, and nobody else, brings them up to the seal.
func TestSealListsSurviveKills(t *testing.T) {
	for _, kind := range []savepoint.ListKind{savepoint.FileList, savepoint.SymlinkList} {
		t.Run(string(kind), func(t *testing.T) {
			listed := func(o *ingest.Options) { o.Lists, o.CopyOnWrite = kind, kind == savepoint.SymlinkList }
			whole := newRig(t, newTopic(0), listed)
			whole.send(numbered(t, 0, 0, 5, "2022-07-15T09:00:00+08:00")...)
			whole.workAt("2022-07-16T00:20:00+08:00") // the 15th is sealed and listed
			whole.send(numbered(t, 0, 5, 5, "2022-07-16T09:00:00+08:00")...)
			whole.clock = instant(t, "2022-07-17T00:20:00+08:00")
			between := 0 // deaths behind the seal and before its lists
			for k := int64(0); ; k++ {
				if k > 100 {
					t.Fatal("it never comes to its end")
				}
				r := rigOn(t, whole.store.Store.(*mem.Store).Clone(), mem.New(), whole.topic, listed)
				r.clock = whole.clock
				r.killAfter(k)
				err := r.work()
				r.revive()
				if err != nil && !errors.Is(err, errKilled) {
					t.Fatal(err)
				}
				seals := r.progress().LastSeal
				latest := r.latestList(kind)
				complete := err == nil && latest.Version == seals // lists that can't be written stop nobody
				if latest.Version > seals {
					t.Fatalf("killed after %d writes: the list is of version %d, the seal of %d", k, latest.Version, seals)
				}
				if latest.Version < seals {
					between++
					found := r.checkFaults()
					if len(found) != 1 || found[0].Check != "list" || found[0].Severity != savepoint.SeverityWarning {
						t.Errorf("killed after %d writes: check finds %+v", k, found)
					}
				}
				r.mustWork()
				if latest = r.latestList(kind); latest.Label != "2022-07-16" || latest.Version != r.progress().LastSeal {
					t.Errorf("killed after %d writes, and started again: the list is %+v, the seal %d", k, latest, r.progress().LastSeal)
				}
				equal(t, "faults", len(r.checkFaults()), 0)
				if t.Failed() {
					t.Fatalf("killed after %d writes", k)
				}
				if complete {
					break
				}
			}
			if between < 2 { // before the list, and before the one that names it
				t.Errorf("only %d deaths between a seal and its lists", between)
			}
		})
	}
}

// latestList reads the newest list as an engine does, and holds it against the log.
func (r *rig) latestList(kind savepoint.ListKind) savepoint.LatestList {
	r.t.Helper()
	latest, ok, err := savepoint.ReadLatestList(ctx, r.store)
	if err != nil || !ok {
		r.t.Fatalf("no list: %v", err)
	}
	text, err := r.store.Get(ctx, savepoint.FileListFolder+latest.Files)
	if err != nil {
		r.t.Fatal(err)
	}
	s, err := r.table().SnapshotAt(ctx, latest.Version)
	if err != nil {
		r.t.Fatal(err)
	}
	var got, want []string
	for line := range strings.Lines(string(text)) {
		var file struct {
			Path string `json:"path"`
			Size int64  `json:"size"`
		}
		if err := json.Unmarshal([]byte(line), &file); err != nil {
			r.t.Fatal(err)
		}
		got = append(got, fmt.Sprint(file.Path, " ", file.Size))
	}
	for _, add := range s.Files() {
		want = append(want, fmt.Sprint(add.Path, " ", add.Size))
	}
	sameList(r.t, "files of the list", got, want)
	if kind == savepoint.SymlinkList { // of this version or of the next one, whole
		if _, err := r.store.Get(ctx, clone.ManifestFolder+"manifest"); err != nil {
			r.t.Error(err)
		}
	}
	return latest
}
