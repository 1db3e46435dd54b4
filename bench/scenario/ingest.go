package scenario

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/bench"
	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/counting"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/server"
	"github.com/gscd-io/gscd/snapshotter"
)

// calendar is that of all tables: days of UTC.
func calendar(s *Spec) (*snapshotter.Calendar, error) {
	return snapshotter.NewCalendar("day", "UTC", s.Cutover)
}

// makeTable makes the table of the Spec with its rows; without rows there is none at first.
func makeTable(ctx context.Context, s *Spec, env Env) error {
	if s.Params.Rows == 0 {
		return nil
	}
	store, err := env.Open(ctx, s.Table)
	if err != nil {
		return err
	}
	cal, err := calendar(s)
	if err != nil {
		return err
	}
	shape := bench.Shape{Rows: s.Params.Rows, Columns: s.Params.Columns, Begin: s.Params.Start(), Topic: s.Topic, Partitions: s.Partitions}
	return shape.Make(ctx, store, cal)
}

// laneOptions are those of `gscd ingest`, with a clock behind the last event.
func laneOptions(s *Spec, store objstore.Store, cal *snapshotter.Calendar) ingest.Options {
	now := time.UnixMilli(s.Params.Time(max(0, s.events()-1))).Add(time.Hour)
	return ingest.Options{
		Name: "orders", Store: store, Calendar: cal, Key: []string{"id"}, UntilEnd: true, Backup: true,
		BatchRows: s.Batch, Decoders: s.Decoders, Decode: decodeOptions(s),
		Columns: bench.ColumnTypes(s.Params.Columns), Now: func() time.Time { return now },
	}
}

// decodeOptions declare the columns, as a configuration does.
func decodeOptions(s *Spec) decode.Options {
	types := map[string]decode.ColumnSpec{}
	for name, t := range bench.ColumnTypes(s.Params.Columns) {
		types[name] = decode.ColumnSpec{Type: t}
	}
	return decode.Options{KeyColumns: []string{"id"}, Columns: types}
}

// runIngest ingests all events into the table; the clock starts when its index stands.
func runIngest(ctx context.Context, s *Spec, env Env, r *Result) error {
	store, counted, err := openCounted(ctx, s, env)
	if err != nil {
		return err
	}
	cal, err := calendar(s)
	if err != nil {
		return err
	}
	m := &meter{}
	src, err := openSource(s, m)
	if err != nil {
		return err
	}
	defer src.Close()
	o := laneOptions(s, counted, cal)
	if r.FirstVersion, err = newestVersion(ctx, store); err != nil {
		return err
	}
	if err := runLane(ctx, o, startedAt(src, func() { counted.Reset(); m.begin() }), nil); err != nil {
		return err
	}
	m.end(r)
	if err := ctx.Err(); err != nil {
		return err
	}
	r.Done = s.events()
	r.count(counted)
	return nil
}

// runLane runs a table as `gscd ingest` does, alone in its process. seen may be nil.
func runLane(ctx context.Context, o ingest.Options, src ingest.Source, seen *watch) error {
	spec := server.Spec{Name: o.Name, Address: o.Store.String(), Ends: o.UntilEnd}
	spec.Open = func(_ context.Context, with server.Shared) (server.Runner, error) {
		o.Budget, o.Gate, o.Observer, o.Store = with.Budget, with.Gate, with.Observer, with.Count(o.Store)
		if seen != nil {
			seen.Observer = with.Observer
			o.Observer = seen
		}
		lane, err := ingest.New(o, src)
		return runner{lane}, err
	}
	return server.New(server.Options{Log: zap.NewNop()}).Run(ctx, []server.Spec{spec})
}

// runner is a lane whose source somebody else closes.
type runner struct{ *ingest.Lane }

// Close implements server.Runner.
func (runner) Close() error { return nil }

// openCounted opens the table's store, and gives it with a count.
func openCounted(ctx context.Context, s *Spec, env Env) (objstore.Store, *counting.Store, error) {
	store, err := env.Open(ctx, s.Table)
	if err != nil {
		return nil, nil, err
	}
	return store, counting.New(store), nil
}

// count takes over what a store has counted.
func (r *Result) count(c *counting.Store) {
	for _, n := range []counting.Counts{c.Log(), c.Data()} {
		r.Requests.Get += n.Gets
		r.Requests.Head += n.Heads
		r.Requests.Put += n.Puts
		r.Requests.PutIfAbsent += n.ConditionalPuts
		r.Requests.Delete += n.Deletes
		r.Requests.List += n.Lists
		r.BytesRead += n.Read
		r.BytesWritten += n.Written
	}
}

