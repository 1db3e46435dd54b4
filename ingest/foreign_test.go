package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/upsert"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// parts is a Source of some partitions whose records are all there.
type parts struct {
	logs   [][]*change.Record
	next   []int64
	paused []bool
}

func (p *parts) id(i int) change.PartitionID {
	return change.PartitionID{Topic: "t", Partition: int32(i)}
}

func (p *parts) Partitions(context.Context) (out []change.PartitionState, _ time.Time, _ error) {
	for i, log := range p.logs {
		out = append(out, change.PartitionState{ID: p.id(i), End: int64(len(log))})
	}
	return out, time.Now(), nil
}

func (p *parts) Assign(_ context.Context, at map[change.PartitionID]int64) error {
	p.next, p.paused = make([]int64, len(p.logs)), make([]bool, len(p.logs))
	for id, offset := range at {
		p.next[id.Partition] = offset
	}
	return nil
}

func (p *parts) Poll(context.Context, int) (out []change.Block, _ error) {
	for i, log := range p.logs {
		if n := p.next[i]; !p.paused[i] && n < int64(len(log)) {
			out = append(out, change.Block{ID: p.id(i), Records: log[n : n+1], Next: n + 1})
			p.next[i]++
		}
	}
	return out, nil
}

func (p *parts) Pause(ids ...change.PartitionID) {
	for _, id := range ids {
		p.paused[id.Partition] = true
	}
}

func (p *parts) Resume(ids ...change.PartitionID) {
	for _, id := range ids {
		p.paused[id.Partition] = false
	}
}

// put appends an event; at is a day and hour of July 2022, "16T08".
func (p *parts) put(partition int, op string, id int, v, at string, pos int) {
	when, err := time.Parse("2006-01-02T15", "2022-07-"+at)
	if err != nil {
		panic(err)
	}
	for len(p.logs) <= partition {
		p.logs = append(p.logs, nil)
	}
	image := fmt.Sprintf(`{"id":%d,"v":%q}`, id, v)
	before, after := "null", image
	if op == "d" {
		before, after = image, "null"
	}
	ms := when.UnixMilli()
	p.logs[partition] = append(p.logs[partition], &change.Record{
		Topic: "t", Partition: int32(partition), Offset: int64(len(p.logs[partition])), Timestamp: ms, Key: fmt.Appendf(nil, `{"id":%d}`, id),
		Value: fmt.Appendf(nil, `{"op":%q,"before":%s,"after":%s,"source":{"name":"s","server_id":1,"file":"b.000001","pos":%d,"row":0,"ts_ms":%d,"db":"d","table":"t"},"ts_ms":%d}`,
			op, before, after, pos, ms, ms),
	})
}

// upTo gives what has arrived when each partition has so many records.
func (p *parts) upTo(n ...int) *parts {
	out := &parts{}
	for i, log := range p.logs {
		out.logs = append(out.logs, log[:min(n[i], len(log))])
	}
	return out
}

// hooked calls before in front of each write of a commit.
type hooked struct {
	objstore.Store
	before func(version int64)
}

func (h *hooked) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	if f := deltalog.ParseName(strings.TrimPrefix(key, deltalog.Dir)); f.Kind == deltalog.CommitFile && h.before != nil {
		h.before(f.Version)
	}
	return h.Store.PutIfAbsent(ctx, key, data)
}

// shared is a table that gscd and another engine write to.
type shared struct {
	t     *testing.T
	store objstore.Store
	cal   *snapshotter.Calendar
	table *delta.Table // as the other engine has it
	lane  *ingest.Lane
	o     func(*ingest.Options)
}

func newShared(t *testing.T) *shared {
	cal, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		t.Fatal(err)
	}
	s := &shared{t: t, store: mem.New(), cal: cal}
	s.table = delta.New(s.store, delta.WithEngineInfo("other/1"))
	return s
}

