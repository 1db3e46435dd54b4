//go:build integration

package integration

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/scan"
)

// limit is what another engine can't, or does otherwise. The tests find it, each time:
// one that is gone is an error too, so that the document stays true.
type limit struct {
	engine   string
	writing  bool
	features []string
	// says is part of the engine's error; "" where it gives other rows.
	says, note string
}

const shallowNote = "It does not find files by the absolute paths that a shallow clone has."

var limits = []limit{
	{"delta-rs", false, []string{"columns widened"}, "Unsupported table features required: [TypeWidening]", "It refuses `typeWidening`."},
	{"Polars", false, []string{"columns widened"}, "reader features ['typeWidening']", "It refuses `typeWidening`."},
	{"Polars", false, []string{"columns renamed, dropped, moved (column mapping by name)", "column mapping by id"}, "reader features ['columnMapping']", "It refuses `columnMapping`."},
	{"Polars", false, []string{"v2 checkpoints with sidecars"}, "reader features ['v2Checkpoint']", "It refuses `v2Checkpoint`."},
	{"Polars", false, []string{"tables of `gscd ingest`, partitioned", "conditions on partitions"}, "other rows",
		"Deleted rows come back: it does not find the deletion vector of a file with escaped characters in its path. Copy-on-write helps."},
	{"Polars", false, []string{"shallow clone"}, "FileNotFoundError", shallowNote},
	{"DuckDB", false, []string{"shallow clone"}, "Cannot open file", shallowNote},
	{"ClickHouse", false, []string{"shallow clone"}, "Cannot get metadata of file", shallowNote},
	{"Trino", false, []string{"shallow clone"}, "Unable to find 'p' type deletion vector", "It does not find the deletion vectors of the source on a file system."},
	{"ClickHouse", false, []string{"structs, arrays, maps"}, "other rows", "NULL comes out as a struct of NULLs, as an empty array or map."},
	{"Trino", false, []string{"columns widened"}, "other rows", "It leaves widened columns out."},
	{"Trino", false, []string{"microseconds"}, "other rows", "It rounds timestamps to milliseconds, but for those without a zone."},
	{"Trino", true, []string{"partitioned"}, "Hive partition keys can only contain printable ASCII", "It writes no partition whose value is not ASCII; the rest is right."},
	{"Trino", true, []string{"classic checkpoints alone", "islands"}, "00000000000000000000.json was not found",
		"Its delete, update and merge look for the commit of version 0, which a cleaned log does not have; insert, optimize and add column are right."},
	{"Trino", true, []string{"column mapping by name"}, `because "type" is null`,
		"Its delete, update and merge fail where deletion vectors are on and a file has statistics of a column that was dropped since; " +
			"insert, optimize and add column are right. Copy-on-write helps."},
	{"Trino", true, []string{"constraints, comments"}, "No mapping for s.id", "Its merge fails on tables with CHECK constraints; the rest is right."},
	{"delta-rs", true, []string{"column mapping by name"}, "Column mapping is not supported for write operation",
		"It refuses optimize and add column on tables with `columnMapping`; insert, delete, update, merge and restore are right."},
}

func limitOf(engine string, writing bool, feature string) *limit {
	for i, l := range limits {
		if l.engine == engine && l.writing == writing && slices.Contains(l.features, feature) {
			return &limits[i]
		}
	}
	return nil
}

// sees turns cells into what the engine can hold, where a feature's row is not about
// that: Trino has milliseconds, which a row of its own tells.
func (e *engine) sees(feature string, c *content) *content {
	out := &content{Columns: slices.Clone(c.Columns)}
	for _, row := range c.Rows {
		row = slices.Clone(row)
		for i, cell := range row {
			kind := c.Columns[i][1]
			if cell == nil {
				continue
			}
			text := *cell
			if e.name == "Trino" && kind == "timestamp" && feature != "microseconds" {
				n, _ := strconv.ParseInt(text, 10, 64)
				if !strings.HasPrefix(c.Columns[i][0], "p_") { // partition values are cut, others rounded
					n += 500
				}
				text = strconv.FormatInt(n-(n%1000+1000)%1000, 10)
			}
			row[i] = &text
		}
		out.Rows = append(out.Rows, row)
	}
	for i := range out.Columns {
		switch out.Columns[i][1] {
		case "timestamp_ntz", "timestamp":
			if e.name == "ClickHouse" {
				out.Columns[i][1] = "timestamp"
			}
		}
		if e.name == "Trino" { // its names have no upper case
			out.Columns[i][0] = strings.ToLower(out.Columns[i][0])
		}
	}
	return out
}

// found gathers what the tests see.
type found struct {
	engines []*engine
	results
}

