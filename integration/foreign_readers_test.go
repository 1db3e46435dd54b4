//go:build integration

package integration

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
)

// condition is a filter on one column, in an engine's SQL and as a function. An engine
// that can't be asked has "".
type condition struct {
	sql  func(engine string) string
	take func(row []schema.Value) bool
}

// conditionsFor makes conditions on each column whose name has the prefix, from
// values that are in it: the smallest, the largest and one between.
func conditionsFor(t *testing.T, scan *scan.Scan, prefix string) []condition {
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
			out = append(out, condition{
				func(engine string) string {
					value := literal(engine, f.Type, v)
					if value == "" {
						return ""
					}
					return quotedName(engine, f.Name) + " " + operator + " " + value
				},
				func(row []schema.Value) bool { return !row[i].IsNull() && holds(schema.Compare(row[i], v)) },
			})
		}
		add("=", values[i][rng.IntN(len(values[i]))], func(o int) bool { return o == 0 })
		if v := lo; v.Kind != schema.Float && v.Kind != schema.Double { // SQL's order of NaN and -0.0 is no order of ours
			add("<=", lo, func(o int) bool { return o <= 0 })
			add(">=", hi, func(o int) bool { return o >= 0 })
		}
		out = append(out, condition{
			func(engine string) string { return quotedName(engine, f.Name) + " is null" },
			func(row []schema.Value) bool { return row[i].IsNull() },
		})
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

func quotedName(engine, name string) string {
	if engine == "Spark" {
		return "`" + name + "`"
	}
	return `"` + name + `"`
}

// literal writes a value in an engine's SQL, "" where the engine can't hold it exactly.
func literal(engine string, t schema.Type, v schema.Value) string {
	double := map[string]string{"ClickHouse": "Float64"}
	float := map[string]string{"ClickHouse": "Float32", "Trino": "real", "Polars": "real"}
	name := func(of map[string]string, other string) string {
		if n := of[engine]; n != "" {
			return n
		}
		return other
	}
	quoted := func(s string) string {
		s = strings.ReplaceAll(s, "'", "''")
		switch engine {
		case "Spark", "ClickHouse": // a backslash escapes there; of two quotes Spark makes none
			s = strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), "''", `\'`)
		}
		return "'" + s + "'"
	}
	when := time.UnixMicro(v.I).UTC()
	at := when.Format("2006-01-02T15:04:05.000000")
	spaced := strings.Replace(at, "T", " ", 1)
	switch t.Primitive {
	case schema.Boolean:
		return strconv.FormatBool(v.I == 1)
	case schema.FloatType:
		return fmt.Sprintf("cast('%s' as %s)", strconv.FormatFloat(float64(v.Float32()), 'g', -1, 32), name(float, "float"))
	case schema.DoubleType:
		return fmt.Sprintf("cast('%s' as %s)", strconv.FormatFloat(v.Float64(), 'g', -1, 64), name(double, "double"))
	case schema.DecimalType:
		return fmt.Sprintf("cast('%s' as %s)", v.DecimalText(t.Scale), t)
	case schema.StringType:
		return quoted(v.S)
	case schema.Date:
		day := time.Unix(v.I*86400, 0).UTC().Format("2006-01-02")
		if engine == "ClickHouse" {
			if v.I < clickHouseFirst || v.I > clickHouseLast {
				return ""
			}
			return "toDate32('" + day + "')"
		}
		return "cast('" + day + "' as date)"
	case schema.TimestampNTZ, schema.Timestamp:
		ntz := t.Primitive == schema.TimestampNTZ
		switch engine {
		case "delta-rs": // its TIMESTAMP has nanoseconds, and no year 1000
			if ntz {
				return "arrow_cast('" + at + "', 'Timestamp(Microsecond, None)')"
			}
			return "arrow_cast('" + at + "Z', 'Timestamp(Microsecond, Some(\"UTC\"))')"
		case "ClickHouse":
			if day := floorDays(v.I); day < clickHouseFirst || day > clickHouseLast {
				return ""
			}
			return "toDateTime64('" + spaced + "', 6, 'UTC')"
		case "Spark":
			if ntz {
				return "timestamp_ntz '" + spaced + "'"
			}
			return "timestamp '" + spaced + "Z'"
		case "Trino":
			if ntz {
				return "timestamp '" + spaced + "'"
			}
			return "" // it cuts microseconds off, which a row of its own tells
		case "Polars":
			return "" // its SQL has no such constant
		}
		if ntz {
			return "timestamp '" + at + "'"
		}
		return "timestamptz '" + at + "+00'"
	}
	return strconv.FormatInt(v.I, 10)
}

// floorDays gives the day of a time in microseconds.
func floorDays(micros int64) int64 {
	const day = 86400 * 1000000
	return (micros - ((micros%day)+day)%day) / day
}

// The first and last day that ClickHouse can write in SQL: 1900-01-01, 2299-12-31. (It
// reads others.)
const (
	clickHouseFirst = -25567
	clickHouseLast  = 120529
)