// run ingests what has arrived by a clock, in a process of its own.
func (s *shared) run(src *parts, clock string, before func(version int64)) error {
	when, err := time.Parse("2006-01-02T15:04", "2022-07-"+clock)
	if err != nil {
		s.t.Fatal(err)
	}
	o := ingest.Options{
		Name: "t", Store: &hooked{s.store, before}, DeadLetterStore: mem.New(), Calendar: s.cal, Key: []string{"id"},
		UntilEnd: true, Now: func() time.Time { return when },
	}
	if s.o != nil {
		s.o(&o)
	}
	if s.lane, err = ingest.New(o, src); err != nil {
		s.t.Fatal(err)
	}
	return s.lane.Run(context.Background())
}

func (s *shared) mustRun(src *parts, clock string) {
	s.t.Helper()
	if err := s.run(src, clock, nil); err != nil {
		s.t.Fatal(err)
	}
}

func (s *shared) snapshot() *delta.Snapshot {
	s.t.Helper()
	snap, err := s.table.Snapshot(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	return snap
}

func (s *shared) progress() *progress.Progress {
	s.t.Helper()
	p, err := savepoint.ProgressOf(context.Background(), s.table, s.snapshot())
	if err != nil {
		s.t.Fatal(err)
	}
	return p
}

// rows gives a version's rows, -1 for the newest, as "1=a 2=b".
func (s *shared) rows(version int64) string {
	s.t.Helper()
	snap := s.snapshot()
	if version >= 0 {
		var err error
		if snap, err = s.table.SnapshotAt(context.Background(), version); err != nil {
			s.t.Fatal(err)
		}
	}
	reading, err := scan.New(s.store, snap, scan.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	var rows []string
	for row, err := range reading.Rows(context.Background()) {
		if err != nil {
			s.t.Fatal(err)
		}
		text := fmt.Sprintf("%d=%s", row[0].I, row[1].S)
		for _, cell := range row[2:] {
			text += "," + cell.S
		}
		rows = append(rows, text)
	}
	slices.Sort(rows)
	return strings.Join(rows, " ")
}

// asOf gives the rows of a sealed label.
func (s *shared) asOf(label string) string {
	s.t.Helper()
	m, err := savepoint.Read(context.Background(), s.table, s.snapshot())
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := m.Resolve(label, true)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.rows(r.Entry.Version)
}

func (s *shared) evidence(label string) *progress.Evidence {
	s.t.Helper()
	ctx := context.Background()
	m, err := savepoint.Read(ctx, s.table, s.snapshot())
	if err != nil {
		s.t.Fatal(err)
	}
	r, err := m.Resolve(label, true)
	if err != nil {
		s.t.Fatal(err)
	}
	ev, err := m.Evidence(ctx, s.table, r.Entry)
	if err != nil {
		s.t.Fatal(err)
	}
	return ev
}

// commit commits as the other engine, under an operation's name.
func (s *shared) commit(operation string, parameters map[string]string, change func(snap *delta.Snapshot, tx *delta.Transaction)) int64 {
	s.t.Helper()
	snap := s.snapshot()
	tx := delta.NewTransaction(s.table, snap)
	tx.SetCommitInfo(operation, parameters, nil, nil)
	change(snap, tx)
	out, err := tx.Commit(context.Background())
	if err != nil || !out.Committed {
		s.t.Fatalf("%s: %+v, %v", operation, out, err)
	}
	return out.Version
}

// write changes rows by key, "" deletes one, in files without hidden columns.
func (s *shared) write(operation string, rewrite bool, rows map[int]string) int64 {
	return s.commit(operation, nil, func(snap *delta.Snapshot, tx *delta.Transaction) {
		w := s.writer(snap, rewrite)
		b := &upsert.Batch{Schema: snap.Schema()}
		for _, id := range slices.Sorted(maps.Keys(rows)) {
			key := string(schema.IntValue(int64(id)).AppendEncoded(nil))
			if ref := w.Index().Get(key); ref != 0 {
				b.Replaced = append(b.Replaced, ref)
			}
			if rows[id] == "" {
				b.Removed = append(b.Removed, key)
				continue
			}
			row := make([]schema.Value, len(snap.Schema().Fields))
			row[0], row[1] = schema.IntValue(int64(id)), schema.Value{Kind: schema.String, S: rows[id]}
			b.Rows, b.Keys, b.Tags = append(b.Rows, row), append(b.Keys, key), append(b.Tags, 0)
		}
		if _, err := w.Write(context.Background(), b, tx); err != nil {
			s.t.Fatal(err)
		}
	})
}

func (s *shared) writer(snap *delta.Snapshot, rewrite bool) *upsert.Writer {
	s.t.Helper()
	w, err := upsert.Open(context.Background(), s.store, snap, upsert.Options{Key: []string{"id"}, CopyOnWrite: rewrite})
	if err != nil {
		s.t.Fatal(err)
	}
	return w
}

// optimize puts all rows into one file.
func (s *shared) optimize() int64 {
	return s.commit("OPTIMIZE", nil, func(snap *delta.Snapshot, tx *delta.Transaction) {
		w := s.writer(snap, true)
		var ids []uint32
		for _, f := range w.Files() {
			ids = append(ids, f.Segment)
		}
		if _, err := w.Join(context.Background(), ids, snap.Schema(), nil, nil, tx); err != nil {
			s.t.Fatal(err)
		}
	})
}

func (s *shared) setMetadata(operation string, change func(m *action.Metadata)) int64 {
	return s.commit(operation, nil, func(snap *delta.Snapshot, tx *delta.Transaction) {
		m := *snap.Metadata()
		m.Configuration = maps.Clone(m.Configuration)
		change(&m)
		tx.SetMetadata(m)
	})
}

func (s *shared) setColumns(operation string, change func([]schema.Field) []schema.Field) int64 {
	fields := change(slices.Clone(s.snapshot().Schema().Fields))
	columns, err := schema.New(fields...)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.setMetadata(operation, func(m *action.Metadata) { m.SchemaString = columns.String() })
}

func (s *shared) restore(operation string, version int64) int64 {
	return s.commit(operation, nil, func(snap *delta.Snapshot, tx *delta.Transaction) {
		target, err := s.table.SnapshotAt(context.Background(), version)
		if err != nil {
			s.t.Fatal(err)
		}
		adds, removes := delta.DiffForRestore(snap, target, time.Now())
		for _, a := range adds {
			tx.Add(a)
		}
		for _, r := range removes {
			tx.Remove(r)
		}
		tx.SetMetadata(*target.Metadata())
	})
}

// overwrite replaces every row.
func (s *shared) overwrite(operation, mode string, change func(m *action.Metadata)) int64 {
	return s.commit(operation, map[string]string{"mode": mode}, func(snap *delta.Snapshot, tx *delta.Transaction) {
		w := s.writer(snap, true)
		b := &upsert.Batch{Schema: snap.Schema(), Rows: [][]schema.Value{{schema.IntValue(100), {Kind: schema.String, S: "x"}}}, Keys: []string{"k"}, Tags: []uint16{0}}
		if _, err := w.Write(context.Background(), b, tx); err != nil {
			s.t.Fatal(err)
		}
		for _, f := range snap.Files() {
			tx.Remove(delta.RemoveOf(f, time.Now(), true))
		}
		if change != nil {
			m := *snap.Metadata()
			m.Configuration = maps.Clone(m.Configuration)
			change(&m)
			tx.SetMetadata(m)
		}
	})
}

// story16 is two days on two partitions: keys 1 and 3 on the second, 2 and 4 on the
// first, which is far ahead in the log.
func story16() *parts {
	src := &parts{}
	src.put(1, "c", 1, "a", "16T08", 10)
	src.put(0, "c", 2, "b", "16T09", 20)
	src.put(1, "c", 3, "c", "16T10", 30)
	src.put(0, "u", 2, "bb", "17T08", 900) // here the other engine comes
	src.put(1, "u", 1, "aa", "17T07", 40)
	src.put(0, "c", 4, "d", "17T09", 910)
	src.put(1, "d", 3, "c", "17T10", 50)
	return src
}

const (
	day16 = "1=a 2=b 3=c"
	day17 = "1=aa 2=bb 4=d"
)

func TestForeignCommits(t *testing.T) {
	column := func(name string, nullable bool) func([]schema.Field) []schema.Field {
		return func(f []schema.Field) []schema.Field {
			return append(f, schema.Field{Name: name, Type: schema.Of(schema.StringType), Nullable: nullable})
		}
	}
	for _, c := range []struct {
		name string
		do   func(s *shared)
		// stops is a part of the error; else rows are those of the 17th, and foreign
		// the commits that its seal lists.
		stops   string
		rows    string
		foreign string
		// repair is what brings the table back into step, "rollback" or "restore".
		repair string
	}{
		{name: "optimize", do: func(s *shared) { s.optimize() }, rows: day17},
		{name: "comment", do: func(s *shared) {
			s.setMetadata("SET TBLPROPERTIES", func(m *action.Metadata) { m.Configuration["comment"] = "x" })
		}, rows: day17},
		{name: "optimize and comment", do: func(s *shared) {
			s.setMetadata("CHANGE COLUMN", func(m *action.Metadata) { m.Description = "x" })
			s.optimize()
			s.optimize()
		}, rows: day17},
		{name: "append", do: func(s *shared) { s.write("WRITE", false, map[int]string{50: "f"}) }, rows: day17 + " 50=f", foreign: "WRITE other/1 +1 -0"},
		{name: "append of a key that the topic brings", do: func(s *shared) { s.write("WRITE", false, map[int]string{4: "f"}) }, rows: day17, foreign: "WRITE other/1 +1 -0"},
		{name: "delete by vector", do: func(s *shared) { s.write("DELETE", false, map[int]string{1: ""}) }, rows: day17, foreign: "DELETE other/1 +0 -1"},
		{name: "delete by rewrite", do: func(s *shared) { s.write("DELETE", true, map[int]string{2: ""}) }, rows: "1=aa 4=d", foreign: "DELETE other/1"},
		{name: "update", do: func(s *shared) { s.write("UPDATE", true, map[int]string{1: "f", 2: "g"}) }, rows: "1=aa 2=g 4=d", foreign: "UPDATE other/1"},
		{name: "merge, then optimize", do: func(s *shared) {
			s.write("MERGE", true, map[int]string{2: "g", 60: "n"})
			s.optimize()
		}, rows: "1=aa 2=g 4=d 60=n", foreign: "MERGE other/1"},
		{name: "a layout change that loses a row", do: func(s *shared) {
			s.commit("OPTIMIZE", nil, func(snap *delta.Snapshot, tx *delta.Transaction) {
				tx.Remove(delta.RemoveOf(snap.Files()[0], time.Now(), false))
			})
		}, rows: "1=aa 2=bb 4=d", foreign: "OPTIMIZE other/1"},
		{name: "key twice", do: func(s *shared) {
			s.commit("WRITE", nil, func(snap *delta.Snapshot, tx *delta.Transaction) {
				w := s.writer(snap, false)
				b := &upsert.Batch{Schema: snap.Schema(), Rows: [][]schema.Value{{schema.IntValue(2), {Kind: schema.String, S: "x"}}}, Keys: []string{"k"}, Tags: []uint16{0}}
				if _, err := w.Write(context.Background(), b, tx); err != nil {
					s.t.Fatal(err)
				}
			})
		}, stops: "a key is live twice: key id=2, in part-", repair: "rollback"},
		{name: "add column", do: func(s *shared) { s.setColumns("ADD COLUMNS", column("note", true)) }, rows: "1=aa, 2=bb, 4=d,"},
		{name: "add column that takes no NULL", do: func(s *shared) { s.setColumns("ADD COLUMNS", column("note", false)) }, stops: "the column note takes no NULL", repair: "restore"},
		{name: "add a column of a name of gscd's", do: func(s *shared) { s.setColumns("ADD COLUMNS", column("__gscd_pos", true)) }, stops: "the column __gscd_pos is gscd's own", repair: "restore"},
		{name: "drop column", do: func(s *shared) {
			s.setColumns("DROP COLUMNS", func(f []schema.Field) []schema.Field { return f[:1] })
		}, stops: "the column v is gone", repair: "rollback"},
		{name: "rename column", do: func(s *shared) {
			s.setColumns("RENAME COLUMN", func(f []schema.Field) []schema.Field { f[1].Name = "w"; return f })
		}, stops: "the column v is gone", repair: "restore"},
		{name: "other type", do: func(s *shared) {
			s.setColumns("CHANGE COLUMN", func(f []schema.Field) []schema.Field { f[0].Type = schema.Of(schema.DoubleType); return f })
		}, stops: "the column id was long and is double", repair: "rollback"},
		{name: "deletion vectors off", do: func(s *shared) {
			s.setMetadata("SET TBLPROPERTIES", func(m *action.Metadata) { m.Configuration[delta.PropertyDeletionVectors] = "false" })
		}, stops: "delta.enableDeletionVectors is no longer true", repair: "vectors"},
		{name: "txn retention", do: func(s *shared) {
			s.setMetadata("SET TBLPROPERTIES", func(m *action.Metadata) { m.Configuration[delta.PropertyTxnRetention] = "interval 1 day" })
		}, stops: "UNSET TBLPROPERTIES ('delta.setTransactionRetentionDuration')", repair: "restore"},
		{name: "weakened protection", do: func(s *shared) {
			s.setMetadata("SET TBLPROPERTIES", func(m *action.Metadata) {
				m.Configuration[delta.PropertyDeletedFileRetention] = "interval 1 day"
			})
		}, rows: day17},
		{name: "restore to the seal", do: func(s *shared) { s.restore("RESTORE", s.progress().LastSeal) }, stops: "made rows of an older version live again", repair: "rollback"},
		{name: "restore to before the seal", do: func(s *shared) { s.restore("RESTORE", 0) }, stops: "made rows of an older version live again", repair: "restore"},
		{name: "restore under another name", do: func(s *shared) { s.restore("UPDATE", 0) }, stops: "made rows of an older version live again", repair: "rollback"},
		{name: "restore of what gscd has left", do: func(s *shared) {
			last := s.snapshot().Version()
			s.write("UPDATE", true, map[int]string{1: "f", 2: "g"})
			s.restore("RESTORE", last)
		}, rows: day17, foreign: "UPDATE other/1; RESTORE other/1"},
		{name: "overwrite", do: func(s *shared) { s.overwrite("WRITE", "Overwrite", nil) }, stops: "overwrote rows that gscd had written", repair: "rollback"},
		{name: "overwrite without a name", do: func(s *shared) { s.overwrite("", "", nil) }, stops: "overwrote rows that gscd had written", repair: "restore"},
		{name: "replace", do: func(s *shared) {
			s.overwrite("CREATE OR REPLACE TABLE AS SELECT", "", func(m *action.Metadata) { m.Configuration = map[string]string{delta.PropertyDeletionVectors: "true"} })
		}, stops: "its properties gscd.* are gone", repair: "replaced"},
		{name: "properties gone", do: func(s *shared) {
			s.setMetadata("UNSET TBLPROPERTIES", func(m *action.Metadata) { delete(m.Configuration, savepoint.PropertyFormatVersion) })
		}, stops: "its properties gscd.* are gone", repair: "replaced"},
	} {
		for _, running := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, running %v", c.name, running), func(t *testing.T) {
				s := newShared(t)
				src := story16()
				s.mustRun(src.upTo(1, 2), "17T07:00") // the 16th is sealed
				s.mustRun(src.upTo(2, 2), "17T08:30")
				var err error
				if running {
					done := false
					err = s.run(src, "18T01:00", func(int64) {
						if !done {
							done = true
							c.do(s)
						}
					})
				} else {
					c.do(s)
					err = s.run(src, "18T01:00", nil)
				}
				if c.stops == "" {
					if err != nil {
						t.Fatal(err)
					}
				} else {
					if err == nil || !strings.Contains(err.Error(), c.stops) {
						t.Fatalf("error %v, want %q", err, c.stops)
					}
					if !errors.Is(err, ingest.ErrForeignCommit) && !errors.Is(err, upsert.ErrDuplicateKey) {
						t.Errorf("%v wraps no sentinel", err)
					}
					s.repair(c.repair, err)
					s.mustRun(src, "18T01:00")
					c.rows = day17
				}
				if got := s.asOf("2022-07-16"); got != day16 {
					t.Errorf("the 16th is %s, want %s", got, day16)
				}
				if got := s.asOf("2022-07-17"); strings.TrimRight(got, ",") != strings.TrimRight(c.rows, ",") {
					t.Errorf("the 17th is %s, want %s", got, c.rows)
				}
				ev := s.evidence("2022-07-17")
				var foreign []string
				for _, f := range ev.Foreign {
					foreign = append(foreign, fmt.Sprintf("%s %s +%d -%d", f.Operation, f.Engine, f.RowsAdded, f.RowsRemoved))
				}
				text := strings.Join(foreign, "; ")
				for _, part := range strings.Split(c.foreign, "; ") {
					if !strings.Contains(text, part) {
						t.Errorf("the seal lists %q, want %q", text, c.foreign)
					}
				}
				if c.repair == "restore" {
					foreign, text, ev.Attributes, ev.Counts.Foreign = nil, "", nil, 0 // what was undone may be listed
				}
				if marked := slices.Contains(ev.Attributes, "foreign"); marked != (c.foreign != "") || (text != "") != marked || int64(len(foreign)) != ev.Counts.Foreign {
					t.Errorf("attributes %v, list %q, count %d", ev.Attributes, text, ev.Counts.Foreign)
				}
				if got := int64(len(strings.Fields(s.asOf("2022-07-17")))); got != ev.Rows {
					t.Errorf("the evidence says %d rows, there are %d", ev.Rows, got)
				}
				s.consistent()
			})
		}
	}
}

