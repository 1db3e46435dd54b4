package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/address"
)

// A waiting script goes on with the seal, asks the storage for little, and hears at its
// timeout, or at once, of a day that is not there or cannot come.
func TestWait(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, "users", "orders")
	users, orders := filepath.Join(c.dir, "users"), filepath.Join(c.dir, "orders")
	file := c.write("gscd.yaml", fmt.Sprintf("kafka: {brokers: [%q]}\ncalendar: {timezone: UTC}\ntables: [{location: %q, topics: [users]}, {location: %q, topics: [orders]}]", c.brokers(), users, orders))
	ingest := func(topic, now string) {
		t.Helper()
		c.ok(c.ingestArgs(topic, "--until-end", "--now", now)...)
	}
	for day := 16; day <= 18; day++ {
		c.produce(c.upsert("users", 0, day, "n", fmt.Sprintf("2022-07-%dT10:00:00Z", day)))
	}
	ingest("users", "2022-07-18T12:00:00Z")

	var row struct {
		Table, Label, State, Digest string
		Version, Rows               int64
		SealedAt                    string `json:"sealed_at"`
	}
	var entry struct{ Digest string }
	if err := json.Unmarshal([]byte(c.ok("snapshots", "2022-07-17", "--table", users, "--format", "json")), &entry); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(c.ok("wait", "--table", users, "--as-of", "2022-07-17", "--sealed", "--timeout", "0")), &row); err != nil {
		t.Fatal(err)
	}
	if row.Table != "users" || row.Label != "2022-07-17" || row.State != "sealed" || row.Rows != 2 || row.Digest == "" || row.Digest != entry.Digest || row.SealedAt == "" {
		t.Errorf("a sealed day: %+v, its evidence has the digest %s", row, entry.Digest)
	}
	for _, w := range []struct {
		args string
		code int
		says string
	}{
		{"--as-of 2022-07-18 --sealed --timeout 0", 3, "the timeout has come: table users: 2022-07-18 is not sealed"},
		{"--as-of 2022-07-18 --timeout 0", 0, "table users: 2022-07-18 is not sealed: it is the open label"},
		{"--as-of 2022-07-19 --timeout 0", 3, "2022-07-19 lies after the open label"},
		{"--as-of 2022-07-01 --sealed", 1, "2022-07-01 lies before the table's first snapshot"},
		{"--as-of 2022-07 --sealed", 1, "2022-07"},
		{"--sealed", 2, "--as-of is missing"},
		{"--as-of 2022-07-18 --timeout soon", 2, "--timeout"},
		{"--as-of 2022-07-18 --interval 1ms", 2, "--interval 1ms is too short"},
	} {
		code, _, stderr := c.gscd(append([]string{"wait", "--table", users}, strings.Fields(w.args)...)...)
		if code != w.code || !strings.Contains(stderr, w.says) {
			t.Errorf("%s: exit %d, want %d: %s", w.args, code, w.code, stderr)
		}
	}
	code, _, stderr := c.gscd("wait", "--table", orders, "--as-of", "2022-07-18", "--sealed")
	if code != 1 || !strings.Contains(stderr, "not a Delta table") {
		t.Errorf("an address without a table: exit %d: %s", code, stderr)
	}

	// Both configured tables, one of which does not exist yet.
	var out, said lockedBuffer
	store := &looked{}
	a := &app{stdin: strings.NewReader(""), stdout: &out, stderr: &said, log: zap.NewNop(), open: store.open}
	a.flags.config, a.flags.format = file, "jsonl"
	refs, err := a.tablesToWaitFor(nil)
	if err != nil || len(refs) != 2 {
		t.Fatalf("%d tables: %v", len(refs), err)
	}
	ended := make(chan error, 1)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 30*time.Second, errWaited)
	defer cancel()
	go func() {
		ended <- a.wait(ctx, refs, waitFlags{asOf: "2022-07-18", sealed: true, every: 5 * time.Millisecond})
	}()
	for end := time.Now().Add(10 * time.Second); !strings.Contains(said.String(), "orders does not exist yet") && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	store.of.Store(&counted{})
	time.Sleep(50 * time.Millisecond)
	if n := store.of.Load(); n.gets.Load() == 0 || n.lists.Load() > n.gets.Load() {
		t.Errorf("while it waits: %d reads, %d listings", n.gets.Load(), n.lists.Load())
	}
	c.produce(c.upsert("users", 0, 19, "n", "2022-07-19T10:00:00Z"))
	c.produce(c.upsert("orders", 0, 1, "n", "2022-07-18T10:00:00Z"), c.upsert("orders", 0, 1, "n", "2022-07-19T10:00:00Z"))
	ingest("users", "2022-07-19T12:00:00Z")
	ingest("orders", "2022-07-19T12:00:00Z")
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], `{"table":"users","label":"2022-07-18","version":`) || !strings.HasPrefix(lines[1], `{"table":"orders","label":"2022-07-18","version":`) {
		t.Errorf("both: %s", out.String())
	}

	// A day that was rolled back comes again by the replay, one that is behind the open label never.
	c.ok("rollback", "-c", file, "--table", "users", "--to", "2022-07-16", "--yes")
	if code, _, stderr := c.gscd("wait", "--table", users, "--as-of", "2022-07-18", "--sealed", "--timeout", "0"); code != 3 || !strings.Contains(stderr, "rolled back") {
		t.Errorf("rolled back: exit %d: %s", code, stderr)
	}
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if err := a.wait(ctx, refs[:1], waitFlags{asOf: "2022-07-18", sealed: true, every: time.Second}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

// looked opens stores that count what is asked of them.
type looked struct{ of atomic.Pointer[counted] }

// counted counts calls.
type counted struct{ gets, lists atomic.Int64 }

func (l *looked) open(ctx context.Context, location string) (objstore.Store, error) {
	store, err := address.Open(ctx, location)
	return lookedStore{store, l}, err
}

// lookedStore is a store whose calls are counted.
type lookedStore struct {
	objstore.Store
	l *looked
}

func (s lookedStore) Get(ctx context.Context, key string) ([]byte, error) {
	if c := s.l.of.Load(); c != nil {
		c.gets.Add(1)
	}
	return s.Store.Get(ctx, key)
}

func (s lookedStore) List(ctx context.Context, prefix, after string) iter.Seq2[objstore.Object, error] {
	if c := s.l.of.Load(); c != nil {
		c.lists.Add(1)
	}
	return s.Store.List(ctx, prefix, after)
}
