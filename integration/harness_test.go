package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/deadletter"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/query"
	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

var ctx = context.Background()

// sharedFile gives the path of a file of the shared test data, or skips the test.
func sharedFile(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("GSCD_TESTDATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "shared")
	}
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("no shared test data (%v): set GSCD_TESTDATA", err)
	}
	return path
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// theProgram builds gscd and gives what runs it: what it printed, and its exit code.
func theProgram(t testing.TB) func(args ...string) (stdout, stderr string, code int) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gscd")
	if out, err := exec.Command("go", "build", "-o", path, "../cmd/gscd").CombinedOutput(); err != nil {
		t.Fatalf("build gscd: %v\n%s", err, out)
	}
	return func(args ...string) (string, string, int) {
		t.Helper()
		var out, errs bytes.Buffer
		c := exec.Command(path, args...)
		c.Stdout, c.Stderr = &out, &errs
		if err := c.Run(); err != nil && c.ProcessState == nil {
			t.Fatal(err)
		}
		return out.String(), errs.String(), c.ProcessState.ExitCode()
	}
}

// topicLog is a topic in memory. It is a Source that hands out what was sent
// so far, and keeps the group offsets that are published, which nothing reads.
type topicLog struct {
	mu        sync.Mutex
	logs      map[change.PartitionID]*partitionLog
	position  map[change.PartitionID]int64
	paused    map[change.PartitionID]bool
	published map[change.PartitionID]int64
	// onPublish, where set, is what PublishOffsets answers.
	onPublish func() error
	maxRecord int64
}

type partitionLog struct {
	records  []*change.Record
	earliest int64
	end      int64
	blocked  bool
}

var _ ingest.Source = (*topicLog)(nil)

func newTopic(partitions ...int32) *topicLog {
	l := &topicLog{logs: map[change.PartitionID]*partitionLog{}, paused: map[change.PartitionID]bool{}}
	for _, p := range partitions {
		l.partition(p)
	}
	return l
}

const topicName = "shop.user_dim"

func (l *topicLog) partition(p int32) *partitionLog {
	id := change.PartitionID{Topic: topicName, Partition: p}
	if l.logs[id] == nil {
		l.logs[id] = &partitionLog{}
	}
	return l.logs[id]
}

// send appends a record at its own offset.
func (l *topicLog) send(r *change.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.partition(r.Partition)
	p.records = append(p.records, r)
	p.end = max(p.end, r.Offset+1)
}

func (l *topicLog) Partitions(context.Context) ([]change.PartitionState, time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []change.PartitionState
	for id, p := range l.logs {
		out = append(out, change.PartitionState{ID: id, Earliest: p.earliest, End: p.end})
	}
	slices.SortFunc(out, func(a, b change.PartitionState) int { return a.ID.Compare(b.ID) })
	return out, time.Now(), nil
}

func (l *topicLog) Assign(_ context.Context, offsets map[change.PartitionID]int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.position, l.paused = map[change.PartitionID]int64{}, map[change.PartitionID]bool{}
	for id, at := range offsets {
		if p := l.logs[id]; p == nil || at < p.earliest || at > p.end {
			return fmt.Errorf("assign %s at %d: not there", id, at)
		}
		l.position[id] = at
	}
	return nil
}

func (l *topicLog) Poll(ctx context.Context, limit int) ([]change.Block, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var blocks []change.Block
	for id, at := range l.position {
		p := l.logs[id]
		if l.paused[id] || p.blocked || limit == 0 {
			continue
		}
		block := change.Block{ID: id, Next: at}
		for _, r := range p.records {
			if r.Offset < at || limit == 0 {
				continue
			}
			copied := *r
			copied.Cap(l.maxRecord)
			block.Records = append(block.Records, &copied)
			block.Next = r.Offset + 1
			limit--
		}
		if block.Next > at {
			l.position[id] = block.Next
			blocks = append(blocks, block)
		}
	}
	if len(blocks) == 0 {
		time.Sleep(time.Millisecond)
	}
	slices.SortFunc(blocks, func(a, b change.Block) int { return a.ID.Compare(b.ID) })
	return blocks, nil
}