// judge notes what became of an engine and a feature: problem is "" where all was right,
// and outcome says what it is otherwise.
func (f *found) judge(t *testing.T, writing bool, engine, feature, outcome, problem string) {
	t.Helper()
	in := f.Read
	if writing {
		in = f.Written
	}
	l := limitOf(engine, writing, feature)
	v := verdict{Outcome: "yes"}
	switch {
	case problem == "" && l != nil:
		t.Errorf("%s can %s now: take its limit away", engine, feature)
	case problem == "":
	case l != nil && strings.Contains(problem, l.says):
		v = verdict{outcome, l.note}
	default:
		t.Errorf("%s: %s", engine, problem)
		v = verdict{outcome, "not known: " + problem}
	}
	if in[feature] == nil {
		in[feature] = map[string]verdict{}
	}
	in[feature][engine] = v
}

// TestEngines holds P6 and the round trips: what other engines read of each version of
// tables with each feature, by number and without a plug-in, is what gscd reads of it,
// value for value, also behind changes that they make. It finds the table in
// docs/compatibility.md, which GSCD_MATRIX=write writes.
func TestEngines(t *testing.T) {
	t.Parallel()
	f := &found{results: results{verdicts{}, verdicts{}}}
	only := os.Getenv("GSCD_ONLY") // names of engines, for work on these tests
	for _, e := range otherEngines {
		switch {
		case only != "" && !strings.Contains(only, e.name):
		case e.name == "Spark":
			f.engines = append(f.engines, startSpark(t))
		case e.name == "Trino" && trinoLacks(t) != "":
			t.Run("Trino", func(t *testing.T) { t.Skip(trinoLacks(t)) }) // the others go on
		default:
			f.engines = append(f.engines, startEngine(t, e.name))
		}
	}
	spent := map[string]time.Duration{}
	for _, feature := range readFeatures {
		if make := readTables[feature]; make != nil {
			t.Run("read/"+feature, func(t *testing.T) { f.read(t, feature, make(t), spent) })
		}
	}
	t.Run("conditions", func(t *testing.T) { f.conditions(t) })
	t.Run("changes", func(t *testing.T) { f.changes(t) })
	for _, feature := range writeFeatures {
		t.Run("write/"+feature, func(t *testing.T) { f.write(t, feature) })
	}
	t.Logf("time spent reading: %v", spent)
	if t.Failed() && os.Getenv("GSCD_MATRIX") != "draft" {
		return
	}
	f.settle(t)
}

// settle holds what was found against the results file, or writes that.
func (f *found) settle(t *testing.T) {
	t.Helper()
	before := loadResults(t)
	writes := os.Getenv("GSCD_MATRIX") != ""
	merge := func(what string, features []string, before, now verdicts) {
		for feature, engines := range now {
			if before[feature] == nil {
				before[feature] = map[string]verdict{}
			}
			for engine, v := range engines {
				if !writes && before[feature][engine] != v {
					t.Errorf("%s %s, %s: found %+v, the results have %+v: write them with GSCD_MATRIX=write", what, feature, engine, v, before[feature][engine])
				}
				before[feature][engine] = v
			}
		}
		for feature := range before {
			if writes && !slices.Contains(features, feature) {
				delete(before, feature) // has another name now
			}
		}
	}
	merge("read", readFeatures, before.Read, f.Read)
	merge("written", writeFeatures, before.Written, f.Written)
	if writes {
		before.save(t)
	}
}

// read has every engine read a table.
func (f *found) read(t *testing.T, feature string, table readTable, spent map[string]time.Duration) {
	var wants []*content
	rows := 0
	for _, v := range table.versions {
		s, err := table.table.SnapshotAt(ctx, v)
		if err != nil {
			t.Fatal(err)
		}
		wants = append(wants, ownContent(t, table.table.Store(), s, nil))
		rows += len(wants[len(wants)-1].Rows)
	}
	if rows == 0 {
		t.Error("the table has no row, so nothing was compared")
	}
	for _, e := range f.engines {
		started := time.Now()
		problem := ""
		last := len(table.versions) - 1
		for i, v := range table.versions {
			slow := e.name == "Spark" || e.name == "Trino" || e.name == "ClickHouse"
			if slow && i != last && i != last/2 && !strings.HasPrefix(feature, "islands") {
				continue
			}
			want := e.sees(feature, wants[i])
			got, err := e.read(t, table.table.Store().String(), v, "true", want)
			if err != nil {
				problem = "version " + strconv.FormatInt(v, 10) + ": " + err.Error()
			} else if d := got.differs(want); d != "" {
				problem = "version " + strconv.FormatInt(v, 10) + ": other rows: " + d
			}
			if problem != "" {
				break
			}
		}
		f.judge(t, false, e.name, feature, "no", problem)
		spent[e.name] += time.Since(started)
	}
	t.Logf("%d versions, %d rows", len(table.versions), rows)
}

