package capture

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/gscd-io/gscd/capture/binlog"
	"github.com/gscd-io/gscd/capture/event"
	"github.com/gscd-io/gscd/capture/source"
	"github.com/gscd-io/gscd/ddl"
	"github.com/gscd-io/gscd/ingest/kafka"
)

// from is a log from a position on, as a server gives it: a ROTATE event, the file's
// description, then what is behind the position.
type from struct {
	*binlog.Files
	at source.Position
}

func (f *from) Next(ctx context.Context) ([]byte, error) {
	for {
		raw, err := f.Files.Next(ctx)
		if err != nil {
			return nil, err
		}
		const rotate, description = 4, 15
		if end := uint64(binary.LittleEndian.Uint32(raw[13:])); raw[4] == rotate || raw[4] == description || end > f.at.Pos {
			return raw, nil
		}
	}
}

// errCrash is a kill.
var errCrash = errors.New("killed")

// crashing is a form that ends the process after so many events.
type crashing struct {
	Form
	left *int
}

func (c crashing) Append(e *event.Event, emit func(Message) error) error {
	if *c.left--; *c.left == 0 {
		return errCrash
	}
	return c.Form.Append(e, emit)
}

// rig writes a recorded binlog to a broker of its own.
type rig struct {
	t       testing.TB
	file    string
	cluster *kfake.Cluster
	o       Options
}

func sharedFile(t testing.TB, name string) string {
	for _, dir := range []string{os.Getenv("GSCD_TESTDATA"), "../../shared"} {
		if path := filepath.Join(dir, name); dir != "" {
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
	}
	t.Skipf("no %s: set GSCD_TESTDATA", name)
	return ""
}

func newRig(t testing.TB, idempotent bool) *rig {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SleepOutOfOrder())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	form, err := Forms(event.GSCD, "s")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, file: sharedFile(t, "cdc/binlog/osheroff/mysql-bin.sakila.gz"), cluster: cluster}
	r.o = Options{
		Name: "s", Tables: []string{"*.*"}, Form: form, Topics: kafka.NewTopic{Partitions: 3}, Heartbeat: time.Hour,
		Batch: Batch{Interval: time.Hour, Bytes: 20_000}, // most transactions are larger: they are written in parts
		Kafka: kafka.Options{Brokers: cluster.ListenAddrs()}, Writer: kafka.WriterOptions{StateTopic: "state", ID: "s", Idempotent: idempotent},
		Log: zap.NewNop(),
	}.withDefaults()
	return r
}

// session writes from the state on until it is killed, after some events, or at the end.
func (r *rig) session(events int) error {
	t := r.t
	w, err := kafka.NewWriter(r.o.Kafka, r.o.Writer)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	s := newState()
	if err := w.Start(t.Context(), s.take); err != nil {
		return err
	}
	if err := s.ready("s"); err != nil {
		t.Fatal(err)
	}
	who := source.Identity{ServerID: 1}
	if s.position == nil {
		s.at(&r.o, who, source.Position{File: "mysql-bin.sakila", Pos: 4}, 0)
	}
	c := &tracked{Catalog: ddl.NewCatalog()}
	for _, table := range s.tables() {
		c.Put(table)
	}
	base := s.position.position()
	out := &output{o: &r.o, writer: w, state: s, topics: newTopics(&r.o, w, s), form: crashing{r.o.Form(), &events}}
	st := &streamer{o: &r.o, out: out, state: s, who: who, catalog: c, base: base, skip: s.position.Skip, boundary: s.position.Skip == 0, writing: t.Context()}
	log := &from{binlog.OpenFiles(r.file), base}
	defer log.Close()
	st.reader = binlog.NewReader(log, c, binlog.Options{Name: "s", Wanted: r.o.wanted, Start: binlog.Position(base)})
	c.position = func() source.Position { return source.Position(st.reader.Position()) }
	return st.run(t.Context())
}

// records are what is committed, by partition, in order.
func (r *rig) records() map[string][]string {
	t := r.t
	cl, err := kgo.NewClient(kgo.SeedBrokers(r.cluster.ListenAddrs()...), kgo.ConsumeRegex(), kgo.ConsumeTopics(`s\..*`), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	out := map[string][]string{}
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		f := cl.PollFetches(ctx)
		cancel()
		if f.Empty() || f.NumRecords() == 0 {
			return out
		}
		f.EachRecord(func(k *kgo.Record) {
			p := fmt.Sprintf("%s/%d", k.Topic, k.Partition)
			out[p] = append(out[p], string(k.Key)+" "+string(k.Value))
		})
	}
}

// Killed after any event, in the middle of transactions too, the topics have what they
// would have without: each record once with transactions, and without them none less.
func TestResume(t *testing.T) {
	whole := newRig(t, false)
	if err := whole.session(1 << 30); err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	want := whole.records()
	n := 0
	for _, list := range want {
		n += len(list)
	}
	if n < 40_000 {
		t.Fatalf("%d records of %d partitions", n, len(want))
	}
	for _, idempotent := range []bool{false, true} {
		t.Run(fmt.Sprintf("idempotent %v", idempotent), func(t *testing.T) {
			r := newRig(t, idempotent)
			random := rand.New(rand.NewPCG(1, 2))
			kills := 0
			for {
				err := r.session(1 + random.IntN(n/10))
				if err == nil {
					break
				}
				if !errors.Is(err, errCrash) {
					t.Fatal(err)
				}
				kills++
			}
			t.Logf("%d records, %d kills", n, kills)
			got := r.records()
			for p, list := range want {
				if idempotent {
					got[p] = firsts(got[p])
				}
				if !slices.Equal(got[p], list) {
					t.Errorf("%s: %d records, want %d", p, len(got[p]), len(list))
				}
			}
			if len(got) != len(want) || kills < 5 {
				t.Errorf("%d partitions, want %d; %d kills", len(got), len(want), kills)
			}
		})
	}
}

// firsts leaves out what comes again.
func firsts(list []string) (out []string) {
	seen := map[string]bool{}
	for _, r := range list {
		if !seen[r] {
			seen[r] = true
			out = append(out, r)
		}
	}
	return out
}
