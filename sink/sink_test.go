package sink_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/kafka"
	"github.com/gscd-io/gscd/query/changes"
	"github.com/gscd-io/gscd/sink"
	"github.com/gscd-io/gscd/snapshotter"
)

var ctx = context.Background()

// times are those of commits.
var times = regexp.MustCompile(`("_commit_timestamp":"|ts_ms":)[-0-9T:.Z]+(")?`)

const topic = "user_dim.changes"

func must(t testing.TB) func(write.Result, error) {
	return func(_ write.Result, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// columns are of all types that ingest makes.
func columns() []schema.Field {
	return []schema.Field{
		write.Column("id", schema.Of(schema.Long)), write.Column("region", schema.Of(schema.StringType)), write.Column("n", schema.Of(schema.Integer)),
		write.Column("tiny", schema.Of(schema.Byte)), write.Column("small", schema.Of(schema.Short)), write.Column("ok", schema.Of(schema.Boolean)),
		write.Column("amount", schema.Decimal(20, 3)), write.Column("day", schema.Of(schema.Date)), write.Column("at", schema.Of(schema.Timestamp)),
		write.Column("local", schema.Of(schema.TimestampNTZ)), write.Column("f", schema.Of(schema.FloatType)), write.Column("d", schema.Of(schema.DoubleType)),
		write.Column("raw", schema.Of(schema.BinaryType)),
	}
}

func row(rng *rand.Rand, id int) []any {
	out := []any{id, []string{"EU", "亚洲"}[id%2], rng.IntN(100) - 50, rng.IntN(256) - 128, rng.IntN(1000), rng.IntN(2) == 0,
		fmt.Sprintf("%d.%03d", rng.Int64N(1e15)-5e14, rng.IntN(1000)), "2022-07-16", time.UnixMicro(rng.Int64N(2e15)).UTC(), "2022-07-16 01:02:03.000004",
		rng.Float32(), rng.NormFloat64() * 1e100, []byte{0, byte(rng.IntN(256)), 255}}
	for i := 2; i < len(out); i++ {
		if rng.IntN(5) == 0 {
			out[i] = nil
		}
	}
	return out
}

// newTable is a table with change data.
func newTable(t testing.TB) *delta.Table {
	t.Helper()
	table := delta.New(mem.New())
	must(t)(write.Create(ctx, table, write.Definition{Columns: columns(), Properties: map[string]string{delta.PropertyChangeDataFeed: "true", delta.PropertyDeletionVectors: "true"}}, write.Source{}))
	return table
}

// work commits some versions.
func work(t testing.TB, table *delta.Table, rng *rand.Rand, versions int) {
	t.Helper()
	for range versions {
		var rows [][]any
		for id := range 20 {
			if rng.IntN(3) == 0 {
				rows = append(rows, row(rng, id))
			}
		}
		switch rng.IntN(5) {
		case 0:
			must(t)(write.Delete(ctx, table, fmt.Sprintf("id > %d", 10+rng.IntN(10))))
		case 1:
			must(t)(write.Alter(ctx, table, []write.Change{write.Describe("a", fmt.Sprint(rng.Int()))})) // no row
		default:
			must(t)(write.Merge(ctx, table, write.MergeInto{Key: []string{"id", "region"}}, write.Values(rows)))
		}
	}
}

func rowsOf(t testing.TB, table *delta.Table) map[string]bool {
	t.Helper()
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range columns() {
		names = append(names, c.Name)
	}
	reading, err := scan.New(table.Store(), s, scan.Options{Columns: names})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]bool{}
	for cells, err := range reading.Rows(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for i, c := range reading.Columns() {
			text += fmt.Sprintf("%s %s=%s; ", c.Name, c.Type, schema.AppendText(nil, c.Type, cells[i]))
		}
		out[text] = true
	}
	return out
}

// expected gives the net changes of every version by key, and by place: version/number.
func expected(t testing.TB, table *delta.Table) map[string]string {
	t.Helper()
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	feed, err := changes.Open(table, s, nil, changes.Options{Key: []string{"id", "region"}})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for u, err := range feed.NetVersions(ctx, 0, s.Version()) {
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for k, err := range u.Keys {
			if err != nil {
				t.Fatal(err)
			}
			op := "u"
			if k.Before == nil {
				op = "c"
			} else if k.After == nil {
				op = "d"
			}
			out[fmt.Sprintf("%d/%d", u.Version, n)] = op
			n++
		}
	}
	return out
}

func newBroker(t testing.TB) (*kfake.Cluster, kafka.Options) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(3, topic))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c, kafka.Options{Brokers: c.ListenAddrs(), RequestTimeout: 5 * time.Second}
}