// repair does what the error says.
func (s *shared) repair(how string, err error) {
	s.t.Helper()
	ctx := context.Background()
	rollback := func() {
		s.t.Helper()
		if _, err := savepoint.Rollback(ctx, s.table, "2022-07-16", savepoint.RollbackOptions{Now: time.Now()}); err != nil {
			s.t.Fatal(err)
		}
	}
	check := func() {
		s.t.Helper()
		if _, err := savepoint.Check(ctx, s.table, savepoint.CheckOptions{Repair: true, Now: time.Now()}); err != nil {
			s.t.Fatal(err)
		}
	}
	says := map[string]string{
		"rollback": "gscd rollback", "restore": "restore version", "vectors": "gscd check --repair", "replaced": "gscd check --repair",
	}[how]
	if !strings.Contains(err.Error(), says) && !strings.Contains(err.Error(), "UNSET") {
		s.t.Errorf("the error does not say %q: %v", says, err)
	}
	switch how {
	case "rollback":
		rollback()
	case "restore":
		txn, _ := s.snapshot().Txn(progress.AppID)
		s.restore("RESTORE", txn.Version)
	case "vectors":
		if strings.Contains(err.Error(), "has a deletion vector") {
			check()
			return
		}
		s.setMetadata("SET TBLPROPERTIES", func(m *action.Metadata) { m.Configuration[delta.PropertyDeletionVectors] = "true" })
	case "replaced":
		check()
		rollback()
	}
}

