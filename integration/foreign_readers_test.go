//go:build integration

package integration

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query"
)

var foreignTables = []struct {
	name string
	make func(t *testing.T) foreignTable
}{
	{"merge on read", mergeOnRead},
	{"copy on write", copyOnWrite},
	{"partitioned", partitioned},
	{"rolled back", rolledBack},
	{"cleaned", cleaned(false)},
	{"cleaned, copy on write", cleaned(true)},
	{"grown", grown},
	{"long log", longLog},
	{"recorded types", recorded},
	{"recorded orders", recordedOrders},
	{"dead letters", deadLetterTable},
}

// TestForeignReaders holds P6: what other engines read of a version, by number
// and without a plug-in, is what gscd reads of it, value for value.
func TestForeignReaders(t *testing.T) {
	engines := startEngines(t)
	for _, c := range foreignTables {
		t.Run(c.name, func(t *testing.T) {
			f := c.make(t)
			table := f.table()
			rows := 0
			for _, v := range f.versions {
				s, err := table.SnapshotAt(ctx, v)
				if err != nil {
					t.Fatal(err)
				}
				want := ownContent(t, f.store.Store, s, nil)
				rows += len(want.Rows)
				for _, e := range engines {
					got, err := e.read(t, f.store.Store.String(), v, "true")
					if err != nil {
						t.Errorf("version %d: %v", v, err)
					} else if d := got.differs(want); d != "" {
						t.Errorf("version %d: %s reads other rows than gscd:\n  %s", v, e.name, d)
					}
				}
			}
			t.Logf("%d versions, %d rows", len(f.versions), rows)
			if rows == 0 {
				t.Error("the table has no row, so nothing was compared")
			}
		})
	}
}

// TestForeignFilters holds the statistics that gscd writes against engines that
// leave files and row groups out by them: a condition on any column must find the
// rows that it finds when every row is looked at.
func TestForeignFilters(t *testing.T) {
	engines := startEngines(t)[:2] // those with SQL
	for _, c := range []struct {
		name    string
		make    func(t *testing.T) foreignTable
		columns string // what their names begin with
		least   int    // conditions
	}{{"merge on read", mergeOnRead, "", 80}, {"partitioned", partitioned, "p_", 15}} {
		t.Run(c.name, func(t *testing.T) {
			f := c.make(t)
			s, err := f.table().Snapshot(ctx)
			if err != nil {
				t.Fatal(err)
			}
			scan, err := query.NewScan(f.store.Store, s, query.Options{})
			if err != nil {
				t.Fatal(err)
			}
			conditions := conditionsFor(t, scan, c.columns)
			if len(conditions) < c.least {
				t.Errorf("only %d conditions", len(conditions))
			}
			for _, k := range conditions {
				want := ownContent(t, f.store.Store, s, k.take)
				for _, e := range engines {
					got, err := e.read(t, f.store.Store.String(), s.Version(), k.sql[e.name])
					if err != nil {
						t.Errorf("%s: %v", k.sql[e.name], err)
					} else if d := got.differs(want); d != "" {
						t.Errorf("%s where %s:\n  %s", e.name, k.sql[e.name], d)
					}
				}
			}
		})
	}
}

// condition is a filter on one column, by engine and as a function.
type condition struct {
	sql  map[string]string
	take func(row []schema.Value) bool
}

// conditionsFor makes conditions on each column whose name has the prefix, from
// values that are in it: the smallest, the largest and one between.
func conditionsFor(t *testing.T, scan *query.Scan, prefix string) []condition {
	t.Helper()
	columns := scan.Columns()
	values := make([][]schema.Value, len(columns))
	for row, err := range scan.Rows(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range row {
			if !v.IsNull() && hasLiteral(v) {
				v.S = strings.Clone(v.S)
				values[i] = append(values[i], v)
			}
		}
	}
	rng := rand.New(rand.NewPCG(9, 9))
	var out []condition
	for i, f := range columns {
		if len(values[i]) == 0 || f.Type.Primitive == schema.BinaryType || !strings.HasPrefix(f.Name, prefix) {
			continue
		}
		lo, hi := values[i][0], values[i][0]
		for _, v := range values[i] {
			if schema.Compare(v, lo) < 0 {
				lo = v
			}
			if schema.Compare(v, hi) > 0 {
				hi = v
			}
		}
		add := func(operator string, v schema.Value, holds func(order int) bool) {
			c := condition{sql: map[string]string{}, take: func(row []schema.Value) bool {
				return !row[i].IsNull() && holds(schema.Compare(row[i], v))
			}}
			for _, e := range []string{"delta-rs", "DuckDB"} {
				c.sql[e] = fmt.Sprintf("\"%s\" %s %s", f.Name, operator, literal(e, f.Type, v))
			}
			out = append(out, c)
		}
		add("=", values[i][rng.IntN(len(values[i]))], func(o int) bool { return o == 0 })
		if v := lo; v.Kind != schema.Float && v.Kind != schema.Double { // SQL's order of NaN and -0.0 is no order of ours
			add("<=", lo, func(o int) bool { return o <= 0 })
			add(">=", hi, func(o int) bool { return o >= 0 })
		}
		null := fmt.Sprintf("\"%s\" is null", f.Name)
		out = append(out, condition{map[string]string{"delta-rs": null, "DuckDB": null}, func(row []schema.Value) bool { return row[i].IsNull() }})
	}
	return out
}

// hasLiteral tells values that can be written in SQL and that SQL compares as we do.
func hasLiteral(v schema.Value) bool {
	switch v.Kind {
	case schema.Float:
		f := v.Float32()
		return f == f && f != 0
	case schema.Double:
		f := v.Float64()
		return f == f && f != 0
	}
	return !strings.ContainsRune(v.S, 0)
}

// literal writes a value in an engine's SQL.
func literal(engine string, t schema.Type, v schema.Value) string {
	quoted := func(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
	at := time.UnixMicro(v.I).UTC().Format("2006-01-02T15:04:05.000000")
	switch t.Primitive {
	case schema.Boolean:
		return strconv.FormatBool(v.I == 1)
	case schema.FloatType:
		return fmt.Sprintf("cast('%s' as float)", strconv.FormatFloat(float64(v.Float32()), 'g', -1, 32))
	case schema.DoubleType:
		return fmt.Sprintf("cast('%s' as double)", strconv.FormatFloat(v.Float64(), 'g', -1, 64))
	case schema.DecimalType:
		return fmt.Sprintf("cast('%s' as %s)", v.DecimalText(t.Scale), t)
	case schema.StringType:
		return quoted(v.S)
	case schema.Date:
		return "cast('" + time.Unix(v.I*86400, 0).UTC().Format("2006-01-02") + "' as date)"
	case schema.TimestampNTZ:
		if engine == "delta-rs" { // its TIMESTAMP has nanoseconds, and no year 1000
			return "arrow_cast('" + at + "', 'Timestamp(Microsecond, None)')"
		}
		return "timestamp '" + at + "'"
	case schema.Timestamp:
		if engine == "delta-rs" {
			return "arrow_cast('" + at + "Z', 'Timestamp(Microsecond, Some(\"UTC\"))')"
		}
		return "timestamptz '" + at + "+00'"
	}
	return strconv.FormatInt(v.I, 10)
}
