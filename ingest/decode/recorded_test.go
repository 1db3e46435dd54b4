package decode

import (
	"encoding/csv"
	"encoding/json"
	"math/big"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
)

// sqlColumns reads the column types of a CREATE TABLE of the recordings' SQL.
func sqlColumns(t *testing.T, file, table string) map[string]ColumnSpec {
	t.Helper()
	raw, err := os.ReadFile(cdcFile(t, "recorded/sql/"+file))
	if err != nil {
		t.Fatal(err)
	}
	_, ddl, ok := strings.Cut(string(raw), "CREATE TABLE "+table+" (")
	if !ok {
		t.Fatalf("no %s in %s", table, file)
	}
	ddl, _, _ = strings.Cut(ddl, "ENGINE")
	column := regexp.MustCompile(`(\w+)\s+([A-Z]+(?:\([^)]*\))?(?: UNSIGNED)?(?: CHARACTER SET \w+)?(?: COLLATE \w+)?)(?: NOT NULL| NULL| DEFAULT '?\w+'?| AUTO_INCREMENT| PRIMARY KEY)*,`)
	specs := map[string]ColumnSpec{}
	for _, m := range column.FindAllStringSubmatch(ddl, -1) {
		if m[1] == "PRIMARY" {
			continue
		}
		spec, err := ParseColumnType(m[2])
		if err != nil {
			t.Fatal(err)
		}
		specs[m[1]] = spec
	}
	return specs
}