// consistent compares the table with its own log, and the key index with the files.
func (s *shared) consistent() {
	s.t.Helper()
	ctx := context.Background()
	report, err := savepoint.Check(ctx, s.table, savepoint.CheckOptions{Deep: true, Now: time.Now()})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range report.Faults {
		s.t.Errorf("check: %+v", f)
	}
	now, anew, err := s.lane.Indexes()
	if err != nil {
		s.t.Fatal(err)
	}
	if now.Index().Len() != anew.Index().Len() {
		s.t.Errorf("the key index has %d keys, the files %d", now.Index().Len(), anew.Index().Len())
	}
}

// TestLostPositions holds rule 3.9 for rows whose hidden columns another engine has
// dropped: they count as being at the highest position that their partition had in
// gscd's last commit before, in the process that sees it and in later ones.
func TestLostPositions(t *testing.T) {
	for _, c := range []struct {
		name string
		key  int
		// The change comes on partition 1 of a row that partition 0 has brought last.
		pos  int
		want string
	}{
		{"older than the row's partition was", 2, 45, "1=a 2=b 3=c 4=d"},
		{"newer than the row's partition was, older than it is", 2, 1200, "1=a 2=moved 3=c 4=d"},
		{"newer", 2, 2000, "1=a 2=moved 3=c 4=d"},
		{"of its own partition, which is behind", 1, 46, "1=moved 2=b 3=c 4=d"},
	} {
		for _, when := range []string{"running", "restarted", "restarted often", "joined", "copy on write"} {
			t.Run(c.name+", "+when, func(t *testing.T) {
				s := newShared(t)
				if when == "copy on write" {
					s.o = func(o *ingest.Options) { o.CopyOnWrite = true }
				}
				src := &parts{}
				src.put(1, "c", 1, "a", "16T08", 10)
				src.put(0, "c", 2, "b", "16T09", 900)
				src.put(1, "c", 3, "c", "16T10", 30)
				src.put(0, "c", 5, "e", "16T11", 1000) // partition 0 is at 1000 when the rows lose their positions
				s.mustRun(src.upTo(2, 2), "16T12:00")
				src.put(0, "c", 4, "d", "16T12", 1500)
				src.put(0, "d", 5, "e", "16T12", 1510)
				if when == "running" {
					src.put(1, "u", c.key, "moved", "16T13", c.pos)
					done := false
					if err := s.run(src, "17T01:00", func(int64) {
						if !done {
							done = true
							s.optimize()
						}
					}); err != nil {
						t.Fatal(err)
					}
				} else {
					s.optimize()
					s.mustRun(src, "16T12:30")
					if when == "restarted often" {
						s.optimize() // what was lost stays lost, and comes to lie in another file
						s.mustRun(src, "16T12:40")
					}
					if when == "joined" || when == "copy on write" {
						for i := range 6 { // small files, which a seal joins, or rewrites
							src.put(1, "c", 10+i, "x", "16T12", 31+i)
							s.mustRun(src, "16T12:50")
						}
						s.mustRun(src, "17T01:00")
						src.put(1, "u", c.key, "moved", "17T02", c.pos)
					} else {
						src.put(1, "u", c.key, "moved", "16T13", c.pos)
					}
					s.mustRun(src, "17T01:00")
				}
				got := s.rows(-1)
				got = strings.Join(slices.DeleteFunc(strings.Fields(got), func(r string) bool { return strings.HasSuffix(r, "=x") }), " ")
				want := c.want
				if when == "restarted often" && c.pos == 1200 {
					want = "1=a 2=b 3=c 4=d" // the later rewrite counts: partition 0 was at 1510
				}
				if got != want {
					t.Errorf("rows %s, want %s\n%+v", got, want, s.progress().Rewritten)
				}
				s.consistent()
			})
		}
	}
}

