package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/faulty"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/deadletter"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/savepoint"
)

// world is all storage that commands see: one store, in which every address below "/w/"
// is a folder, and whose calls are counted and failed together.
type world struct {
	below *mem.Store
	store *faulty.Store
}

func newWorld() *world { return worldOn(mem.New()) }

func worldOn(below *mem.Store) *world { return &world{below, faulty.New(below)} }

// clone is what a crash now would leave.
func (w *world) clone() *world { return worldOn(w.below.Clone()) }

// open opens an address, without faults where sound is set.
func (w *world) open(location string, sound bool) objstore.Store {
	var store objstore.Store = w.store
	if sound {
		store = w.below
	}
	return &folder{store, location, strings.Trim(location, "/") + "/"}
}

// gscd runs a command to its end. Each run is a process of its own: nothing is kept.
func (w *world) gscd(stdout io.Writer, args ...string) (code int, stderr string) {
	var errs lockedBuffer
	a := &app{stdin: strings.NewReader(""), stdout: stdout, stderr: &errs, log: zap.NewNop(), brokerPatience: time.Second}
	a.open = func(_ context.Context, location string) (objstore.Store, error) {
		location = strings.TrimPrefix(location, "s3:/") // files of slices have no other way than a bucket
		if location != "/w" && !strings.HasPrefix(location, "/w/") {
			return nil, fmt.Errorf("%s lies outside of the world", location)
		}
		return w.open(location, false), nil
	}
	args = append(args, "--log-level", "error")
	if args[0] != "changes" {
		args = append(args, "--format", "jsonl")
	}
	code = run(args, a, commands)
	return code, errs.String()
}

// ok runs a command that must succeed.
func (w *world) ok(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if code, stderr := w.gscd(&out, args...); code != 0 {
		t.Fatalf("gscd %s: exit %d\n%s%s", strings.Join(args, " "), code, out.String(), stderr)
	}
	return out.String()
}

// folder is a store in a folder of another one.
type folder struct {
	objstore.Store
	location, prefix string
}

var _ objstore.Streamer = (*folder)(nil)

// key refuses what would leave the folder, as every store does.
func (f *folder) key(key string) (string, error) { return f.prefix + key, objstore.CheckKey(key) }

func (f *folder) Get(ctx context.Context, key string) ([]byte, error) {
	key, err := f.key(key)
	if err != nil {
		return nil, err
	}
	return f.Store.Get(ctx, key)
}

func (f *folder) GetRange(ctx context.Context, key string, offset, length int64) ([]byte, error) {
	key, err := f.key(key)
	if err != nil {
		return nil, err
	}
	return f.Store.GetRange(ctx, key, offset, length)
}

func (f *folder) Head(ctx context.Context, key string) (objstore.Object, error) {
	full, err := f.key(key)
	if err != nil {
		return objstore.Object{}, err
	}
	o, err := f.Store.Head(ctx, full)
	o.Key = key
	return o, err
}

func (f *folder) Put(ctx context.Context, key string, data []byte) error {
	key, err := f.key(key)
	if err != nil {
		return err
	}
	return f.Store.Put(ctx, key, data)
}

func (f *folder) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	key, err := f.key(key)
	if err != nil {
		return err
	}
	return f.Store.PutIfAbsent(ctx, key, data)
}

func (f *folder) Delete(ctx context.Context, key string) error {
	key, err := f.key(key)
	if err != nil {
		return err
	}
	return f.Store.Delete(ctx, key)
}

func (f *folder) Create(ctx context.Context, key string) (objstore.Writer, error) {
	key, err := f.key(key)
	if err != nil {
		return nil, err
	}
	return objstore.Begin(ctx, f.Store, key)
}

func (f *folder) List(ctx context.Context, prefix, startAfter string) iter.Seq2[objstore.Object, error] {
	if startAfter != "" {
		startAfter = f.prefix + startAfter
	}
	return func(yield func(objstore.Object, error) bool) {
		for o, err := range f.Store.List(ctx, f.prefix+prefix, startAfter) {
			o.Key = strings.TrimPrefix(o.Key, f.prefix)
			if !yield(o, err) || err != nil {
				return
			}
		}
	}
}

func (f *folder) String() string { return f.location }