func options(t testing.TB, table *delta.Table, k kafka.Options) sink.Options {
	return sink.Options{Name: "user_dim", Table: table, Changes: changes.Options{Key: []string{"id", "region"}}, Start: -1,
		Log: zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel)), Kafka: k, Topic: topic, Shape: sink.Debezium, Schemas: true, Poll: 5 * time.Millisecond}
}

func run(t testing.TB, o sink.Options) {
	t.Helper()
	if err := sink.Run(ctx, o); err != nil {
		t.Fatal(err)
	}
}

// records reads what readers of committed records see.
func records(t testing.TB, k kafka.Options) (out []*change.Record) {
	t.Helper()
	k.Topics = []string{topic}
	c, err := kafka.New(k)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	list, _, err := c.Partitions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	from, left := map[change.PartitionID]int64{}, map[change.PartitionID]int64{}
	for _, s := range list {
		from[s.ID] = s.Earliest
		if s.End > s.Earliest {
			left[s.ID] = s.End
		}
	}
	if err := c.Assign(ctx, from); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(20 * time.Second); len(left) > 0; {
		if time.Now().After(end) {
			t.Fatalf("not read: %v", left)
		}
		blocks, err := c.Poll(ctx, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks {
			out = append(out, b.Records...)
			if b.Next >= left[b.ID] {
				delete(left, b.ID)
			}
		}
	}
	return out
}

type envelope struct {
	Before, After map[string]any
	Op            string
	TsMs          int64 `json:"ts_ms"`
	Source        struct {
		Pos, Row int64
		TsMs     int64 `json:"ts_ms"`
		Label    *string
	}
}

// check compares the topic with the table's own changes: each once, a key on one
// partition, in order.
func check(t testing.TB, table *delta.Table, list []*change.Record) {
	t.Helper()
	want := expected(t, table)
	got := map[string]string{}
	partition, last := map[string]int32{}, map[string]int64{}
	for _, r := range list {
		var value struct{ Payload envelope }
		if err := json.Unmarshal(r.Value, &value); err != nil {
			t.Fatalf("%v in %s", err, r.Value)
		}
		e := value.Payload
		place := fmt.Sprintf("%d/%d", e.Source.Pos, e.Source.Row)
		if got[place] != "" {
			t.Fatalf("%s is there twice", place)
		}
		got[place] = e.Op
		key := string(r.Key)
		if p, ok := partition[key]; ok && p != r.Partition || last[key] >= e.Source.Pos {
			t.Fatalf("key %s: partitions %d and %d, version %d behind %d", key, p, r.Partition, e.Source.Pos, last[key])
		}
		partition[key], last[key] = r.Partition, e.Source.Pos
	}
	if !maps.Equal(got, want) {
		t.Fatalf("%d changes, want %d\n got %v\nwant %v", len(got), len(want), got, want)
	}
}

// What goes out comes back: the topic's changes make the same table, with all types.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	table := newTable(t)
	work(t, table, rng, 30)
	_, k := newBroker(t)
	o := options(t, table, k)
	o.Tombstones = true
	run(t, o)
	work(t, table, rng, 10)
	run(t, o)
	run(t, o) // nothing is left
	list := records(t, k)
	check(t, table, slices.DeleteFunc(slices.Clone(list), func(r *change.Record) bool { return r.Value == nil }))
	if n := len(list); n == len(expected(t, table)) {
		t.Error("no tombstones")
	}

	calendar, err := snapshotter.NewCalendar("day", "UTC", "00:00")
	if err != nil {
		t.Fatal(err)
	}
	k.Topics = []string{topic}
	source, err := kafka.New(k)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	copied, dead := mem.New(), mem.New()
	lane, err := ingest.New(ingest.Options{Name: "copy", Store: copied, DeadLetterStore: dead, Calendar: calendar,
		DriftWait: 10 * time.Minute, DriftIdle: 5 * time.Minute, UntilEnd: true}, source)
	if err != nil {
		t.Fatal(err)
	}
	if err := lane.Run(ctx); err != nil {
		t.Fatal(err)
	}
	back, err := delta.Open(ctx, copied)
	if err != nil {
		t.Fatal(err)
	}
	got, want := rowsOf(t, back), rowsOf(t, table)
	if !maps.Equal(got, want) || len(want) < 5 {
		t.Fatalf("%d rows, want %d:\n%s\nwant\n%s", len(got), len(want), strings.Join(slices.Sorted(maps.Keys(got)), "\n"), strings.Join(slices.Sorted(maps.Keys(want)), "\n"))
	}
}

