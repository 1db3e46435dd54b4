package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gscd-io/gscd/delta/objstore/local"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/deadletter"
	"github.com/gscd-io/gscd/ingest/recording"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The users at the end of each day, by hand from the story: B, H and W are the cities.
var (
	cities14 = "1B 2B 3B 4B 5H 6H 7H 8W 9W 10H"
	cities16 = "1B 2H 3W 4B 5B 6H 7H 8B 10H"
	cities17 = "1W 2B 3B 4H 5W 6W 7W 8B 10B 11B 12H"
	// What the connector had sent by 18:00.
	badCities17 = "1H 2W 3B 4H 5W 6W 7W 8B 10B 11B"
	cities18    = "1W 2B 3H 4H 5W 6W 7W 8H 10W 11B 12H"
)

func TestStory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "demo")
	var out bytes.Buffer
	begun := time.Now()
	if err := Run(t.Context(), Options{Dir: dir, Out: &out}); err != nil {
		t.Fatalf("%v, after\n%s", err, &out)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("took %s, want less than 20 s", took)
	}
	v := openView(t, filepath.Join(dir, TableName))

	t.Run("map", func(t *testing.T) { checkMap(t, v) })
	t.Run("one label a version", func(t *testing.T) { checkVersions(t, v) })
	t.Run("dead letters", func(t *testing.T) { checkDeadLetters(t, filepath.Join(dir, TableName+deadletter.Suffix)) })
	t.Run("recording", func(t *testing.T) { checkRecording(t, v, filepath.Join(dir, RecordingName)) })
	t.Run("page", func(t *testing.T) { checkPage(t, out.String(), dir) })
	t.Run("folder in use", func(t *testing.T) {
		if err := Run(t.Context(), Options{Dir: dir, Out: &out}); !errors.Is(err, ErrExists) {
			t.Errorf("a second demo in one folder: %v, want ErrExists", err)
		}
		if openView(t, filepath.Join(dir, TableName)).snapshot.Version() != v.snapshot.Version() {
			t.Error("the refused demo touched the table")
		}
	})
}

