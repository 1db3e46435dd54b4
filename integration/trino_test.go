//go:build integration

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/savepoint"
)

// TestTrino has a server of Trino at work on tables of gscd; TestEngines reads more tables
// with one of its own.
func TestTrino(t *testing.T) {
	t.Parallel()
	if why := trinoLacks(t); why != "" {
		t.Skip(why)
	}
	g := startGateway(t)
	proxy := startStoreProxy(t, g)
	e := trinoOn(t, &gateway{url: proxy.URL, dir: g.dir})
	t.Run("views", func(t *testing.T) { viewsIn(t, e, "trino") })
	t.Run("history", func(t *testing.T) { practiceIn(t, e, "trino") })
	t.Run("commits", func(t *testing.T) { foreignCommits(t, e, false, true) })
	t.Run("lock", func(t *testing.T) { lockedFor(t, e) })
	t.Run("past the lock", func(t *testing.T) { pastTheLock(t, e) })
	t.Run("checkpoint", func(t *testing.T) { trinoCheckpoint(t, e) })
	t.Run("conflict", func(t *testing.T) { trinoConflict(t, e, g, proxy) })
}

// trinoCheckpoint has Trino delete and update until it writes a checkpoint of a table that
// is ingested, from which gscd starts and goes on. Of tables with deletion vectors it writes
// none (trino #26145).
func trinoCheckpoint(t *testing.T, e *engine) {
	topic := newTopic(0)
	r := users(e.rig(t, topic, func(o *ingest.Options) { o.CopyOnWrite = true }), topic)
	before := r.checkpoints()
	for i := range 6 {
		e.do(t, r, request{"do": "append", "rows": [][]any{{100 + i, "f", "Foshan", i}, {200 + i, "f", "Foshan", i}}})
		e.do(t, r, request{"do": "delete", "where": fmt.Sprint("id = ", 100+i)})
		e.do(t, r, request{"do": "update", "set": map[string]string{"city": "'Xiamen'"}, "where": fmt.Sprint("id = ", 200+i)})
	}
	e.do(t, r, request{"do": "delete", "where": "id > 201 or id = 2"})
	e.do(t, r, request{"do": "update", "set": map[string]string{"city": "'Foshan'"}, "where": "id = 4"})
	if after := r.checkpoints(); len(after) == len(before) {
		t.Fatalf("Trino has written no checkpoint: %v", after)
	}
	goOn(topic)
	r.restart()
	r.workAt("2022-07-18T01:00:00+08:00")
	m := r.labels()
	for label, want := range map[string]string{"2022-07-16": usersOf16, "2022-07-17": "1 Suzhou, 2 Hangzhou, 200 Xiamen, 201 Xiamen, 4 Foshan, 5 Suzhou, 6 Hangzhou"} {
		resolved, err := m.Resolve(label, true)
		if err != nil {
			t.Fatal(err)
		}
		if got := cities(t, r, resolved.Entry.Version); got != want {
			t.Errorf("%s is %s, want %s", label, got, want)
		}
	}
	gscd(t, "check", "--table", r.store.Store.String(), "--deep")
}

func (r *rig) checkpoints() []string {
	return slices.DeleteFunc(r.logNames(), func(name string) bool { return !strings.HasSuffix(name, ".checkpoint.parquet") })
}

// trinoConflict has gscd commit under an update of Trino that changes the same file: Trino
// must give up, and the days stay as they are. With deletion vectors it then deletes the
// data file that it had read (trino #29361), which `gscd check` finds; the documents warn
// of that, and this test says when it is over.
func trinoConflict(t *testing.T, e *engine, g *gateway, proxy *storeProxy) {
	for mode, copyOnWrite := range map[string]bool{"merge-on-read": false, "copy-on-write": true} {
		t.Run(mode, func(t *testing.T) {
			topic := newTopic(0)
			r := users(rigOn(t, g.open(t, mode), g.open(t, mode+"__dead"), topic, func(o *ingest.Options) { o.CopyOnWrite = copyOnWrite }), topic)
			goOn(topic)
			met := false
			proxy.set(func(s storeRequest) int {
				if s.kind() == "put commit" && !met {
					met = true
					r.mustWork()
				}
				return 0
			})
			_, err := e.ask(t, request{"do": "update", "path": r.store.Store.String(), "set": map[string]string{"city": "'Foshan'"}, "where": "id = 2"})
			proxy.set(nil)
			if !met || err == nil || !strings.Contains(err.Error(), "Conflicting concurrent writes") {
				t.Fatalf("met %v, %v", met, err)
			}
			equal(t, "rows", cities(t, r, int64(len(r.log())-1)), "1 Suzhou, 2 Hangzhou, 4 Wuxi, 5 Suzhou, 6 Hangzhou")
			missing := 0
			for _, f := range r.checkFaults() {
				if f.Severity == savepoint.SeverityError && f.Label == "2022-07-16" && strings.Contains(f.Message, "missing") {
					missing++
				}
			}
			if copyOnWrite {
				equal(t, "files that are missing", missing, 0)
				equal(t, "the 16th", cities(t, r, r.progress().LastSeal), usersOf16)
			} else if missing == 0 {
				t.Errorf("no file is missing: Trino does not delete what it read, so take the warnings away (guarantees.md, compatibility.md)")
			}
		})
	}
}