// Whatever breaks off, each change is visible once.
func TestExactlyOnce(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	table := newTable(t)
	cluster, k := newBroker(t)
	o := options(t, table, k)
	o.Follow = true
	for range 12 {
		work(t, table, rng, 4)
		inner, stop := context.WithCancel(ctx)
		// A broker that answers a request with an error, or does it and the answer is lost.
		key := []int16{int16(kmsg.EndTxn), int16(kmsg.Produce), int16(kmsg.AddPartitionsToTxn), int16(kmsg.InitProducerID)}[rng.IntN(4)]
		skip := rng.IntN(6)
		cluster.ControlKey(key, func(kmsg.Request) (kmsg.Response, error, bool) {
			if skip--; skip >= 0 {
				cluster.KeepControl()
				return nil, nil, false
			}
			cluster.DropControl()
			return nil, errors.New("the connection breaks"), true
		})
		time.AfterFunc(time.Duration(rng.IntN(120))*time.Millisecond, stop)
		if err := sink.Run(inner, o); err != nil {
			t.Fatal(err)
		}
		stop()
	}
	o.Follow = false
	run(t, o)
	check(t, table, records(t, k))
}

// Of two that write one topic the later one does.
func TestFenced(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(5, 6))
	table := newTable(t)
	work(t, table, rng, 3)
	_, k := newBroker(t)
	o := options(t, table, k)
	o.Follow = true
	ended := make(chan error, 1)
	go func() { ended <- sink.Run(ctx, o) }()
	for end := time.Now().Add(10 * time.Second); len(records(t, k)) == 0 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	later := o
	later.Follow = false
	run(t, later)
	work(t, table, rng, 3)
	select {
	case err := <-ended:
		if !errors.Is(err, kafka.ErrFenced) {
			t.Errorf("the first one: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the first one goes on")
	}
	run(t, later)
	check(t, table, records(t, k))
}