func openView(t *testing.T, path string) *view {
	t.Helper()
	store, err := local.New(path, local.Options{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := (&stage{store: store}).look(t.Context())
	if err != nil || v == nil {
		t.Fatalf("no table at %s: %v", path, err)
	}
	return v
}

// cities writes the rows as of a label as "1B 2H …".
func (v *view) cities(t *testing.T, label string) string {
	t.Helper()
	columns, rows, err := v.rows(t.Context(), label)
	if err != nil {
		t.Fatal(err)
	}
	if len(columns) != 3 || columns[0].Name != "id" || columns[1].Name != "name" || columns[2].Name != "city" {
		t.Fatalf("as of %s: columns %v, want id, name, city", label, columns)
	}
	var out []string
	for _, r := range rows {
		out = append(out, fmt.Sprintf("%d%.1s", r[0].I, r[2].S))
	}
	return strings.Join(out, " ")
}

func checkMap(t *testing.T, v *view) {
	list, err := v.labels.Summaries(t.Context(), v.table, v.snapshot)
	if err != nil {
		t.Fatal(err)
	}
	type counts struct{ inserts, updates, deletes, drift, late, duplicates, dead int64 }
	want := []struct {
		label      string
		state      savepoint.State
		attributes string
		counts     counts
		cities     string
	}{
		{"2022-07-14", savepoint.Sealed, "by clock", counts{inserts: 10, updates: 2}, cities14},
		{"2022-07-15", savepoint.Sealed, "empty", counts{}, cities14},
		{"2022-07-16", savepoint.Sealed, "", counts{updates: 5, deletes: 1, drift: 1, duplicates: 3, dead: 2}, cities16},
		{"2022-07-17", savepoint.Sealed, "", counts{inserts: 2, updates: 10, late: 1, dead: 2}, cities17},
		{"2022-07-17@", savepoint.RolledBack, "by clock", counts{inserts: 1, updates: 8, late: 1, dead: 2}, badCities17},
		{"2022-07-18", savepoint.Open, "", counts{updates: 3, dead: 2}, cities18},
	}
	if len(list) != len(want) {
		t.Fatalf("%d labels, want %d: %+v", len(list), len(want), list)
	}
	versions := map[string]int64{}
	for i, w := range want {
		got := list[i]
		c := got.Counts
		has := counts{c.Inserts, c.Updates, c.Deletes, c.Drift, c.Late, c.Duplicates, got.DeadLetters}
		if !strings.HasPrefix(got.Name, w.label) || got.Kept != (w.label != got.Name) || got.State != w.state ||
			strings.Join(got.Attributes, ", ") != w.attributes || has != w.counts || got.Rows != int64(len(strings.Fields(w.cities))) {
			t.Errorf("label %d: %+v, want %+v", i, got, w)
		}
		if cities := v.cities(t, got.Name); cities != w.cities {
			t.Errorf("as of %s: %s, want %s", got.Name, cities, w.cities)
		}
		versions[w.label] = got.Version
	}
	again, bad := versions["2022-07-17"], versions["2022-07-17@"]
	if !(versions["2022-07-14"] < versions["2022-07-15"] && versions["2022-07-15"] < versions["2022-07-16"] &&
		versions["2022-07-16"] < bad && bad < again && again < versions["2022-07-18"]) {
		t.Errorf("versions are out of order: %v", versions)
	}

	for _, w := range []struct {
		label string
		rules []snapshotter.Rule
	}{
		{"2022-07-14", []snapshotter.Rule{snapshotter.ByClock, snapshotter.ByClock, snapshotter.ByClock}},
		{"2022-07-15", []snapshotter.Rule{snapshotter.ByWatermark, snapshotter.ByClock, snapshotter.ByClock}},
		{"2022-07-16", []snapshotter.Rule{snapshotter.ByWatermark, snapshotter.ByWatermark, snapshotter.ByWatermark}},
		{"2022-07-17", []snapshotter.Rule{snapshotter.ByWatermark, snapshotter.ByWatermark, snapshotter.ByClock}},
	} {
		_, seal, err := v.seal(t.Context(), w.label)
		if err != nil {
			t.Fatal(err)
		}
		var rules []snapshotter.Rule
		for _, p := range seal.Partitions {
			rules = append(rules, p.Rule)
		}
		if !slices.Equal(rules, w.rules) {
			t.Errorf("%s was sealed by %v, want %v", w.label, rules, w.rules)
		}
		if w.label == "2022-07-17" {
			if len(seal.Late) != 1 || seal.Late[0].Key != `{"id":7}` || v.labels.Calendar.Name(seal.Late[0].Label) != "2022-07-16" || seal.Late[0].Fate != "folded" {
				t.Errorf("late changes of the 17th: %+v, want that of user 7, of the 16th, folded", seal.Late)
			}
		}
	}
	totals := progress.Totals{Taken: 40, Applied: 33, Duplicates: 3, Tombstones: 2, DeadLetters: 2}
	if v.progress.Totals != totals || totals.Missing() != 0 {
		t.Errorf("totals %+v, want %+v", v.progress.Totals, totals)
	}
	if len(v.progress.RolledBack) > 0 || v.progress.Incomplete != nil {
		t.Errorf("still rolled back: %+v, incomplete: %+v", v.progress.RolledBack, v.progress.Incomplete)
	}
}

// checkVersions: every version says one label, and labels only go down where a
// rollback says so.
func checkVersions(t *testing.T, v *view) {
	last, rollbacks := "", 0
	for version := range v.snapshot.Version() + 1 {
		info, err := v.table.CommitInfo(t.Context(), version)
		if err != nil {
			t.Fatal(err)
		}
		p, err := progress.Decode(info)
		if err != nil || p == nil {
			t.Fatalf("version %d: %v", version, err)
		}
		if p.Kind == progress.Rollback {
			rollbacks++
			if p.Label != "2022-07-17" {
				t.Errorf("version %d rolls back and opens %s, want 2022-07-17", version, p.Label)
			}
		} else if p.Label < last {
			t.Errorf("version %d (%s) has label %s behind %s", version, p.Kind, p.Label, last)
		}
		last = p.Label
	}
	if rollbacks != 1 {
		t.Errorf("%d rollbacks, want 1", rollbacks)
	}
}

func checkDeadLetters(t *testing.T, path string) {
	store, err := local.New(path, local.Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	err = deadletter.Open(store).Each(t.Context(), func(e deadletter.Entry) error {
		got[e.Reason] = string(e.Key) + " " + e.Label
		return nil
	})
	if want := map[string]string{"future": `{"id":6} 2022-07-16`, "decode": `{"id":4} 2022-07-16`}; err != nil || !maps.Equal(got, want) {
		t.Errorf("dead letters %v, %v, want %v", got, err, want)
	}
}

// checkRecording ingests the recorded topic in one go: the same days come out.
func checkRecording(t *testing.T, v *view, path string) {
	r, err := recording.Open([]string{path}, recording.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	clock := time.UnixMilli(r.MaxBrokerTimestamp())
	if want := time.Date(2022, 7, 18, 1, 0, 1, 0, time.UTC); !clock.Equal(want) {
		t.Errorf("the newest record is of %s, want %s", clock, want)
	}
	r.SetNow(clock)
	store := mem.New()
	lane, err := ingest.New(ingest.Options{
		Name: "again", Store: store, DeadLetterStore: mem.New(), Calendar: v.labels.Calendar,
		Now: func() time.Time { return clock }, UntilEnd: true,
	}, r)
	if err != nil {
		t.Fatal(err)
	}
	if err := lane.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, err := (&stage{store: store}).look(t.Context())
	if err != nil || again == nil {
		t.Fatal(err)
	}
	for label, cities := range map[string]string{
		"2022-07-14": cities14, "2022-07-15": cities14, "2022-07-16": cities16, "2022-07-17": cities17, "2022-07-18": cities18,
	} {
		if got := again.cities(t, label); got != cities {
			t.Errorf("ingested again, as of %s: %s, want %s", label, got, cities)
		}
	}
	// Where a partition was read to its end at a late enough clock, the end is
	// that of the moment; the 16th was sealed by watermarks alone.
	for _, label := range []string{"2022-07-16", "2022-07-17"} {
		if a, b := offsets(t, v, label), offsets(t, again, label); !slices.Equal(a, b) {
			t.Errorf("%s was sealed at offsets %v, ingested again at %v", label, a, b)
		}
	}
	if again.progress.Totals != v.progress.Totals {
		t.Errorf("ingested again: totals %+v, want %+v", again.progress.Totals, v.progress.Totals)
	}
}

func offsets(t *testing.T, v *view, label string) (out []int64) {
	t.Helper()
	_, seal, err := v.seal(t.Context(), label)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range seal.Partitions {
		out = append(out, p.Offset)
	}
	return out
}

func checkPage(t *testing.T, page, dir string) {
	if strings.Contains(page, "\x1b") {
		t.Error("colours, and no terminal")
	}
	table := filepath.Join(dir, TableName)
	unwrapped := strings.Join(strings.Fields(page), " ")
	for _, want := range []string{
		"Debezium reads the 9 users",
		`10 rows, and stays readable. The seal notes "by clock"`,
		`"empty"). No day is missing from the map`,
		"3 duplicates, known by their binlog positions; 0 more changes applied",
		"2 records are put aside",
		"2 changes of the 17th are held",
		"The change of 23:58 is drift (1)",
		"proven by 3 of 3 partitions",
		"The change is late (1), and folded into the open day: 2022-07-17",
		"The evening's 3 changes are late now",
		"rows (9 now, 11 before)",
		"Rolled back: 2022-07-17 and 2022-07-18.",
		`"2022-07-17 was rolled back at 2022-07-18T00:30:00Z, to 2022-07-16`,
		"11 rows), proven by 2 of 3 partitions",
		"the topic has 40, and of these are 33 applied, 3 duplicates, 2 tombstones behind deletes, 2 dead letters; 0 are missing",
		"gscd query --table " + table + " --as-of 2022-07-16",
		"│ 1 │ Chen Jie │ Beijing │ Beijing │ Hangzhou │ Wuhan │",
	} {
		if !strings.Contains(unwrapped, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
}

// A demo without a folder leaves none, one that is kept leaves it, and a demo
// that is interrupted ends at once and leaves nothing, wherever it stood.
func TestFolder(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	interrupted := func(o Options, after time.Duration) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), after)
		defer cancel()
		o.Out = &bytes.Buffer{}
		err := Run(ctx, o)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("interrupted after %s: %v", after, err)
		}
		<-ctx.Done()
		if deadline, _ := ctx.Deadline(); time.Since(deadline) > 2*time.Second {
			t.Errorf("it took %s to end", time.Since(deadline))
		}
	}
	empty := func(what string) {
		t.Helper()
		if list, err := os.ReadDir(tmp); err != nil || len(list) > 0 {
			t.Errorf("%s: left %v, %v", what, list, err)
		}
	}
	interrupted(Options{}, 0)
	empty("at the start")
	interrupted(Options{}, 600*time.Millisecond)
	empty("under way")
	interrupted(Options{Dir: filepath.Join(tmp, "demo")}, 400*time.Millisecond)
	empty("with a folder")

	// A folder that was there stays, with what was in it.
	other := filepath.Join(t.TempDir(), "other.txt")
	if err := os.WriteFile(other, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	interrupted(Options{Dir: filepath.Dir(other)}, 100*time.Millisecond)
	if list, err := os.ReadDir(filepath.Dir(other)); err != nil || len(list) != 1 || list[0].Name() != "other.txt" {
		t.Errorf("left %v, %v, want other.txt", list, err)
	}

	// A page that can't be printed ends it.
	if err := Run(t.Context(), Options{Out: broken{}}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a broken pipe: %v", err)
	}
	empty("with a broken pipe")
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestKeptFolders(t *testing.T) {
	for _, o := range []Options{{}, {Keep: true}, {Dir: filepath.Join(t.TempDir(), "a", "b")}} {
		t.Setenv("TMPDIR", t.TempDir())
		f, err := openFolder(o)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range f.contents() {
			if err := os.Mkdir(path, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if f.keep != (o.Keep || o.Dir != "") {
			t.Errorf("%+v: keep %t", o, f.keep)
		}
		if err := f.discard(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(f.path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%+v: %s is still there: %v", o, f.path, err)
		}
	}
}

// Debezium's records go to the partitions that Kafka's own producer takes: the
// story needs users of its nights on each of them.
func TestPartitions(t *testing.T) {
	c := newConnector()
	want := map[int64]int32{1: 0, 2: 1, 3: 0, 4: 2, 5: 2, 6: 1, 7: 0, 8: 0, 9: 0, 10: 1, 11: 1, 12: 2}
	for id, partition := range want {
		records, err := c.records(time.Unix(0, 0), logged{op: "c", after: &user{ID: id}})
		if err != nil || len(records) != 1 || records[0].Partition != partition {
			t.Errorf("user %d: %+v, %v, want partition %d", id, records, err, partition)
		}
	}
}

func TestEnvelope(t *testing.T) {
	s := newShop()
	reads := s.read(time.Date(2022, 7, 14, 1, 0, 0, 0, time.UTC))
	move := s.move(time.Date(2022, 7, 14, 2, 20, 0, 0, time.UTC), 4, beijing)
	leave := s.leave(time.Date(2022, 7, 14, 3, 0, 0, 0, time.UTC), 9)
	records, err := newConnector().records(time.Date(2022, 7, 14, 3, 0, 1, 0, time.UTC), reads[0], move, leave)
	if err != nil || len(records) != 4 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	for i, want := range []string{
		`{"before":null,"after":{"id":1,"name":"Chen Jie","city":"Beijing"},"source":{"version":"3.1.2.Final","connector":"mysql","name":"app","ts_ms":1657760400000,"snapshot":"first","db":"shop","sequence":null,"ts_us":1657760400000000,"ts_ns":1657760400000000000,"table":"user_dim","server_id":0,"gtid":null,"file":"mysql-bin.000042","pos":157,"row":0,"thread":null,"query":null},"transaction":null,"op":"r","ts_ms":1657767601000,"ts_us":1657767601000000,"ts_ns":1657767601000000000}`,
		`{"before":{"id":4,"name":"Zhao Lei","city":"Hangzhou"},"after":{"id":4,"name":"Zhao Lei","city":"Beijing"},"source":{"version":"3.1.2.Final","connector":"mysql","name":"app","ts_ms":1657765200000,"snapshot":"false","db":"shop","sequence":null,"ts_us":1657765200000000,"ts_ns":1657765200000000000,"table":"user_dim","server_id":223344,"gtid":null,"file":"mysql-bin.000042","pos":468,"row":0,"thread":41,"query":null},"transaction":null,"op":"u","ts_ms":1657767601000,"ts_us":1657767601000000,"ts_ns":1657767601000000000}`,
		`{"before":{"id":9,"name":"He Jing","city":"Wuhan"},"after":null,"source":{"version":"3.1.2.Final","connector":"mysql","name":"app","ts_ms":1657767600000,"snapshot":"false","db":"shop","sequence":null,"ts_us":1657767600000000,"ts_ns":1657767600000000000,"table":"user_dim","server_id":223344,"gtid":null,"file":"mysql-bin.000042","pos":779,"row":0,"thread":41,"query":null},"transaction":null,"op":"d","ts_ms":1657767601000,"ts_us":1657767601000000,"ts_ns":1657767601000000000}`,
	} {
		if string(records[i].Value) != want {
			t.Errorf("record %d:\n%s, want\n%s", i, records[i].Value, want)
		}
	}
	if r := records[3]; r.Value != nil || string(r.Key) != `{"id":9}` || r.Partition != records[2].Partition {
		t.Errorf("the tombstone is %+v", r)
	}
}

func TestQuoted(t *testing.T) {
	for word, want := range map[string]string{
		"/tmp/demo/user_dim": "/tmp/demo/user_dim",
		"":                   "''",
		"my demo":            "'my demo'",
		"it's $HOME":         `'it'\''s $HOME'`,
		"~/x":                "'~/x'",
	} {
		if got := quoted(word); got != want {
			t.Errorf("%q: %s, want %s", word, got, want)
		}
	}
}

func TestPage(t *testing.T) {
	var b bytes.Buffer
	p := newPage(&b)
	p.width = 30
	p.at("00:03", "Changes of the %dth arrive on two partitions.", 17)
	p.gscd("%d held", 2)
	const want = " 00:03  Changes of the 17th\n        arrive on two\n        partitions.\n  gscd  2 held\n"
	if b.String() != want {
		t.Errorf("printed\n%s, want\n%s", &b, want)
	}
	b.Reset()
	p.color = true
	p.gscd("%d held", 2)
	if got := b.String(); got != "  \x1b[1;32mgscd\x1b[0m  2 held\n" {
		t.Errorf("printed %q", got)
	}
}
