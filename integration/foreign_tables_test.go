//go:build integration

package integration

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gscd-io/gscd/delta/compact"
	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/ingest/recording"
)

// localRig makes a table in a folder of the test's.
func localRig(t testing.TB, source ingest.Source, change ...func(*ingest.Options)) *rig {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "it's a table") // a path that needs quoting
	return rigOn(t, localStore(t, dir), localStore(t, dir+"__dead_letter"), source, change...)
}

func localStore(t testing.TB, path string) *local.Store {
	t.Helper()
	s, err := local.New(path, local.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// zooRig makes a table that takes what the zoo sends.
func zooRig(t testing.TB, z *zoo, change ...func(*ingest.Options)) *rig {
	t.Helper()
	return localRig(t, z.topic, append([]func(*ingest.Options){func(o *ingest.Options) { o.CheckpointEvery = 5 }}, change...)...)
}

// day gives eight in the morning of the n-th day of the zoo, from 0, by the table's calendar.
func day(n int) time.Time { return time.Date(2022, 7, 15+n, 0, 0, 0, 0, time.UTC) }

// live lets the zoo live through a day, in several batches: what was sent is
// taken each time. Then the next day begins and the day is sealed.
func (r *rig) live(z *zoo, n int, batches ...func()) {
	r.t.Helper()
	z.at = day(n)
	for _, b := range batches {
		b()
		r.clock = z.at
		r.mustWork()
	}
	r.clock = day(n + 1)
	r.mustWork()
}

// pinned gives the versions that must be readable: savepoints and the newest.
func (r *rig) pinned() []int64 {
	r.t.Helper()
	s, err := r.table().Snapshot(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	versions := append(r.labels().Pinned(), s.Version())
	slices.Sort(versions)
	return slices.Compact(versions)
}

// foreignTable is a table that engines read, and the versions to read.
type foreignTable struct {
	*rig
	versions []int64
}

// mergeOnRead has every type, rows that are deleted by vectors, and vectors of
// several files in one .bin.
func mergeOnRead(t *testing.T) foreignTable {
	z := newZoo(1, zooColumns(), day(0))
	r := zooRig(t, z)
	r.live(z, 0, func() { z.insert(60) }, func() { z.insert(40); z.update(20); z.remove(5) })
	r.live(z, 1, func() { z.insert(20); z.update(30) }, func() { z.remove(20) }, func() { z.update(20) })
	r.live(z, 2, func() { z.remove(10); z.update(10) })
	r.live(z, 3, func() { z.insert(30); z.update(10) })

	sharing := map[string]map[int32]bool{}
	s, err := r.table().Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	for _, f := range s.Files() {
		if dv := f.DeletionVector; dv != nil && dv.Offset != nil {
			if sharing[dv.PathOrInlineDV] == nil {
				sharing[dv.PathOrInlineDV] = map[int32]bool{}
			}
			sharing[dv.PathOrInlineDV][*dv.Offset] = true
			most = max(most, len(sharing[dv.PathOrInlineDV]))
		}
	}
	if most < 2 {
		t.Errorf("no two deletion vectors share a file, which this table is for")
	}
	return foreignTable{r, r.everyVersion()}
}

// everyVersion gives 0 to the newest.
func (r *rig) everyVersion() []int64 {
	r.t.Helper()
	s, err := r.table().Snapshot(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	var versions []int64
	for v := range s.Version() + 1 {
		versions = append(versions, v)
	}
	return versions
}

func copyOnWrite(t *testing.T) foreignTable {
	z := newZoo(2, zooColumns(), day(0))
	r := zooRig(t, z, func(o *ingest.Options) { o.CopyOnWrite = true })
	r.live(z, 0, func() { z.insert(50) }, func() { z.insert(20); z.update(20); z.remove(5) })
	r.live(z, 1, func() { z.update(20); z.remove(20) })
	r.live(z, 2, func() { z.insert(10); z.update(5) })
	return foreignTable{r, r.pinned()}
}

// partitioned is partitioned by columns whose values need escaping in paths.
func partitioned(t *testing.T) foreignTable {
	columns := append(zooColumns(),
		zooColumn{"p_text", `"type":"string"`, oneOf(nil, `"a/b=c %25"`, `"ü 😀"`, `"it's"`, `"plain"`, `"#?&:\\\""`, `"NULL"`, `" "`)},
		zooColumn{"p_day", `"type":"int32","name":"io.debezium.time.Date","version":1`, integers(19188, 19189)},
		zooColumn{"p_at", `"type":"string","name":"io.debezium.time.ZonedTimestamp","version":1`, oneOf(nil, `"2022-07-16T07:59:59.999999+08:00"`, `"1969-12-31T23:59:59Z"`)},
		zooColumn{"p_flag", `"type":"boolean"`, oneOf(nil, "true", "false")},
		zooColumn{"p_dec", fmt.Sprintf(connectDecimal, 2, 9), oneOf(nil, `"AJY="`, `"/w=="`)},
	)
	z := newZoo(3, columns, day(0))
	r := zooRig(t, z, func(o *ingest.Options) { o.PartitionBy = []string{"p_text", "p_day", "p_at", "p_flag", "p_dec"} })
	r.live(z, 0, func() { z.insert(60) }, func() { z.update(30); z.remove(10) })
	r.live(z, 1, func() { z.update(30); z.insert(20) })
	return foreignTable{r, r.pinned()}
}

// rolledBack went back to its second day and then took the rest again.
func rolledBack(t *testing.T) foreignTable {
	z := newZoo(4, zooColumns()[:8], day(0))
	r := zooRig(t, z)
	r.live(z, 0, func() { z.insert(50) })
	r.live(z, 1, func() { z.insert(10); z.update(30) })
	r.live(z, 2, func() { z.update(30); z.remove(20) })
	r.live(z, 3, func() { z.insert(10); z.update(10) })
	r.rollback("2022-07-16")
	before := r.everyVersion()
	r.restart()
	r.mustWork()
	if n := len(r.everyVersion()); n <= len(before) {
		t.Errorf("nothing was taken again after the rollback: still %d versions", n)
	}
	return foreignTable{r, r.everyVersion()}
}

// cleaned has lost all that no savepoint needs: log, data files, vectors. Where rows are
// deleted by vectors, its files were written anew again and again, with row groups that
// were copied as they are.
func cleaned(copyOnWrite bool) func(t *testing.T) foreignTable {
	return func(t *testing.T) foreignTable { return cleanedTable(t, copyOnWrite) }
}

func cleanedTable(t *testing.T, copyOnWrite bool) foreignTable {
	z := newZoo(5, zooColumns()[:8], day(0))
	observed, logs := observer.New(zap.InfoLevel)
	r := zooRig(t, z, func(o *ingest.Options) {
		o.CopyOnWrite, o.Log = copyOnWrite, zap.New(observed)
		o.Rewrites = ingest.Rewrites{Inline: true, Limits: compact.Limits{JoinFiles: 2, JoinAtSeal: 2, CopyShare: .6, TinyRows: 1, TinyBytes: 1}}
	})
	for n := range 5 {
		r.live(z, n, func() { z.insert(20) }, func() { z.update(15) }, func() { z.remove(5) }, func() { z.insert(5); z.update(5) })
	}
	copied := int64(0)
	for _, entry := range logs.FilterMessage("wrote files anew").All() {
		copied += entry.ContextMap()["rows_copied"].(int64)
	}
	if copied == 0 && !copyOnWrite {
		t.Error("no row group was copied")
	}
	all, gaps := len(r.everyVersion()), false
	gscd(t, "vacuum", "--table", r.store.Store.String(), "--retain", "0s", "--grace", "0s")
	left, err := r.table().Versions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range left[:len(left)-1] {
		gaps = gaps || left[i+1] != v+1
	}
	if len(left) >= all || !gaps {
		t.Errorf("of %d versions %v are left after the vacuum, want islands", all, left)
	}
	gscd(t, "check", "--table", r.store.Store.String(), "--deep")
	return foreignTable{r, r.pinned()}
}

// grown got columns day by day, of types that need a table feature too.
func grown(t *testing.T) foreignTable {
	all := zooColumns()
	z := newZoo(6, all[:2], day(0))
	r := zooRig(t, z)
	r.live(z, 0, func() { z.insert(30) })
	for n := 1; n < 5; n++ {
		for _, c := range all[2+4*(n-1) : 2+4*n] {
			z.add(c)
		}
		r.live(z, n, func() { z.insert(10); z.update(10) }, func() { z.remove(5) })
	}
	for _, c := range all[18:] {
		z.add(c)
	}
	r.live(z, 5, func() { z.update(20) })
	return foreignTable{r, r.pinned()}
}

// longLog has many commits and checkpoints.
func longLog(t *testing.T) foreignTable {
	z := newZoo(7, zooColumns()[:4], day(0))
	r := zooRig(t, z, func(o *ingest.Options) { o.BatchRows = 4 })
	for n := range 6 {
		r.live(z, n, func() { z.insert(20) }, func() { z.update(30); z.remove(5) })
	}
	return foreignTable{r, r.pinned()}
}

// recorded is a topic that a real connector wrote, from a table of some forty types.
func recorded(t *testing.T) foreignTable {
	topic, err := recording.Open([]string{sharedFile(t, "cdc/recorded/t1.zoo.alltypes.jsonl")}, recording.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = topic.Close() })
	r := localRig(t, topic, func(o *ingest.Options) { o.BatchRows, o.Calendar = 3, calendar(t, "day", "UTC") })
	// The load has the time of the recording, and with it the first label.
	r.clock = time.Date(2026, 12, 2, 0, 0, 0, 0, time.UTC)
	r.mustWork()
	return foreignTable{r, r.everyVersion()}
}

// recordedOrders is a table from a recorded topic without schemas, of three real days.
func recordedOrders(t *testing.T) foreignTable {
	topic, err := recording.Open([]string{sharedFile(t, "cdc/recorded/s1.shop.orders.jsonl")}, recording.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = topic.Close() })
	r := localRig(t, topic, func(o *ingest.Options) {
		o.Calendar, o.BatchRows = calendar(t, "day", "UTC"), 40
		o.Decode = decode.Options{}
	})
	r.clock = time.Date(2022, 7, 18, 12, 0, 0, 0, time.UTC)
	r.mustWork()
	return foreignTable{r, r.everyVersion()}
}

// deadLetterTable is the dead-letter table of a table that refuses what it is sent.
func deadLetterTable(t *testing.T) foreignTable {
	z := newZoo(8, zooColumns()[:3], day(0))
	r := zooRig(t, z)
	r.live(z, 0, func() { z.insert(20) })
	rng := rand.New(rand.NewPCG(8, 8))
	r.live(z, 1, func() {
		for i := range 6 {
			z.insert(1)
			z.last.Value = bytes.Repeat([]byte{byte(rng.Uint32()), 0xff, '{', 0}, 1+i)
		}
		z.insert(3)
	})
	dead := *r
	dead.store = r.dead
	return foreignTable{&dead, dead.everyVersion()}
}
