package recording

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"

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
