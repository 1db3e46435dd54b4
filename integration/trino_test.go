//go:build integration

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/ingest"
)

// TestTrino has a server of Trino at work on tables of gscd; TestEngines reads more tables
// with one of its own.
func TestTrino(t *testing.T) {
	if why := trinoLacks(t); why != "" {
		t.Skip(why)
	}
	g := startGateway(t)
	proxy := startStoreProxy(t, g)
	e := trinoOn(t, &gateway{url: proxy.URL, dir: g.dir})
	t.Run("views", func(t *testing.T) { viewsIn(t, e, "trino") })
	t.Run("commits", func(t *testing.T) { foreignCommits(t, e, false, true) })
	t.Run("checkpoint", func(t *testing.T) { trinoCheckpoint(t, e) })
	t.Run("conflict", func(t *testing.T) { trinoConflict(t, e, proxy) })
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

// trinoConflict has gscd commit under an update of Trino that changes the same file. Trino
// gives up, and with deletion vectors it then deletes the file that it had read (trino
// #29361): gscd tells that by name.
func trinoConflict(t *testing.T, e *engine, proxy *storeProxy) {
	for name, copyOnWrite := range map[string]bool{"merge on read": false, "copy on write": true} {
		t.Run(name, func(t *testing.T) {
			topic := newTopic(0)
			r := users(e.rig(t, topic, func(o *ingest.Options) { o.CopyOnWrite = copyOnWrite }), topic)
			goOn(topic)
			done := false
			proxy.set(func(s storeRequest) int {
				if s.kind() == "put commit" && !done {
					done = true
					before := len(r.log())
					r.mustWork()
					t.Log(s, before, len(r.log()))
				}
				return 0
			})
			_, err := e.ask(t, request{"do": "update", "path": e.address(t, r.store.Store.String()), "set": map[string]string{"city": "'Foshan'"}, "where": "id = 2"})
			proxy.set(nil)
			for _, c := range r.log() {
				t.Log(c.version, string(c.Info)[:200])
			}
			t.Log(cities(t, r, int64(len(r.log())-1)))
			t.Log(done, err, r.checkFaults())
		})
	}
}