// table reads an expected state.
func table(t *testing.T, name string) []map[string]string {
	t.Helper()
	f, err := os.Open(cdcFile(t, "recorded/expected/"+name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]string
	for _, cells := range all[1:] {
		row := map[string]string{}
		for i, name := range all[0] {
			row[name] = cells[i]
		}
		out = append(out, row)
	}
	return out
}

// sameText compares a cell with what the server printed.
func sameText(got typed, want string) bool {
	if got.v.IsNull() || want == `\N` {
		return got.v.IsNull() && want == `\N`
	}
	hex, isHex := strings.CutPrefix(want, "0x")
	switch got.v.Kind {
	case schema.Float, schema.Double, schema.Dec:
		return sameNumber(got, want)
	case schema.Bool:
		return isHex && hex == map[bool]string{false: "00", true: "01"}[got.v.I == 1]
	case schema.Binary: // of a geometry the server prints the SRID in front
		return show(got) == want || show(got) == "0x"+strings.TrimPrefix(hex, "00000000")
	case schema.String:
		return got.v.S == want
	}
	if isHex {
		n, _ := new(big.Int).SetString(hex, 16)
		return n.Int64() == got.v.I
	}
	if dot := strings.IndexByte(want, '.'); dot >= 0 {
		want = strings.TrimRight(strings.TrimRight(want, "0"), ".")
	}
	if got.t.Primitive == schema.Timestamp {
		want = strings.Replace(want, " ", "T", 1) + "Z"
	}
	if got.t.Primitive == schema.Long && strings.Contains(want, ":") {
		return clockText(got.v.I) == want
	}
	return show(got) == want
}

func (f *fold) check(t *testing.T, name string) {
	t.Helper()
	want := table(t, name)
	if len(f.rows) != len(want) {
		t.Errorf("%s: %d rows, want %d", name, len(f.rows), len(want))
	}
	for _, w := range want {
		var row map[string]typed
		for _, r := range f.rows {
			if !slices.ContainsFunc(f.keys, func(k string) bool { return !sameText(r[k], w[k]) }) {
				row = r
			}
		}
		if row == nil {
			t.Errorf("%s: no row %v", name, w)
			continue
		}
		if len(row) != len(w) {
			t.Errorf("%s: %d columns, want %d", name, len(row), len(w))
		}
		for column, text := range w {
			if !sameText(row[column], text) {
				t.Errorf("%s %v: column %s: %s %s, want %s", name, w[f.keys[0]], column, row[column].t, show(row[column]), text)
			}
		}
	}
}

// TestRecordedDays folds the recorded streams day by day into the tables as
// the server had them.
func TestRecordedDays(t *testing.T) {
	orders := Options{Columns: sqlColumns(t, "00-schema.sql", "shop.orders"), Debezium: Debezium{Decimals: "base64", Unsigned: "long", Binary: "base64"}}
	if got := len(orders.Columns); got != 15 {
		t.Fatalf("%d columns read from the SQL", got)
	}
	stock := orders
	stock.Columns = sqlColumns(t, "00-schema.sql", "shop.stock")
	onlyKeys := orders
	onlyKeys.KeyColumns = []string{"ID"}
	for _, c := range []struct {
		name, csv string
		opts      Options
		keys      []string
		files     []string
	}{
		{"without schema, simple key", "orders.csv", orders, []string{"id"}, []string{"s1.shop.orders.jsonl"}},
		{"before only for the key", "orders.csv", onlyKeys, []string{"id"}, []string{"s1.shop.orders.jsonl"}},
		{"without schema, composite key", "stock.csv", stock, []string{"warehouse", "sku"}, []string{"s1.shop.stock.jsonl"}},
		{"with schema, numeric decimals", "stock.csv", Options{}, []string{"warehouse", "sku"}, []string{"s3.shop.stock.p0.jsonl", "s3.shop.stock.p1.jsonl", "s3.shop.stock.p2.jsonl"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			records := recorded(t, c.files...)
			for _, day := range []string{"2022-07-15", "2022-07-16", "2022-07-17", "2022-07-18-partial"} {
				end, err := time.Parse("2006-01-02", day[:10])
				if err != nil {
					t.Fatal(err)
				}
				d, err := New("debezium-json", c.opts)
				if err != nil {
					t.Fatal(err)
				}
				f, arena := newFold(c.keys...), &change.Arena{}
				for _, rec := range records {
					var ch change.Change
					if err := d.Decode(&rec, arena, &ch); err != nil {
						t.Fatalf("partition %d offset %d: %v", rec.Partition, rec.Offset, err)
					}
					if ch.Op == change.Tombstone || ch.EventTime < end.AddDate(0, 0, 1).UnixMicro() {
						f.apply(t, &ch)
					}
				}
				f.check(t, day+"/"+c.csv)
			}
		})
	}
}

// TestRecordedTypes checks about forty types with schemas: the load, and the
// rows behind a key change, a delete, two ALTERs and a TRUNCATE.
func TestRecordedTypes(t *testing.T) {
	spec, err := ParseColumnType("bigint unsigned") // what the schema can't tell
	if err != nil {
		t.Fatal(err)
	}
	d, err := New("debezium-json", Options{Columns: map[string]ColumnSpec{"C_UBIG": spec}})
	if err != nil {
		t.Fatal(err)
	}
	f, arena := newFold("id"), &change.Arena{}
	shapes := map[*change.Columns]int{}
	for i, rec := range recorded(t, "t1.zoo.alltypes.jsonl") {
		var c change.Change
		if err := d.Decode(&rec, arena, &c); err != nil {
			t.Fatalf("offset %d: %v", rec.Offset, err)
		}
		f.apply(t, &c)
		if i == 2 {
			f.check(t, "2022-07-14-before/alltypes.csv")
		}
		if c.Columns != nil {
			shapes[c.Columns]++
			if !c.Columns.FromSchema {
				t.Error("the schema's types are not noted")
			}
		}
		want := change.Load(0)
		switch i {
		case 0:
			want = change.FirstRead
		case 2:
			want = change.LastRead
		}
		if c.Load != want || (i < 3) != (c.Op == change.Read) {
			t.Errorf("offset %d: op %s, load %d, want %d", i, c.Op, c.Load, want)
		}
		if got, want := [2]bool{c.NewKeyHeader, c.OldKeyHeader}, [2]bool{i == 5 || i == 6, i == 7}; got != want {
			t.Errorf("offset %d: key change headers %v, want %v", i, got, want)
		}
	}
	f.check(t, "2022-07-16-types-end/alltypes.csv")
	if len(shapes) != 3 {
		t.Errorf("%d shapes, three schema versions were there", len(shapes))
	}
}

// TestRecordedOrigin checks what is said about where a change comes from.
func TestRecordedOrigin(t *testing.T) {
	d, err := New("debezium-json", Options{Source: "shop.orders"})
	if err != nil {
		t.Fatal(err)
	}
	records := recorded(t, "s1.shop.orders.jsonl")
	var c change.Change
	if err := d.Decode(&records[1], &change.Arena{}, &c); err != nil {
		t.Fatal(err)
	}
	if c.Op != change.Insert || c.EventTime != 1657843201000000 || c.EventTimeIsCommit || c.ProcessingTime != 1795982329538 ||
		c.Server != (change.Server{Name: "s1", ID: 184054}) || c.GTID != "0-184054-10" ||
		!c.HasPosition || c.Position != (change.Position{File: 1, Pos: 4907, Row: 1}) {
		t.Errorf("got %+v", c)
	}
	if got, want := c.KeyColumns.List, []change.Column{{Name: "id"}}; !slices.Equal(got, want) || c.Key[0] != schema.IntValue(3) {
		t.Errorf("key %v %v", got, c.Key)
	}
	for _, rec := range recorded(t, "s1.shop.stock.jsonl", "s1.shop.odd_name.x.jsonl", "s1.jsonl", "t1.jsonl") {
		if rec.Value == nil {
			continue
		}
		if err := d.Decode(&rec, &change.Arena{}, &c); err != nil || c.Op != change.Filtered {
			t.Errorf("%s offset %d: %s, %v; want filtered", rec.Topic, rec.Offset, c.Op, err)
		}
	}
}

// TestUnsignedKeys: without schemas 18446744073709551615 is sent as -1, in keys too.
func TestUnsignedKeys(t *testing.T) {
	spec, err := ParseColumnType("BIGINT(20) UNSIGNED")
	if err != nil {
		t.Fatal(err)
	}
	for _, with := range []bool{false, true} {
		opts := Options{}
		if with {
			opts.Columns = map[string]ColumnSpec{"id": spec}
		}
		d, err := New("debezium-json", opts)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, rec := range recorded(t, "s1.shop.orders.jsonl") {
			var sent struct{ ID json.Number }
			if err := json.Unmarshal(rec.Key, &sent); err != nil {
				t.Fatal(err)
			}
			var c change.Change
			if err := d.Decode(&rec, &change.Arena{}, &c); err != nil {
				t.Fatal(err)
			}
			n, _ := strconv.ParseInt(sent.ID.String(), 10, 64)
			want := sent.ID.String()
			if with && n < 0 {
				want = strconv.FormatUint(uint64(n), 10)
				found++
			}
			cells := []typed{named(c.KeyColumns, c.Key)["id"]}
			if c.After != nil {
				cells = append(cells, named(c.Columns, c.After)["id"])
			}
			for _, cell := range cells {
				if show(cell) != want {
					t.Errorf("offset %d: id %s, want %s", rec.Offset, show(cell), want)
				}
			}
		}
		if with && found < 3 {
			t.Errorf("%d wrapped keys seen", found)
		}
	}
}