// conditions holds the statistics that gscd writes against engines that leave files and
// row groups out by them: a condition on any column must find the rows that it finds when
// every row is looked at.
func (f *found) conditions(t *testing.T) {
	for _, c := range []struct {
		feature string
		make    func(t *testing.T) foreignTable
		columns string // what their names begin with
		least   int    // conditions
	}{{"conditions, by statistics", mergeOnRead, "", 80}, {"conditions on partitions", partitioned, "p_", 15}} {
		t.Run(c.feature, func(t *testing.T) {
			table := c.make(t)
			s, err := table.table().Snapshot(ctx)
			if err != nil {
				t.Fatal(err)
			}
			scan, err := scan.New(table.store.Store, s, scan.Options{})
			if err != nil {
				t.Fatal(err)
			}
			conditions := conditionsFor(t, scan, c.columns)
			if len(conditions) < c.least {
				t.Errorf("only %d conditions", len(conditions))
			}
			for _, e := range f.engines {
				if e.name == "Delta Kernel" {
					continue // has no SQL
				}
				problem := ""
				for i, k := range conditions {
					sql := k.sql(e.name)
					if sql == "" || e.name == "Spark" && i%4 > 0 { // a second each
						continue
					}
					want := e.sees(c.feature, ownContent(t, table.store.Store, s, k.take))
					got, err := e.read(t, table.store.Store.String(), s.Version(), sql, want)
					if err != nil {
						problem = sql + ": " + err.Error()
					} else if d := got.differs(want); d != "" {
						problem = "where " + sql + ": other rows: " + d
					}
					if problem != "" {
						break
					}
				}
				f.judge(t, false, e.name, c.feature, "no", problem)
			}
		})
	}
}

// changes holds the change data feed of gscd against those who read it.
func (f *found) changes(t *testing.T) {
	for feature, properties := range map[string]map[string]string{
		"change data feed":                       {"delta.enableChangeDataFeed": "true"},
		"change data feed with deletion vectors": {"delta.enableChangeDataFeed": "true", vectors: "true"},
	} {
		t.Run(feature, func(t *testing.T) {
			b := changed(t, properties)
			versions := b.all().versions
			for _, e := range f.engines {
				if e.name != "Spark" && e.name != "delta-rs" {
					continue
				}
				problem := ""
				for _, span := range [][2]int64{{0, versions[len(versions)-1]}, {2, 3}} {
					want := ownChanges(t, b.table, span)
					got, err := e.ask(t, request{"do": "read", "path": b.path, "changes": span})
					if err != nil {
						problem = err.Error()
					} else if d := got.named(want.Columns).differs(want); d != "" {
						problem = d
					}
					if problem != "" {
						break
					}
				}
				f.judge(t, false, e.name, feature, "no", problem)
			}
		})
	}
}

// ownChanges is the change data of some versions as gscd reads it.
func ownChanges(t testing.TB, table *delta.Table, span [2]int64) *content {
	t.Helper()
	s, err := table.SnapshotAt(ctx, span[1])
	if err != nil {
		t.Fatal(err)
	}
	c := &content{}
	for _, f := range s.Schema().Fields {
		c.Columns = append(c.Columns, [2]string{f.Name, f.Type.String()})
	}
	c.Columns = append(c.Columns, [2]string{"_change_type", "string"}, [2]string{"_commit_version", "long"})
	for b, err := range scan.Changes(ctx, table, span[0], span[1], nil) {
		if err != nil {
			t.Fatal(err)
		}
		for r := range b.Rows {
			var row []*string
			for i, f := range s.Schema().Fields {
				var cell *string
				if v := b.Columns[i][r]; !v.IsNull() {
					text := cellText(f.Type, v)
					cell = &text
				}
				row = append(row, cell)
			}
			version := strconv.FormatInt(b.Version, 10)
			c.Rows = append(c.Rows, append(row, &b.Kinds[r], &version))
		}
	}
	return c
}

// named puts columns in the order of others.
func (c *content) named(columns [][2]string) *content {
	out := &content{Columns: columns}
	for _, row := range c.Rows {
		var cells []*string
		for _, want := range columns {
			i := slices.Index(c.Columns, want)
			if i < 0 {
				return c // differs will tell
			}
			cells = append(cells, row[i])
		}
		out.Rows = append(out.Rows, cells)
	}
	return out
}