func (l *topicLog) Pause(ids ...change.PartitionID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		l.paused[id] = true
	}
}

func (l *topicLog) Resume(ids ...change.PartitionID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		delete(l.paused, id)
	}
}

func (l *topicLog) PublishOffsets(_ context.Context, offsets map[change.PartitionID]int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.onPublish != nil {
		return l.onPublish()
	}
	l.published = offsets
	return nil
}

// recordAt finds a record by its coordinates.
func (l *topicLog) recordAt(partition int32, offset int64) *change.Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.partition(partition).records {
		if r.Offset == offset {
			return r
		}
	}
	return nil
}

// errKilled is what every call of a store answers after its process was killed.
var errKilled = errors.New("the process was killed")

// gate is a store whose calls can be watched, failed and stopped. before and
// after see the name of a call and its key; an error of theirs is the call's.
type gate struct {
	objstore.Store
	mu            sync.Mutex
	before, after func(call, key string) error
	dead          bool
}

func (g *gate) hooks(before, after func(call, key string) error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.before, g.after, g.dead = before, after, false
}

func (g *gate) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.dead = true
}

func (g *gate) ask(hook func() func(call, key string) error, call, key string) error {
	g.mu.Lock()
	dead, h := g.dead, hook()
	g.mu.Unlock()
	if dead {
		return errKilled
	}
	if h == nil {
		return nil
	}
	if err := h(call, key); err != nil {
		return fmt.Errorf("%s %s: %w", call, key, err)
	}
	return nil
}

func (g *gate) around(call, key string, do func() error) error {
	if err := g.ask(func() func(string, string) error { return g.before }, call, key); err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	return g.ask(func() func(string, string) error { return g.after }, call, key)
}

func (g *gate) Get(ctx context.Context, key string) (data []byte, err error) {
	err = g.around("get", key, func() error { data, err = g.Store.Get(ctx, key); return err })
	return data, err
}

func (g *gate) GetRange(ctx context.Context, key string, offset, length int64) (data []byte, err error) {
	err = g.around("get range", key, func() error { data, err = g.Store.GetRange(ctx, key, offset, length); return err })
	return data, err
}

func (g *gate) Head(ctx context.Context, key string) (o objstore.Object, err error) {
	err = g.around("head", key, func() error { o, err = g.Store.Head(ctx, key); return err })
	return o, err
}

func (g *gate) Put(ctx context.Context, key string, data []byte) error {
	return g.around("put", key, func() error { return g.Store.Put(ctx, key, data) })
}

func (g *gate) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	return g.around("put if absent", key, func() error { return g.Store.PutIfAbsent(ctx, key, data) })
}

func (g *gate) Delete(ctx context.Context, key string) error {
	return g.around("delete", key, func() error { return g.Store.Delete(ctx, key) })
}

func (g *gate) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Object, error] {
	return func(yield func(objstore.Object, error) bool) {
		if err := g.around("list", prefix, func() error { return nil }); err != nil {
			yield(objstore.Object{}, err)
			return
		}
		g.Store.List(ctx, prefix, after)(yield)
	}
}

// isCommit tells the key of a commit of the log.
func isCommit(key string) bool {
	name, ok := strings.CutPrefix(key, "_delta_log/")
	return ok && len(name) == len("00000000000000000000.json") && strings.HasSuffix(name, ".json")
}

// rig is one table, the ingester that fills it, and the topic that it reads.
type rig struct {
	t           testing.TB
	source      ingest.Source
	topic       *topicLog // the source, where it is one in memory
	store, dead *gate
	options     ingest.Options
	clock       time.Time
	// lane is the running process, nil before the start and after a restart.
	lane *ingest.Lane
	// freshLanes makes every piece of work that of a new process.
	freshLanes bool
}