func TestShapes(t *testing.T) {
	t.Parallel()
	table := delta.New(mem.New())
	must(t)(write.Create(ctx, table, write.Definition{
		Columns:    []schema.Field{write.Column("id", schema.Of(schema.Long)), write.Column("city", schema.Of(schema.StringType)), write.Column("at", schema.Of(schema.Timestamp))},
		Properties: map[string]string{delta.PropertyChangeDataFeed: "true"},
	}, write.Values([][]any{{1, "Beijing", time.Unix(1, 0)}})))
	must(t)(write.Update(ctx, table, "id = 1", write.Set{"city": "Hangzhou"}))
	must(t)(write.Delete(ctx, table, "id = 1"))
	for _, c := range []struct {
		shape               sink.Shape
		schemas, tombstones bool
		want                []string
	}{
		{sink.CDF, false, true, []string{
			`{"id":1} {"id":1,"city":"Beijing","at":"1970-01-01T00:00:01.000000Z","_change_type":"insert","_commit_version":0,"_commit_timestamp":"T"}`,
			`{"id":1} {"id":1,"city":"Beijing","at":"1970-01-01T00:00:01.000000Z","_change_type":"update_preimage","_commit_version":1,"_commit_timestamp":"T"}`,
			`{"id":1} {"id":1,"city":"Hangzhou","at":"1970-01-01T00:00:01.000000Z","_change_type":"update_postimage","_commit_version":1,"_commit_timestamp":"T"}`,
			`{"id":1} {"id":1,"city":"Hangzhou","at":"1970-01-01T00:00:01.000000Z","_change_type":"delete","_commit_version":2,"_commit_timestamp":"T"}`,
			`{"id":1} `,
		}},
		{sink.Debezium, false, false, []string{
			`{"id":1} {"before":null,"after":{"id":1,"city":"Beijing","at":"1970-01-01T00:00:01.000000Z"},"source":{"version":"1","connector":"gscd","name":"user_dim","ts_ms":T,"snapshot":"false","db":"gscd","table":"user_dim","server_id":0,"file":"delta.1","pos":0,"row":0,"label":null},"op":"c","ts_ms":T}`,
			`{"id":1} {"before":{"id":1,"city":"Beijing","at":"1970-01-01T00:00:01.000000Z"},"after":{"id":1,"city":"Hangzhou","at":"1970-01-01T00:00:01.000000Z"},"source":{"version":"1","connector":"gscd","name":"user_dim","ts_ms":T,"snapshot":"false","db":"gscd","table":"user_dim","server_id":0,"file":"delta.1","pos":1,"row":0,"label":null},"op":"u","ts_ms":T}`,
			`{"id":1} {"before":{"id":1,"city":"Hangzhou","at":"1970-01-01T00:00:01.000000Z"},"after":null,"source":{"version":"1","connector":"gscd","name":"user_dim","ts_ms":T,"snapshot":"false","db":"gscd","table":"user_dim","server_id":0,"file":"delta.1","pos":2,"row":0,"label":null},"op":"d","ts_ms":T}`,
		}},
	} {
		_, k := newBroker(t)
		o := options(t, table, k)
		o.Changes.Key, o.Shape, o.Schemas, o.Tombstones = []string{"id"}, c.shape, c.schemas, c.tombstones
		run(t, o)
		var got []string
		for _, r := range records(t, k) {
			got = append(got, string(r.Key)+" "+times.ReplaceAllString(string(r.Value), "${1}T$2"))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", c.shape, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
	_, k := newBroker(t)
	o := options(t, table, k)
	o.Changes.Key = nil
	if err := sink.Run(ctx, o); !errors.Is(err, changes.ErrNoKey) {
		t.Errorf("without a key: %v", err)
	}
	o.PositionTopic = topic
	if err := sink.Run(ctx, o); !errors.Is(err, sink.ErrPosition) {
		t.Errorf("positions among the changes: %v", err)
	}
}

// Where change data is not there, yet or any more, the topic gets what leads from the
// state that it has to that of the table.
func TestWithoutChangeData(t *testing.T) {
	t.Parallel()
	store := mem.New()
	table := delta.New(store)
	must(t)(write.Create(ctx, table, write.Definition{Columns: columns()[:2]}, write.Values([][]any{{1, "EU"}, {2, "EU"}})))
	must(t)(write.Alter(ctx, table, []write.Change{write.SetProperties(map[string]string{delta.PropertyChangeDataFeed: "true"})}))
	_, k := newBroker(t)
	o := options(t, table, k)
	o.Changes.Key, o.Schemas = []string{"id"}, false
	told := 0
	o.Changes.Notice = func(string) { told++ }
	run(t, o) // from the first version, which has none
	must(t)(write.Update(ctx, table, "id = 1", write.Set{"region": "US"}))
	run(t, o)
	must(t)(write.Update(ctx, table, "id = 2", write.Set{"region": "US"}))
	must(t)(write.Delete(ctx, table, "id = 1"))
	for at := range store.List(ctx, "_change_data/", "") {
		if err := store.Delete(ctx, at.Key); err != nil {
			t.Fatal(err)
		}
	}
	run(t, o)
	run(t, o)
	var got []string
	for _, r := range records(t, k) {
		var e envelope
		if err := json.Unmarshal(r.Value, &e); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d/%d %s %s", e.Source.Pos, e.Source.Row, e.Op, r.Key))
	}
	slices.Sort(got)
	want := []string{`1/0 c {"id":1}`, `1/1 c {"id":2}`, `2/0 u {"id":1}`, `4/0 d {"id":1}`, `4/1 u {"id":2}`}
	if !slices.Equal(got, want) || told != 2 {
		t.Errorf("%d notices, %q, want %q", told, got, want)
	}
}