// input writes a file that commands read from the disk.
func input(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// rowsAt gives the rows of a version as sorted lines, or says why it has none.
func rowsAt(ctx context.Context, s *delta.Snapshot, store objstore.Store) (lines []string, err error) {
	reading, err := scan.New(store, s, scan.Options{})
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w, err := output.NewWriter(output.JSONL, &out, reading.Columns())
	if err != nil {
		return nil, err
	}
	var row []schema.Value
	for row, err = range reading.Rows(ctx) {
		if err == nil {
			err = w.Write(row)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	lines = strings.Split(strings.TrimSpace(out.String()), "\n")
	slices.Sort(lines)
	return lines, nil
}

// tell says what a place holds for whoever reads it: of a table of gscd every label with
// its rows and counts, its savepoints, offsets and dead letters; of another Delta table its rows; of
// a folder without a log its objects. Names of files and times are no part of it.
func (w *world) tell(t *testing.T, location string) string {
	t.Helper()
	ctx, store := t.Context(), w.open(location, true)
	// A shallow clone names files of the table.
	store = &elsewhere{store, []outsidePlace{{"/w/t/", w.open("/w/t", true)}}}
	table, err := delta.Open(ctx, store)
	if err != nil {
		return w.tellFiles(t, location)
	}
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	rows := func(s *delta.Snapshot) {
		lines, err := rowsAt(ctx, s, store)
		if err != nil {
			t.Fatalf("%s: version %d: %v", location, s.Version(), err)
		}
		fmt.Fprintf(&b, "  %s\n", strings.Join(lines, "\n  "))
	}
	m, err := savepoint.Read(ctx, table, s)
	if err != nil {
		fmt.Fprintf(&b, "columns %s\n", strings.Join(s.Schema().Names(), ", "))
		rows(s)
		return b.String()
	}
	for _, e := range m.Entries {
		name, _, _ := strings.Cut(e.Name, "@")
		fmt.Fprintf(&b, "%s %s kept %v\n", name, e.State, e.Kept)
		if e.Version < 0 || e.State == savepoint.DeletedOne || e.State == savepoint.RolledBack && !e.Kept {
			continue
		}
		at, err := table.SnapshotAt(ctx, e.Version)
		if err != nil {
			t.Fatal(err)
		}
		rows(at)
		if e.State != savepoint.Sealed {
			continue
		}
		ev, err := m.Evidence(ctx, table, e)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "  %q %s\n", ev.Attributes, asJSON(t, ev.Counts, ev.Partitions, ev.Late))
	}
	for _, n := range m.Named {
		at, err := table.SnapshotAt(ctx, n.Version)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "named %s\n", n.Name)
		rows(at)
	}
	p := m.Progress
	fmt.Fprintf(&b, "open %s %+v totals %+v dead letters %v resolved %v held %d rows %d incomplete %+v\n", p.Label, p.Counts, p.Totals, p.DeadLetters, p.Resolved, len(p.Held), p.Rows, p.Incomplete)
	for _, part := range p.State.Partitions {
		fmt.Fprintf(&b, "  %s\n", asJSON(t, part))
	}
	states, err := deadletter.ReadStates(ctx, store, m.Calendar, p)
	if err != nil {
		t.Fatal(err)
	}
	var dead []string
	err = deadletter.Open(w.open(deadLetterAddress(location), true)).Each(ctx, func(e deadletter.Entry) error {
		is := states.Of(&e)
		dead = append(dead, fmt.Sprintf("dead letter %d@%d %s %s %s %s", e.Partition, e.Offset, e.Reason, e.Label, e.Value, is.State))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(dead)
	fmt.Fprintf(&b, "%s\n%d protected\n", strings.Join(dead, "\n"), len(savepoint.Weakened(s)))
	return b.String()
}

// clear removes all that lies at a place.
func (w *world) clear(t *testing.T, location string) {
	t.Helper()
	store := w.open(location, true)
	for o, err := range store.List(t.Context(), "", "") {
		if err == nil {
			err = store.Delete(t.Context(), o.Key)
		}
		if err != nil {
			t.Error(err)
		}
	}
}

// tellFiles says what lies at a place without a log: Parquet files as one table, other
// files by their text.
func (w *world) tellFiles(t *testing.T, location string) string {
	t.Helper()
	var b strings.Builder
	isParquet := false
	for o, err := range w.open(location, true).List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(o.Key, ".parquet") {
			isParquet = true
			continue
		}
		body, err := w.open(location, true).Get(t.Context(), o.Key)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%s\n%s\n", o.Key, body)
	}
	if isParquet {
		as := w.clone()
		as.ok(t, "convert", location)
		b.WriteString(as.tell(t, location))
	}
	return b.String()
}

// needed are the objects that any version which can be read needs, log and lists aside.
func (w *world) needed(t *testing.T, location string) map[string]bool {
	t.Helper()
	ctx, store := t.Context(), w.open(location, true)
	table := delta.New(store)
	needed := map[string]bool{}
	versions, err := table.Versions(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		s, err := table.SnapshotAt(ctx, v)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range savepoint.PinsOf(s) {
			if v == versions[len(versions)-1] {
				needed[fmt.Sprintf("%sv%d.json", savepoint.ChecksumFolder, p.Version)] = true
			}
		}
		for _, a := range s.Files() {
			key, err := action.Key(a.Path)
			if err != nil {
				t.Fatal(err)
			}
			needed[key] = true
			if a.DeletionVector != nil {
				key, _, err := delta.VectorKey(a.DeletionVector)
				if err != nil {
					t.Fatal(err)
				}
				needed[key] = true
			}
		}
		info, err := table.CommitInfo(ctx, v)
		if err != nil {
			continue // an island without its commit
		}
		if p, err := progress.Decode(info); err == nil && p != nil {
			for _, f := range p.Held {
				needed[f.Key] = true
			}
			for _, f := range p.Markers {
				needed[f.Key] = true
			}
			for _, f := range p.Settled {
				needed[f.Key] = true
			}
		}
	}
	return needed
}

// orphans are objects that no version needs, log aside.
func (w *world) orphans(t *testing.T, location string) (list []string) {
	t.Helper()
	needed := w.needed(t, location)
	for o, err := range w.open(location, true).List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		isLog := strings.HasPrefix(o.Key, "_delta_log/") && !strings.HasPrefix(o.Key, "_delta_log/_gscd/")
		isCopy := strings.HasPrefix(o.Key, savepoint.BackupFolder) || strings.HasPrefix(o.Key, savepoint.FileListFolder) || strings.HasPrefix(o.Key, "_change_data/")
		if !needed[o.Key] && !isLog && !isCopy {
			list = append(list, o.Key)
		}
	}
	return list
}

func asJSON(t *testing.T, v ...any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