// TestLostPositionsOfHeld applies a change that was held when another engine dropped
// the positions: it is newer than its key's row, though older than the partition.
func TestLostPositionsOfHeld(t *testing.T) {
	s := newShared(t)
	src := &parts{}
	src.put(0, "c", 1, "a", "16T08", 10)
	src.put(0, "u", 1, "held", "17T00", 20)
	src.put(0, "c", 2, "b", "16T23", 30)
	s.mustRun(src, "17T00:01")
	if got := s.rows(-1); got != "1=a 2=b" {
		t.Fatalf("rows %s before the seal", got)
	}
	s.optimize()
	s.mustRun(src, "17T01:00")
	if got := s.rows(-1); got != "1=held 2=b" {
		t.Errorf("rows %s: the held change is lost", got)
	}
}

// TestConflictsAreBounded lets another engine commit before each commit of gscd's: a
// few are followed with growing waits, in the end the table stops.
func TestConflictsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShared(t)
		src := story16()
		s.mustRun(src.upTo(2, 2), "17T08:30")
		begun, n := time.Now(), 0
		err := s.run(src, "18T01:00", func(int64) {
			n++
			s.setMetadata("SET TBLPROPERTIES", func(m *action.Metadata) { m.Configuration["n"] = fmt.Sprint(n) })
		})
		if !errors.Is(err, ingest.ErrContended) || n != 31 || time.Since(begun) < 20*time.Second || time.Since(begun) > 5*time.Minute {
			t.Errorf("%d tries in %s: %v", n, time.Since(begun), err)
		}
		n = 0
		if err := s.run(src, "18T01:00", func(int64) {
			if n++; n%5 != 0 {
				s.setMetadata("SET TBLPROPERTIES", func(m *action.Metadata) { m.Configuration["n"] = fmt.Sprint(n) })
			}
		}); err != nil {
			t.Errorf("every fifth try gets through: %v", err)
		}
	})
}