// newestVersion is the table's, -1 where there is none.
func newestVersion(ctx context.Context, store objstore.Store) (int64, error) {
	table, err := savepoint.OpenTable(ctx, store)
	if errors.Is(err, delta.ErrNotATable) {
		return -1, nil
	}
	if err != nil {
		return 0, err
	}
	snap, err := table.Snapshot(ctx)
	if err != nil {
		return 0, err
	}
	return snap.Version(), nil
}

// verifyIngest compares the table with the model of the workload, and reads from its log
// what batches have added.
func verifyIngest(ctx context.Context, s *Spec, env Env, r *Result) error {
	store, err := env.Open(ctx, s.Table)
	if err != nil {
		return err
	}
	table, err := savepoint.OpenTable(ctx, store)
	if err != nil {
		return err
	}
	snap, err := table.Snapshot(ctx)
	if err != nil {
		return err
	}
	p, err := savepoint.ProgressOf(ctx, table, snap)
	if err != nil {
		return err
	}
	if t := p.Totals; t.Taken != s.events() || t.DeadLetters != 0 || t.Missing() != 0 {
		return fmt.Errorf("the table has taken %d records, of which %d are dead letters and %d have no fate; the workload has %d", t.Taken, t.DeadLetters, t.Missing(), s.events())
	}
	if err := readCommits(ctx, store, snap, r); err != nil {
		return err
	}
	return checkRows(ctx, s, store, snap, s.events(), r)
}

// checkRows compares a version with the model after so many events.
func checkRows(ctx context.Context, s *Spec, store objstore.Store, at *delta.Snapshot, events int64, r *Result) error {
	model, err := bench.NewModel(s.Params, events)
	if err != nil {
		return err
	}
	got, err := model.Check(ctx, store, at)
	if err != nil {
		return fmt.Errorf("the rows of version %d are wrong: %w", at.Version(), err)
	}
	r.Rows, r.Checksum, r.Checked = got.Rows, got.Sum, true
	return nil
}

// readCommits counts the commits behind FirstVersion, and what batches have added: the data
// files that a commit of a batch names first. It lists what is stored.
func readCommits(ctx context.Context, store objstore.Store, snap *delta.Snapshot, r *Result) error {
	r.Files = snap.NumFiles()
	r.BytesStored = 0
	for o, err := range store.List(ctx, "", "") {
		if err != nil {
			return err
		}
		r.BytesStored += o.Size
	}
	seen := map[string]bool{}
	r.Commits, r.Seals, r.OwnBytes = 0, 0, 0
	for v := int64(0); v <= snap.Version(); v++ {
		data, err := store.Get(ctx, fmt.Sprintf("_delta_log/%020d.json", v))
		if errors.Is(err, objstore.ErrNotExist) {
			continue // cleaned away behind a checkpoint
		}
		if err != nil {
			return err
		}
		err = r.readCommit(data, v > r.FirstVersion, seen)
		if err != nil {
			return fmt.Errorf("version %d: %w", v, err)
		}
	}
	return nil
}

// readCommit adds one commit to the counts, where it is of the run.
func (r *Result) readCommit(data []byte, counts bool, seen map[string]bool) error {
	var own int64
	kind := ""
	decoder := json.NewDecoder(bytes.NewReader(data))
	for decoder.More() {
		var line struct {
			Add *struct {
				Path       string
				Size       int64
				DataChange bool
			}
			CommitInfo map[string]json.RawMessage
		}
		if err := decoder.Decode(&line); err != nil {
			return err
		}
		if line.Add != nil && !seen[line.Add.Path] {
			seen[line.Add.Path] = true
			if line.Add.DataChange {
				own += line.Add.Size
			}
		}
		if line.CommitInfo != nil {
			var parameters struct{ Kind string }
			if raw := line.CommitInfo["operationParameters"]; raw != nil {
				if err := json.Unmarshal(raw, &parameters); err != nil {
					return err
				}
			}
			kind = parameters.Kind
		}
	}
	if !counts {
		return nil
	}
	r.Commits++
	if kind == string(progress.SealKind) {
		r.Seals++
	}
	r.OwnBytes += own
	return nil
}
