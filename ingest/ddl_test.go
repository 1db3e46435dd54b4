package ingest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/ddl"
	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/savepoint"
)

// ddlSource is a server with one table, whose statements and rows go to the partitions
// of a topic as gscd capture writes them: a row to that of its key, a statement to all.
type ddlSource struct {
	*parts
	catalog *ddl.Catalog
	rows    map[int]map[int64]string // by key and a column's identity
	now     time.Time
	pos     int
	values  int
	bare    bool // its records have no positions
	filled  bool // no cell is NULL
	flag    string
	// asOf is the table at the end of each day: rows by name, and the names.
	asOf    map[string]map[int]map[string]string
	columns map[string][]string
}

var ddlSession = ddl.Session{Database: "d", MariaDB: true}

func newDDLSource(t *testing.T, partitions int) *ddlSource {
	s := &ddlSource{
		parts: &parts{logs: make([][]*change.Record, partitions)}, catalog: ddl.NewCatalog(), rows: map[int]map[int64]string{},
		now: time.Date(2022, 7, 16, 1, 0, 0, 0, time.UTC), pos: 100, asOf: map[string]map[int]map[string]string{}, columns: map[string][]string{},
	}
	if _, err := s.catalog.Apply("CREATE TABLE t (id int primary key, a varchar(20), b varchar(20), c varchar(20))", ddlSession); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *ddlSource) put(partition int, key string, value map[string]any) {
	if s.flag == "" { // the reads of a load have one position
		s.pos += 10
	}
	maps.Copy(value, map[string]any{"v": 1, "name": "s", "server": 1, "file": "bin.000001", "pos": s.pos, "row": 0, "ts_us": s.now.UnixMicro()})
	if s.flag != "" {
		value[s.flag] = true
	}
	if s.bare {
		value["file"] = ""
	}
	for i := range s.logs {
		if partition >= 0 && i != partition {
			continue
		}
		raw, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		s.logs[i] = append(s.logs[i], &change.Record{
			Topic: "t", Partition: int32(i), Offset: int64(len(s.logs[i])), Timestamp: s.now.UnixMilli(), Key: []byte(key), Value: raw,
		})
	}
}

// tick passes time; at the end of a day its state is written down.
func (s *ddlSource) tick(d time.Duration) {
	day := s.now.Format(time.DateOnly)
	s.now = s.now.Add(d)
	if s.now.Format(time.DateOnly) != day {
		s.note(day)
	}
}

func (s *ddlSource) note(day string) {
	rows := map[int]map[string]string{}
	table := s.catalog.Table("d", "t")
	for key, cells := range s.rows {
		row := map[string]string{}
		for _, c := range table.Columns {
			if v, ok := cells[c.ID]; ok {
				row[c.Name] = v
			}
		}
		rows[key] = row
	}
	s.asOf[day] = rows
	s.columns[day] = nil
	for _, c := range table.Columns {
		s.columns[day] = append(s.columns[day], c.Name)
	}
}

func (s *ddlSource) row(op string, key int) {
	table := s.catalog.Table("d", "t")
	value := map[string]any{"op": op, "db": "d", "table": "t", "key": []int{table.Key[0]}}
	var names, types []string
	image := func(cells map[int64]string) []any {
		var list []any
		for i, c := range table.Columns {
			if i == table.Key[0] {
				list = append(list, key)
			} else if v, ok := cells[c.ID]; ok && strings.Contains(c.Type, "char") {
				list = append(list, v)
			} else if ok {
				list = append(list, 7)
			} else {
				list = append(list, nil)
			}
		}
		return list
	}
	for _, c := range table.Columns {
		names, types = append(names, c.Name), append(types, c.Type)
	}
	value["columns"], value["types"] = names, types
	if old := s.rows[key]; old != nil {
		value["before"] = image(old)
	}
	if op == "d" {
		delete(s.rows, key)
	} else {
		cells := map[int64]string{table.Columns[table.Key[0]].ID: fmt.Sprint(key)}
		for i, c := range table.Columns {
			if s.values++; i != table.Key[0] && (s.filled || s.values%7 != 0) {
				cells[c.ID] = fmt.Sprint("v", s.values)
				if !strings.Contains(c.Type, "char") {
					cells[c.ID] = "7"
				}
			}
		}
		s.rows[key] = cells
		value["after"] = image(cells)
	}
	s.put(key%len(s.logs), fmt.Sprintf(`{"table":"d.t","key":{"id":%d}}`, key), value)
}