func calendar(t testing.TB, granularity, zone string) *snapshotter.Calendar {
	t.Helper()
	c, err := snapshotter.NewCalendar(granularity, zone, "")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// newRig makes a table in memory under the ground rules of the cases.
func newRig(t testing.TB, source ingest.Source, change ...func(*ingest.Options)) *rig {
	t.Helper()
	return rigOn(t, mem.New(), mem.New(), source, change...)
}

func rigOn(t testing.TB, store, dead objstore.Store, source ingest.Source, change ...func(*ingest.Options)) *rig {
	t.Helper()
	r := &rig{t: t, source: source, store: &gate{Store: store}, dead: &gate{Store: dead}}
	r.topic, _ = source.(*topicLog)
	r.options = ingest.Options{
		Name: "user_dim", Store: r.store, DeadLetterStore: r.dead, Calendar: calendar(t, "day", "Asia/Shanghai"),
		DriftWait: 10 * time.Minute, DriftIdle: 5 * time.Minute, MaxClockSkew: 5 * time.Minute,
		UntilEnd: true, Now: func() time.Time { return r.clock },
	}
	for _, f := range change {
		f(&r.options)
	}
	return r
}

// work lets the ingester work until it has nothing left to do.
func (r *rig) work() error {
	r.t.Helper()
	if r.lane == nil || r.freshLanes {
		lane, err := ingest.New(r.options, r.source)
		if err != nil {
			r.t.Fatal(err)
		}
		r.lane = lane
	}
	within, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	err := r.lane.Run(within)
	if within.Err() != nil {
		r.t.Fatal("the ingester came to no end within a minute")
	}
	return err
}

func (r *rig) mustWork() {
	r.t.Helper()
	if err := r.work(); err != nil {
		r.t.Fatalf("ingest: %v", err)
	}
}

// workAt sets the clock and works.
func (r *rig) workAt(at string) {
	r.t.Helper()
	r.clock = instant(r.t, at)
	r.mustWork()
}

// restart ends the process; the next work is that of a new one.
func (r *rig) restart() { r.lane = nil }

func instant(t testing.TB, at string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, at)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// table opens the table past the gate: as another process would.
func (r *rig) table() *delta.Table {
	r.t.Helper()
	table, err := delta.Open(ctx, r.store.Store)
	if err != nil {
		r.t.Fatal(err)
	}
	return table
}

// exists reports whether the table was created.
func (r *rig) exists() bool {
	_, err := delta.Open(ctx, r.store.Store)
	if err != nil && !errors.Is(err, delta.ErrNotATable) {
		r.t.Fatal(err)
	}
	return err == nil
}

func (r *rig) labels() *savepoint.Map {
	r.t.Helper()
	table := r.table()
	s, err := table.Snapshot(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	m, err := savepoint.Read(ctx, table, s)
	if err != nil {
		r.t.Fatal(err)
	}
	return m
}

func (r *rig) progress() *progress.Progress {
	r.t.Helper()
	return r.labels().Progress
}

// next gives the next offset of a partition.
func (r *rig) next(partition int32) int64 {
	r.t.Helper()
	for _, p := range r.progress().State.Partitions {
		if p.Kafka == partition {
			return p.Next
		}
	}
	r.t.Fatalf("no partition %d in the progress", partition)
	return 0
}

// sealed lists the sealed labels; a table that does not exist has none.
func (r *rig) sealed() []string {
	r.t.Helper()
	out := []string{}
	if !r.exists() {
		return out
	}
	for _, e := range r.labels().Entries {
		if e.State == savepoint.Sealed {
			out = append(out, e.Name)
		}
	}
	return out
}

func (r *rig) evidence(label string) *progress.Evidence {
	r.t.Helper()
	m := r.labels()
	for _, e := range m.Entries {
		if e.Name == label {
			ev, err := m.Evidence(ctx, r.table(), e)
			if err != nil {
				r.t.Fatal(err)
			}
			return ev
		}
	}
	r.t.Fatalf("the map has no %s", label)
	return nil
}

// row is a row as it is printed: cells as JSON, numbers with every digit.
type row map[string]any

func parseRow(t testing.TB, raw []byte) row {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var out row
	if err := d.Decode(&out); err != nil {
		t.Fatalf("row %s: %v", raw, err)
	}
	return out
}

// asOf answers `gscd query --as-of LABEL`.
func (r *rig) asOf(label string) (rows []row, resolution savepoint.Resolution, err error) {
	r.t.Helper()
	resolution, err = r.labels().Resolve(label, false)
	if err != nil {
		return nil, resolution, err
	}
	rows, err = r.rowsAt(resolution.Entry.Version)
	return rows, resolution, err
}

func (r *rig) mustAsOf(label string) []row {
	r.t.Helper()
	rows, _, err := r.asOf(label)
	if err != nil {
		r.t.Fatalf("as of %s: %v", label, err)
	}
	return rows
}

// current answers `gscd query`.
func (r *rig) current() []row {
	r.t.Helper()
	s, err := r.table().Snapshot(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	rows, err := r.rowsAt(s.Version())
	if err != nil {
		r.t.Fatal(err)
	}
	return rows
}

func (r *rig) rowsAt(version int64) ([]row, error) {
	r.t.Helper()
	s, err := r.table().SnapshotAt(ctx, version)
	if err != nil {
		return nil, err
	}
	var rows []row
	err = eachRow(r.store.Store, s, func(columns []schema.Field, cells []schema.Value) {
		line := []byte{'{'}
		for i, v := range cells {
			if i > 0 {
				line = append(line, ',')
			}
			line = append(output.AppendJSONString(line, columns[i].Name), ':')
			line = output.AppendJSON(line, columns[i].Type, v)
		}
		rows = append(rows, parseRow(r.t, append(line, '}')))
	})
	return rows, err
}

func eachRow(store objstore.Store, s *delta.Snapshot, fn func([]schema.Field, []schema.Value)) error {
	scan, err := query.NewScan(store, s, query.Options{})
	if err != nil {
		return err
	}
	for cells, err := range scan.Rows(ctx) {
		if err != nil {
			return err
		}
		fn(scan.Columns(), cells)
	}
	return nil
}

// text gives a row without its NULLs, columns in order: what rows are compared by.
func (r row) text() string {
	shown := map[string]any{}
	for k, v := range r {
		switch n := v.(type) {
		case nil:
		case json.Number:
			if q, ok := new(big.Rat).SetString(n.String()); ok {
				shown[k] = json.RawMessage(q.RatString())
				if !q.IsInt() {
					shown[k] = q.RatString()
				}
				continue
			}
			shown[k] = n
		default:
			shown[k] = v
		}
	}
	raw, err := json.Marshal(shown)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// difference says how two sets of rows differ, "" where they don't.
func difference(got, want []row) string {
	texts := func(rows []row) []string {
		out := make([]string, len(rows))
		for i, r := range rows {
			out[i] = r.text()
		}
		slices.Sort(out)
		return out
	}
	g, w := texts(got), texts(want)
	if slices.Equal(g, w) {
		return ""
	}
	return fmt.Sprintf("got  %s\nwant %s", strings.Join(g, "\n     "), strings.Join(w, "\n     "))
}

func sameRows(t testing.TB, what string, got, want []row) {
	t.Helper()
	if d := difference(got, want); d != "" {
		t.Errorf("%s:\n%s", what, d)
	}
}

// ids gives the values of the column id, in order.
func ids(rows []row) []string {
	out := []string{}
	for _, r := range rows {
		out = append(out, fmt.Sprint(r["id"]))
	}
	slices.Sort(out)
	return out
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func sameList[T comparable](t testing.TB, what string, got, want []T) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// says checks that an error is there and names all of the words.
func says(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one that says %q", words)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error %q does not say %q", err, w)
		}
	}
}

// commit is one version of the log.
type commit struct {
	version int64
	*action.Commit
	progress *progress.Progress // nil where it is not gscd's
}

// changesData reports whether rows changed.
func (c *commit) changesData() bool {
	for _, a := range c.Adds {
		if a.DataChange {
			return true
		}
	}
	for _, r := range c.Removes {
		if r.DataChange {
			return true
		}
	}
	return false
}

// log reads every version.
func (r *rig) log() []*commit {
	r.t.Helper()
	table := r.table()
	s, err := table.Snapshot(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	var out []*commit
	for v := int64(0); v <= s.Version(); v++ {
		c, err := table.Commit(ctx, v)
		if err != nil {
			r.t.Fatal(err)
		}
		p, err := progress.Decode(c.Info)
		if err != nil {
			r.t.Fatal(err)
		}
		out = append(out, &commit{v, c, p})
	}
	return out
}

// origin is the change that gave a row of a data file.
type origin struct {
	partition int32
	offset    int64
	time      int64
}

// origins reads the hidden columns of a data file.
func (r *rig) origins(add *action.Add) []origin {
	r.t.Helper()
	data, err := r.store.Store.Get(ctx, add.Path)
	if err != nil {
		r.t.Fatal(err)
	}
	f, err := parquet.OpenBytes(data)
	if err != nil {
		r.t.Fatal(err)
	}
	var out []origin
	for b, err := range f.Scan(ctx, ingest.Hidden, parquet.ScanOptions{}) {
		if err != nil {
			r.t.Fatal(err)
		}
		for i := range b.Rows {
			out = append(out, origin{int32(b.Columns[0][i].I), b.Columns[1][i].I, b.Columns[6][i].I})
		}
	}
	return out
}

// checkVersions holds P2 and P3 against the whole log: every version that
// changes data names one label, whose changes alone it brings; labels go down
// at rollbacks only; every record taken has one fate, and the counts equal the
// offsets. late tells that changes of sealed labels were folded.
func (r *rig) checkVersions(late bool) {
	r.t.Helper()
	cal := r.options.Calendar
	open := snapshotter.Label(-1 << 30)
	for _, c := range r.log() {
		p := c.progress
		if p == nil {
			r.t.Errorf("version %d has no progress", c.version)
			continue
		}
		if p.State.Open < open && p.Kind != progress.Rollback {
			r.t.Errorf("version %d: the open label went down to %s", c.version, p.Label)
		}
		open = p.State.Open
		if p.Label != cal.Name(p.State.Open) {
			r.t.Errorf("version %d names %s while %s is open", c.version, p.Label, cal.Name(p.State.Open))
		}
		if p.Kind == progress.SealKind && c.changesData() {
			r.t.Errorf("version %d seals and changes data", c.version)
		}
		if n := p.Totals.Missing(); n != 0 {
			r.t.Errorf("version %d: %d records have no fate: %+v", c.version, n, p.Totals)
		}
		span := int64(0)
		for _, part := range p.State.Partitions {
			span += part.Next - part.Start
		}
		equal(r.t, fmt.Sprintf("version %d: records taken and holes", c.version), p.Totals.Taken+p.Totals.Holes, span)
		if p.Kind != progress.Batch || r.options.CopyOnWrite {
			continue // what copy-on-write rewrites is of older labels
		}
		for _, add := range c.Adds {
			if slices.ContainsFunc(c.Removes, func(rm *action.Remove) bool { return rm.Path == add.Path }) {
				continue // the same file under another deletion vector
			}
			for _, o := range r.origins(add) {
				label := max(cal.Label(o.time), p.State.First)
				if label != p.State.Open && !(late && label < p.State.Open) {
					r.t.Errorf("version %d of %s holds a change of %s (offset %d)", c.version, p.Label, cal.Name(label), o.offset)
				}
			}
		}
	}
}

// deadLetters lists the dead-letter table by coordinates.
func (r *rig) deadLetters() []deadletter.Entry {
	r.t.Helper()
	var out []deadletter.Entry
	err := deadletter.Open(r.dead.Store).Each(ctx, func(e deadletter.Entry) error {
		out = append(out, e)
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	slices.SortFunc(out, func(a, b deadletter.Entry) int {
		return change.PartitionID{Topic: a.Topic, Partition: a.Partition}.Compare(change.PartitionID{Topic: b.Topic, Partition: b.Partition})*2 + int(a.Offset-b.Offset)
	})
	return out
}

// rollback runs `gscd rollback --to LABEL`.
func (r *rig) rollback(to string) *savepoint.Plan {
	r.t.Helper()
	plan, err := savepoint.Rollback(ctx, r.table(), to, savepoint.RollbackOptions{Now: r.clock})
	if err != nil {
		r.t.Fatalf("roll back to %s: %v", to, err)
	}
	return plan
}
