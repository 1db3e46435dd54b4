package recording

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/ingest/change"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t testing.TB, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t testing.TB, opts Options, files ...string) *Recording {
	t.Helper()
	r, err := Open(files, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// assignAll assigns every partition from its first offset.
func assignAll(t testing.TB, r *Recording) []change.PartitionState {
	t.Helper()
	states, _, err := r.Partitions(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	from := make(map[change.PartitionID]int64)
	for _, s := range states {
		from[s.ID] = s.Earliest
	}
	if err := r.Assign(context.Background(), from); err != nil {
		t.Fatal(err)
	}
	return states
}

// drain polls until nothing comes, and checks the blocks' own promises.
func drain(t testing.TB, r *Recording, max int) map[change.PartitionID][]*change.Record {
	t.Helper()
	out := make(map[change.PartitionID][]*change.Record)
	for {
		blocks, err := r.Poll(context.Background(), max)
		if err != nil {
			t.Fatal(err)
		}
		if len(blocks) == 0 {
			return out
		}
		n := 0
		for _, b := range blocks {
			n += len(b.Records)
			for _, rec := range b.Records {
				if rec.Topic != b.ID.Topic || rec.Partition != b.ID.Partition || rec.Offset >= b.Next {
					t.Fatalf("record %s in block %v next %d", show(rec), b.ID, b.Next)
				}
			}
			out[b.ID] = append(out[b.ID], b.Records...)
		}
		if max > 0 && n > max {
			t.Fatalf("%d records, asked for at most %d", n, max)
		}
	}
}

func offsets(records []*change.Record) []int64 {
	var out []int64
	for _, r := range records {
		out = append(out, r.Offset)
	}
	return out
}

const mixed = `{"partition":1,"offset":5,"ts":100,"key":{"id":1},"value":{"a":1}}

{"topic":"t","partition":0,"offset":0,"tstype":"create","ts":300,"key":"k","payload":"v"}
{"topic":"u","partition":0,"offset":0,"ts":900,"key":null,"value":null}
{"partition":1,"offset":9,"ts":200,"key":{"id":1},"value":null}
{"partition":0,"offset":1,"key":{"id":2},"value":{"a":2}}`

func TestPartitions(t *testing.T) {
	dir := t.TempDir()
	r := open(t, Options{Topic: "t", Topics: []string{"t"}}, write(t, dir, "a.jsonl", mixed))
	states := assignAll(t, r)
	want := []change.PartitionState{{ID: change.PartitionID{Topic: "t", Partition: 0}, End: 2}, {ID: change.PartitionID{Topic: "t", Partition: 1}, Earliest: 5, End: 10}}
	if !slices.Equal(states, want) {
		t.Errorf("got %v, want %v", states, want)
	}
	if _, at, _ := r.Partitions(context.Background()); !at.Equal(time.UnixMilli(300)) || r.MaxBrokerTimestamp() != 300 || !r.HasTimestamps() {
		t.Errorf("clock %v, largest time %d", at, r.MaxBrokerTimestamp())
	}
	r.SetNow(time.UnixMilli(7))
	if _, at, _ := r.Partitions(context.Background()); !at.Equal(time.UnixMilli(7)) {
		t.Errorf("clock %v after SetNow", at)
	}
	got := drain(t, r, 0)
	if o := offsets(got[want[1].ID]); !slices.Equal(o, []int64{5, 9}) {
		t.Errorf("offsets %v", o)
	}
	if s := show(got[want[0].ID][1]); s != `t/0@1 ts=-1 key="{\"id\":2}" value="{\"a\":2}"` {
		t.Error(s)
	}
	all := open(t, Options{Topic: "t"}, write(t, dir, "b.jsonl", mixed))
	if states := assignAll(t, all); len(states) != 3 || states[2].ID.Topic != "u" || all.MaxBrokerTimestamp() != 900 {
		t.Errorf("all topics: %v", states)
	}
	none := open(t, Options{}, write(t, dir, "c.jsonl", "{\"topic\":\"t\",\"partition\":0,\"offset\":0,\"value\":1}\n"))
	if _, at, _ := none.Partitions(context.Background()); none.HasTimestamps() || none.MaxBrokerTimestamp() != -1 || !at.IsZero() {
		t.Error("a time out of nowhere")
	}
	empty := open(t, Options{}, write(t, dir, "d.jsonl", ""))
	if states := assignAll(t, empty); len(states) != 0 {
		t.Errorf("an empty recording has %v", states)
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	good := write(t, dir, "good", "{\"topic\":\"t\",\"partition\":0,\"offset\":4,\"value\":1}\n")
	for _, c := range []struct {
		name, content string
		opts          Options
		want          string
	}{
		{"cut", "{\"topic\":\"t\",\"partition\":0,\"offset\":5,\"value\":1}\n{\"topic\":\"t\",\"part", Options{}, "cut line 2: no valid JSON at byte 19: a string without an end"},
		{"nopartition", "\n\n{\"topic\":\"t\",\"offset\":5,\"value\":1}\n", Options{}, `nopartition line 3: the line has no "partition"`},
		{"notopic", "{\"partition\":0,\"offset\":5,\"value\":1}", Options{}, `notopic line 1: the line has no "topic"`},
		{"same", "{\"topic\":\"t\",\"partition\":1,\"offset\":1,\"value\":1}\n{\"topic\":\"t\",\"partition\":0,\"offset\":4,\"value\":1}\n", Options{}, "same line 2: topic t partition 0: offset 4 comes behind offset 4 (" + good + " line 1)"},
		{"othertopic", "{\"topic\":\"u\",\"partition\":0", Options{Topics: []string{"t"}}, "othertopic line 1: no valid JSON"},
		{"zst", "\x28\xb5\x2f\xfd\x00\x00\x00", Options{}, "unpack "},
	} {
		_, err := Open([]string{good, write(t, dir, c.name, c.content)}, c.opts)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	for _, files := range [][]string{nil, {filepath.Join(dir, "missing")}, {dir}} {
		if _, err := Open(files, Options{}); err == nil {
			t.Errorf("%v: opened", files)
		}
	}
}

func TestCompressedByContent(t *testing.T) {
	dir, temp := t.TempDir(), t.TempDir()
	line := func(offset int) string {
		return fmt.Sprintf("{\"topic\":\"t\",\"partition\":0,\"offset\":%d,\"value\":%d}\n", offset, offset)
	}
	var gz, zs bytes.Buffer
	for i := range 2 { // two members, two frames: one stream
		z := gzip.NewWriter(&gz)
		z.Write([]byte(line(10 + i)))
		z.Close()
		e, _ := zstd.NewWriter(&zs)
		e.Write([]byte(line(20 + i)))
		e.Close()
	}
	r := open(t, Options{TempDir: temp},
		write(t, dir, "a.gz", line(0)), write(t, dir, "b.jsonl", gz.String()), write(t, dir, "c.gz", zs.String()))
	assignAll(t, r)
	got := drain(t, r, 0)[change.PartitionID{Topic: "t"}]
	if o := offsets(got); !slices.Equal(o, []int64{0, 10, 11, 20, 21}) || string(got[4].Value) != "21" {
		t.Errorf("offsets %v", o)
	}
	r.Close()
	if left, _ := os.ReadDir(temp); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	// A gzip file that was cut off is refused, not read in part.
	if _, err := Open([]string{write(t, dir, "d", gz.String()[:gz.Len()-10])}, Options{TempDir: temp}); err == nil {
		t.Error("a cut gzip file was opened")
	}
	if left, _ := os.ReadDir(temp); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestPipe(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	path := fmt.Sprintf("/dev/fd/%d", in.Fd())
	if _, err := os.Stat(path); err != nil {
		t.Skip("no /dev/fd on this system")
	}
	out.WriteString(mixed)
	out.Close()
	r := open(t, Options{Topic: "t"}, path)
	if states := assignAll(t, r); len(states) != 3 || len(drain(t, r, 1)) != 3 {
		t.Errorf("from a pipe: %v", states)
	}
}

func TestAssign(t *testing.T) {
	r := open(t, Options{Topic: "t"}, write(t, t.TempDir(), "a", mixed))
	p0, p1 := change.PartitionID{Topic: "t"}, change.PartitionID{Topic: "t", Partition: 1}
	ctx := context.Background()
	// In a hole: the next record. At the end: nothing, and no error.
	if err := r.Assign(ctx, map[change.PartitionID]int64{p1: 6, p0: 2}); err != nil {
		t.Fatal(err)
	}
	if got := drain(t, r, 0); !slices.Equal(offsets(got[p1]), []int64{9}) || len(got) != 1 {
		t.Errorf("got %v", got)
	}
	err := r.Assign(ctx, map[change.PartitionID]int64{p1: 4, p0: 3, {Topic: "x"}: 1, {Topic: "y"}: 0})
	lost := change.LostOffsets(err)
	if len(lost) != 3 || *lost[0] != (change.LostOffsetsError{ID: p0, Wanted: 3, End: 2}) ||
		*lost[1] != (change.LostOffsetsError{ID: p1, Wanted: 4, Earliest: 5, End: 10}) || lost[2].ID.Topic != "x" {
		t.Errorf("got %v", err)
	}
	// Again from the start: what was read before comes again.
	assignAll(t, r)
	drain(t, r, 1)
	assignAll(t, r)
	if got := drain(t, r, 0); len(got[p0]) != 2 || len(got[p1]) != 2 {
		t.Errorf("got %v", got)
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := r.Poll(canceled, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	r.Close()
	if _, err := r.Poll(ctx, 1); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	if err := r.Assign(ctx, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestOversizeAndLongLines(t *testing.T) {
	long := strings.Repeat("x", 3<<20)
	r := open(t, Options{Topic: "t", MaxRecord: 2 << 20, BlockBytes: 1}, write(t, t.TempDir(), "a",
		`{"partition":0,"offset":0,"key":"k","raw_value":"`+long+"\"}\n"+`{"partition":0,"offset":1,"raw_value":"`+long[:1<<20]+"\"}\n"+`{"partition":0,"offset":2,"value":1}`))
	assignAll(t, r)
	got := drain(t, r, 0)[change.PartitionID{Topic: "t"}]
	if len(got) != 3 || got[0].Oversize != 3<<20+3 || len(got[0].Value) != change.OversizeKept || got[1].Oversize != 0 || len(got[1].Value) != 1<<20 || string(got[2].Value) != "1" {
		t.Fatalf("got %d records", len(got))
	}
	if err := NewWriter(&bytes.Buffer{}, Kcat).Write(got[0]); err == nil || !strings.Contains(err.Error(), "offset 0") {
		t.Errorf("a cut record was recorded: %v", err)
	}
}

func TestFileChangedMeanwhile(t *testing.T) {
	for _, now := range []string{"", strings.Replace(mixed, `"offset":9`, `"offset":8`, 1), strings.Replace(mixed, `"value":null}`, `"value":nul!}`, 2)} {
		path := write(t, t.TempDir(), "a", mixed)
		r := open(t, Options{Topic: "t"}, path)
		assignAll(t, r)
		if err := os.WriteFile(path, []byte(now), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := r.Poll(context.Background(), 0)
		if err == nil || !strings.Contains(err.Error(), path+" changed while it was read") {
			t.Errorf("got %v", err)
		}
		if _, again := r.Poll(context.Background(), 0); again == nil {
			t.Error("the error does not stick")
		}
	}
}

// genRecord draws any record at all: binary, JSON, text, nil, empty.
func genRecord(t *rapid.T, topic string, partition int32, offset int64) *change.Record {
	bytesOf := rapid.OneOf(
		rapid.Just([]byte(nil)), rapid.SliceOfN(rapid.Byte(), 0, 20),
		rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) }),
		rapid.Map(rapid.MapOf(rapid.String(), rapid.Int()), func(m map[string]int) []byte { b, _ := json.Marshal(m); return b }),
		rapid.Map(rapid.SampledFrom([]string{"null", "true", " 1 ", "1", "[1,\n2]", "{}\r\n", `"a"`, `{"a":"\ud83d\ude00"}`, "NaN", "\u2028"}), func(s string) []byte { return []byte(s) }),
	)
	r := &change.Record{Topic: topic, Partition: partition, Offset: offset,
		Timestamp: rapid.Int64Range(-1, 1<<42).Draw(t, "ts"), Key: bytesOf.Draw(t, "key"), Value: bytesOf.Draw(t, "value")}
	for range rapid.IntRange(0, 2).Draw(t, "headers") {
		r.Headers = append(r.Headers, change.Header{Key: string(bytesOf.Draw(t, "name")), Value: bytesOf.Draw(t, "header")})
	}
	return r
}

// TestModel writes random records in random forms, files and compressions, and
// reads them back with random assignments, pauses and poll sizes: each
// partition must deliver exactly its records from the offset assigned.
func TestModel(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		model := make(map[change.PartitionID][]*change.Record)
		next := make(map[change.PartitionID]int64)
		var files []string
		for f := range rapid.IntRange(1, 3).Draw(t, "files") {
			var buf bytes.Buffer
			var ws [2]*Writer
			for i := range ws {
				ws[i] = NewWriter(&buf, Form(i))
			}
			for range rapid.IntRange(0, 40).Draw(t, "records") {
				id := change.PartitionID{Topic: rapid.SampledFrom([]string{"t", "u.\"x"}).Draw(t, "topic"), Partition: rapid.Int32Range(0, 2).Draw(t, "partition")}
				r := genRecord(t, id.Topic, id.Partition, next[id]+rapid.Int64Range(0, 3).Draw(t, "hole"))
				next[id] = r.Offset + 1
				model[id] = append(model[id], r)
				w := ws[rapid.IntRange(0, 1).Draw(t, "form")]
				if err := errors.Join(w.Write(r), w.Flush()); err != nil {
					t.Fatal(err)
				}
			}
			path := filepath.Join(dir, fmt.Sprintf("%d-%d", n, f))
			content := buf.Bytes()
			if rapid.Bool().Draw(t, "gzip") {
				var z bytes.Buffer
				w := gzip.NewWriter(&z)
				w.Write(content)
				w.Close()
				content = z.Bytes()
			}
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			files = append(files, path)
		}
		r, err := Open(files, Options{BlockBytes: rapid.Int64Range(1, 5000).Draw(t, "bytes")})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		ids := slices.SortedFunc(keys(model), change.PartitionID.Compare)
		for range 2 {
			checkAssignment(t, r, model, ids)
		}
	})
}

func keys[K comparable, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func checkAssignment(t *rapid.T, r *Recording, model map[change.PartitionID][]*change.Record, ids []change.PartitionID) {
	ctx := context.Background()
	from, at := make(map[change.PartitionID]int64), make(map[change.PartitionID]int)
	for _, id := range ids {
		if rapid.IntRange(0, 4).Draw(t, "skip") == 0 {
			continue
		}
		from[id] = rapid.Int64Range(model[id][0].Offset, model[id][len(model[id])-1].Offset+1).Draw(t, "from")
		for at[id] < len(model[id]) && model[id][at[id]].Offset < from[id] {
			at[id]++
		}
	}
	if err := r.Assign(ctx, from); err != nil {
		t.Fatal(err)
	}
	paused := make(map[change.PartitionID]bool)
	for left := 300; left > 0; left-- {
		missing := 0
		for id := range from {
			missing += len(model[id]) - at[id]
		}
		if missing == 0 {
			return
		}
		for _, id := range ids {
			if rapid.IntRange(0, 3).Draw(t, "flip") == 0 {
				if paused[id] = !paused[id] && left > 20; paused[id] {
					r.Pause(id)
				} else {
					r.Resume(id)
				}
			}
		}
		blocks, err := r.read(rapid.IntRange(0, 9).Draw(t, "max"))
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range blocks {
			if paused[b.ID] {
				t.Fatalf("%v delivers while paused", b.ID)
			}
			for _, rec := range b.Records {
				want := model[b.ID][at[b.ID]]
				if show(rec) != show(want) {
					t.Fatalf("got  %s\nwant %s", show(rec), show(want))
				}
				at[b.ID]++
			}
			if b.Next != model[b.ID][at[b.ID]-1].Offset+1 {
				t.Fatalf("next %d", b.Next)
			}
		}
	}
	t.Fatal("records are missing")
}

// testdata finds the shared test data, or skips.
func testdata(t *testing.T) string {
	dir := os.Getenv("GSCD_TESTDATA")
	if dir == "" {
		at, err := os.Getwd()
		for err == nil && dir == "" {
			if _, e := os.Stat(filepath.Join(at, "go.mod")); e == nil {
				dir = filepath.Join(filepath.Dir(at), "shared")
			} else if up := filepath.Dir(at); up == at {
				break
			} else {
				at = up
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "cdc", "recorded")); err != nil {
		t.Skip("no shared test data: set GSCD_TESTDATA")
	}
	return dir
}

// TestRecorded reads recordings of a real broker and compares every record
// with what encoding/json makes of its line.
func TestRecorded(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata(t), "cdc", "recorded", "*.jsonl"))
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	records := 0
	for _, f := range files {
		content, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		r := open(t, Options{}, f)
		assignAll(t, r)
		got := drain(t, r, 7)
		for _, text := range bytes.Split(bytes.TrimSpace(content), []byte("\n")) {
			var l struct {
				Topic                string
				Partition            int32
				Offset, Ts           int64
				Headers              []*string
				Key, Payload         *string
				Key_b64, Payload_b64 *[]byte
			}
			if err := json.Unmarshal(text, &l); err != nil {
				t.Fatal(err)
			}
			want := &change.Record{Topic: l.Topic, Partition: l.Partition, Offset: l.Offset, Timestamp: l.Ts, Key: either(l.Key, l.Key_b64), Value: either(l.Payload, l.Payload_b64)}
			for i := 0; i < len(l.Headers); i += 2 {
				want.Headers = append(want.Headers, change.Header{Key: *l.Headers[i], Value: either(l.Headers[i+1], nil)})
			}
			id := change.PartitionID{Topic: l.Topic, Partition: l.Partition}
			if len(got[id]) == 0 || show(got[id][0]) != show(want) {
				t.Fatalf("%s: not what the line says:\n%.300s", f, text)
			}
			got[id] = got[id][1:]
			records++
		}
	}
	if records < 300 {
		t.Errorf("only %d records", records)
	}
}

func either(s *string, b *[]byte) []byte {
	if s != nil {
		return []byte(*s)
	}
	if b != nil {
		return *b
	}
	return nil
}

// benchFile makes a recording of n Debezium-like records of about 1 kB over 4 partitions.
func benchFile(b *testing.B, form Form, n int) string {
	row := func(i int) string {
		return fmt.Sprintf(`{"id":%d,"customer_id":%d,"status":"paid","amount":"8h9JTFicAAE=","note":"naive café %d","created_at":1657866781328542,"updated_at":"2022-07-15T06:33:02.325Z","address":"some street in some town, number 12","flags":7,"remark":null}`, i, i*7, i)
	}
	var buf bytes.Buffer
	w := NewWriter(&buf, form)
	rng := rand.New(rand.NewPCG(1, 2))
	var next [4]int64
	for i := range n {
		p := rng.IntN(4)
		r := &change.Record{Topic: "shop.orders", Partition: int32(p), Offset: next[p], Timestamp: 1657936800400 + int64(i), Key: fmt.Appendf(nil, `{"id":%d}`, i),
			Value: fmt.Appendf(nil, `{"before":%s,"after":%s,"source":{"version":"3.5.0.Final","connector":"mysql","name":"s1","ts_ms":1657893600000,"snapshot":"false","db":"shop","table":"orders","server_id":184054,"gtid":null,"file":"binlog.000001","pos":%d,"row":0},"op":"u","ts_ms":1657893600123}`, row(i), row(i+1), i*300)}
		next[p]++
		if err := w.Write(r); err != nil {
			b.Fatal(err)
		}
	}
	w.Flush()
	return write(b, b.TempDir(), "bench.jsonl", buf.String())
}

func BenchmarkRecording(b *testing.B) {
	const n = 50_000
	for _, form := range []Form{Readable, Kcat} {
		path := benchFile(b, form, n)
		info, _ := os.Stat(path)
		name := [...]string{"readable", "kcat"}[form]
		b.Run("open/"+name, func(b *testing.B) {
			b.SetBytes(info.Size())
			for range b.N {
				r, err := Open([]string{path}, Options{})
				if err != nil {
					b.Fatal(err)
				}
				r.Close()
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
		})
		b.Run("poll/"+name, func(b *testing.B) {
			b.SetBytes(info.Size())
			b.ReportAllocs()
			r := open(b, Options{}, path)
			for b.Loop() {
				assignAll(b, r)
				for left := n; left > 0; {
					blocks, err := r.Poll(context.Background(), 10_000)
					if err != nil {
						b.Fatal(err)
					}
					for _, block := range blocks {
						left -= len(block.Records)
					}
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}