// run gives a statement to the server, and its outcome for the table to every partition.
func (s *ddlSource) run(t *testing.T, statement string) {
	t.Helper()
	effects, err := s.catalog.Apply(statement, ddlSession)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range ddl.Outcomes(effects) {
		if o.Name.Table == "t" {
			s.put(-1, `{"table":"d.t"}`, map[string]any{"op": "s", "statement": statement, "old": o.Old, "new": o.New, "rows_removed": o.RowsRemoved})
		}
	}
}

// random is something that the source does.
func (s *ddlSource) random(t *testing.T, r *rand.Rand) {
	key := r.IntN(12)
	switch n := r.IntN(20); {
	case n < 12 && s.rows[key] == nil:
		s.row("c", key)
	case n < 12:
		s.row("u", key)
	case n < 14 && s.rows[key] != nil:
		s.row("d", key)
	case n < 16:
		s.tick(time.Duration(r.IntN(300)) * time.Minute)
	case n < 20 && r.IntN(2) == 0:
		table := s.catalog.Table("d", "t")
		var names []string
		for i, c := range table.Columns {
			if i != table.Key[0] {
				names = append(names, c.Name)
			}
		}
		one := names[r.IntN(len(names))]
		fresh := pick(r, "a", "b", "c", "x", "Y")
		taken := slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, fresh) })
		switch k := r.IntN(8); {
		case k == 0 && len(names) > 2:
			s.run(t, "ALTER TABLE t DROP "+one)
		case k == 1 && len(names) > 2:
			s.run(t, fmt.Sprintf("ALTER TABLE t DROP %s, ADD %s varchar(20)", one, one))
		case k == 2 && len(names) > 1 && names[0] != one:
			s.run(t, fmt.Sprintf("ALTER TABLE t CHANGE %s %s varchar(20), CHANGE %s %s varchar(20) FIRST", one, names[0], names[0], one))
		case k == 3 && !taken:
			s.run(t, fmt.Sprintf("ALTER TABLE t ADD %s varchar(20) FIRST", fresh))
		case k == 4 && !taken: // gh-ost
			s.run(t, "CREATE TABLE _t_gho LIKE t")
			s.run(t, fmt.Sprintf("ALTER TABLE _t_gho CHANGE %s %s varchar(30)", one, fresh))
			s.run(t, "RENAME TABLE t TO _t_del, _t_gho TO t")
			s.run(t, "DROP TABLE _t_del")
		case !taken:
			s.run(t, fmt.Sprintf("ALTER TABLE t RENAME COLUMN %s TO %s", one, fresh))
		}
	}
}

// Poll gives what some of the partitions have, a little of each.
type shuffled struct {
	*parts
	r *rand.Rand
}

func (s *shuffled) Poll(context.Context, int) (out []change.Block, _ error) {
	for _, i := range s.r.Perm(len(s.logs)) {
		n, log := s.next[i], s.logs[i]
		if s.paused[i] || n >= int64(len(log)) || len(out) > 0 && s.r.IntN(3) > 0 {
			continue
		}
		most := min(n+1+int64(s.r.IntN(8)), int64(len(log)))
		out = append(out, change.Block{ID: s.id(i), Records: log[n:most], Next: most})
		s.next[i] = most
	}
	return out, nil
}

// failing fails the one or other commit, before or after it was made.
type failing struct {
	objstore.Store
	r *rand.Rand
}

var errKilled = errors.New("killed")

func (f *failing) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	if deltalog.ParseName(strings.TrimPrefix(key, deltalog.Dir)).Kind == deltalog.CommitFile && f.r.IntN(12) == 0 {
		if f.r.IntN(2) == 0 {
			return errKilled
		}
		if err := f.Store.PutIfAbsent(ctx, key, data); err != nil {
			return err
		}
		return errKilled
	}
	return f.Store.PutIfAbsent(ctx, key, data)
}

// Columns follow the source's statements whatever the interleaving of partitions, with
// restarts and kills in between: every sealed day has the rows, and the names, that the
// source had at its end.
func TestFollowDDL(t *testing.T) {
	runs, first := 60, uint64(1)
	if testing.Short() {
		runs = 20
	}
	if v := os.Getenv("GSCD_SEED"); v != "" {
		first, _ = strconv.ParseUint(v, 10, 64)
		runs = 1
	}
	followed := 0
	for seed := first; seed < first+uint64(runs) && !t.Failed(); seed++ {
		followed += followDDL(t, seed)
	}
	if followed == 0 && !t.Failed() {
		t.Error("no statement was followed")
	}
	t.Logf("%d runs, %d statements followed", runs, followed)
}

func followDDL(t *testing.T, seed uint64) (followed int) {
	r := rand.New(rand.NewPCG(seed, 5))
	s := newDDLSource(t, 1+r.IntN(4))
	for i := range s.logs {
		s.row("c", i)
	}
	for range 120 {
		s.random(t, r)
	}
	s.tick(48 * time.Hour)
	for i := range s.logs {
		s.row("c", 100+i) // every partition goes on
	}
	table := newShared(t)
	copyOnWrite := r.IntN(4) == 0
	feed := r.IntN(4) == 0
	attempt := func(n []int, kill bool) error {
		clock := s.now
		for i, log := range s.logs { // nothing is still to come that is older
			if n[i] < len(log) {
				clock = time.UnixMilli(min(clock.UnixMilli(), log[n[i]].Timestamp))
			}
		}
		o := ingest.Options{
			Name: "t", Store: table.store, DeadLetterStore: mem.New(), Calendar: table.cal, Key: []string{"id"}, Format: "gscd-json",
			UntilEnd: true, Now: func() time.Time { return clock }, BatchRows: 1 + r.IntN(20), Decoders: 1, CopyOnWrite: copyOnWrite,
			DriftWait: time.Hour, ChangeData: feed,
		}
		if kill {
			o.Store = &failing{table.store, rand.New(rand.NewPCG(r.Uint64(), 6))} // the source is read beside the commits
		}
		lane, err := ingest.New(o, &shuffled{s.upTo(n...), rand.New(rand.NewPCG(r.Uint64(), 7))})
		if err != nil {
			t.Fatal(err)
		}
		return lane.Run(context.Background())
	}
	n, all := make([]int, len(s.logs)), make([]int, len(s.logs))
	for i := range s.logs {
		all[i] = len(s.logs[i])
	}
	for range r.IntN(8) {
		for i := range n {
			n[i] += r.IntN(all[i]/3 + 2)
			n[i] = min(n[i], all[i])
		}
		if err := attempt(n, true); err != nil && !errors.Is(err, errKilled) {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	if err := attempt(all, false); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if r.IntN(3) == 0 { // back to a day, and on from there
		days := slices.Sorted(maps.Keys(s.asOf))
		m, err := savepoint.Read(context.Background(), table.table, table.snapshot())
		if err != nil {
			t.Fatal(err)
		}
		to := days[r.IntN(len(days))]
		if e, err := m.Resolve(to, true); err == nil && e.Entry.State == savepoint.Sealed {
			if _, err := savepoint.Rollback(context.Background(), delta.New(table.store), to, savepoint.RollbackOptions{Now: time.Now()}); err != nil {
				t.Fatalf("seed %d: roll back to %s: %v", seed, to, err)
			}
			if err := attempt(all, false); err != nil {
				t.Fatalf("seed %d: after the rollback: %v", seed, err)
			}
		}
	}
	s.check(t, table, seed)
	p := table.progress()
	if p.Totals.DeadLetters != 0 || p.Totals.Missing() != 0 {
		t.Errorf("seed %d: %+v", seed, p.Totals)
	}
	return len(p.DDL)
}

// check holds the sealed days against what the source was.
func (s *ddlSource) check(t *testing.T, table *shared, seed uint64) {
	t.Helper()
	ctx := context.Background()
	newest := table.snapshot()
	m, err := savepoint.Read(ctx, table.table, newest)
	if err != nil {
		t.Fatal(err)
	}
	for _, day := range slices.Sorted(maps.Keys(s.asOf)) {
		at, err := m.Resolve(day, true)
		if err != nil {
			t.Errorf("seed %d: %s: %v", seed, day, err)
			continue
		}
		snap, err := table.table.SnapshotAt(ctx, at.Entry.Version)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range snap.Schema().Fields {
			if !slices.Contains(s.columns[day], f.Name) {
				t.Errorf("seed %d: %s has the column %s, and the source had %v", seed, day, f.Name, s.columns[day])
			}
		}
		reading, err := scan.New(table.store, snap, scan.Options{})
		if err != nil {
			t.Fatal(err)
		}
		rows := map[int]map[string]string{}
		for row, err := range reading.Rows(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			cells := map[string]string{}
			for i, f := range snap.Schema().Fields {
				switch {
				case row[i].Kind == schema.Null:
				case row[i].Kind == schema.Int:
					cells[f.Name] = fmt.Sprint(row[i].I)
				default:
					cells[f.Name] = strings.Clone(row[i].S)
				}
			}
			key, _ := strconv.Atoi(cells["id"])
			rows[key] = cells
		}
		if got, want := fmt.Sprint(rows), fmt.Sprint(s.asOf[day]); got != want {
			t.Errorf("seed %d: %s:\n%s\nwant\n%s", seed, day, got, want)
		}
	}
}

// What cannot be followed stops the table before the statement; what the settings leave
// alone goes on with a new column beside the old one.
func TestDDLPolicies(t *testing.T) {
	for _, test := range []struct {
		name, statement string
		o               func(*ingest.Options)
		partitions      int
		bare            bool // without positions
		refused         string
		columns         string
		incomplete      bool
		kept            int64
	}{
		{name: "renamed", statement: "ALTER TABLE t RENAME COLUMN a TO x", columns: "id x b c"},
		{name: "type held", statement: "ALTER TABLE t MODIFY a varchar(200), MODIFY n tinyint", columns: "id a b c n"},
		{name: "keep_both", statement: "ALTER TABLE t RENAME COLUMN a TO x", o: func(o *ingest.Options) { o.DDL = ingest.KeepBoth }, columns: "id a b c x", kept: 2},
		{name: "fail", statement: "ALTER TABLE t RENAME COLUMN a TO x", o: func(o *ingest.Options) { o.DDL = ingest.Fail }, refused: "ddl: fail"},
		{name: "fail at an addition", statement: "ALTER TABLE t ADD x varchar(20)", o: func(o *ingest.Options) { o.DDL = ingest.Fail }, refused: "`ALTER TABLE t ADD x"},
		{name: "key", statement: "ALTER TABLE t CHANGE id key_of int", refused: "the column id belongs to the table's key"},
		{name: "partitions of the table", statement: "ALTER TABLE t RENAME COLUMN b TO x", o: func(o *ingest.Options) { o.PartitionBy = []string{"b"} }, refused: "partition_by"},
		{name: "wider", statement: "ALTER TABLE t MODIFY n bigint", refused: "the column n becomes long, and the table's integer does not hold that"},
		{name: "wider, kept", statement: "ALTER TABLE t MODIFY n bigint", o: func(o *ingest.Options) { o.DDL = ingest.KeepBoth }, columns: "id a b c n", kept: 4},
		{name: "rows removed", statement: "ALTER TABLE t DROP PARTITION p0", columns: "id a b c", incomplete: true},
		{name: "dropped", statement: "DROP TABLE t", columns: "id a b c", incomplete: true},
		{name: "no positions, one partition", statement: "ALTER TABLE t RENAME COLUMN a TO x", partitions: 1, bare: true, columns: "id x b c"},
		{name: "no positions", statement: "ALTER TABLE t RENAME COLUMN a TO x", bare: true, columns: "id a b c x", kept: 2},
		{name: "shards", statement: "ALTER TABLE t DROP COLUMN a", o: func(o *ingest.Options) { o.Decode.Source = "d.t*" }, columns: "id a b c", kept: 2},
		{name: "odd names", statement: "ALTER TABLE t CHANGE a `a b,(c)` varchar(20)", columns: "id a b,(c) b c"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.partitions == 0 {
				test.partitions = 2
			}
			s := newDDLSource(t, test.partitions)
			s.bare = test.bare
			if strings.Contains(test.statement, " n ") {
				s.run(t, "ALTER TABLE t ADD n int")
			}
			s.filled = true
			if test.incomplete { // a load from before does not make it whole
				s.flag = "first"
				s.row("r", 0)
				s.flag = "last_of_table"
				s.row("r", 1)
				s.flag = ""
			}
			s.row("c", 0)
			s.row("c", 1)
			s.tick(time.Hour)
			s.run(t, test.statement)
			if s.catalog.Table("d", "t") != nil {
				s.row("u", 0)
				s.row("c", 3)
			}
			table := newShared(t)
			table.o = func(o *ingest.Options) {
				o.Format = "gscd-json"
				if test.o != nil {
					test.o(o)
				}
			}
			err := table.run(s.upTo(100, 100), "16T05:00", nil)
			if test.refused != "" {
				if !errors.Is(err, ingest.ErrRefused) || !strings.Contains(err.Error(), test.refused) || !strings.Contains(err.Error(), "the source ran `"+test.statement[:8]) {
					t.Fatal(err)
				}
				if rows := table.progress().Rows; rows == 0 {
					t.Error("what came before the statement is not there")
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, f := range table.snapshot().Schema().Fields {
				names = append(names, f.Name)
			}
			p := table.progress()
			if got := strings.Join(names, " "); got != test.columns {
				t.Errorf("columns %s, want %s", got, test.columns)
			}
			if (p.Incomplete != nil) != test.incomplete || p.Counts.SchemaKept != test.kept || p.Totals.DeadLetters != 0 {
				t.Errorf("incomplete %+v, %+v, %+v", p.Incomplete, p.Counts, p.Totals)
			}
			if test.incomplete && !strings.Contains(p.Incomplete.Reason, strings.TrimPrefix(test.statement, "ALTER TABLE t ")) {
				t.Error(p.Incomplete.Reason)
			}
		})
	}
}
