package scan_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
)

func structOf(fields ...schema.Field) schema.Type {
	return schema.Type{Primitive: schema.Struct, Nested: &schema.Nested{Fields: fields}}
}

func nullable(name string, t schema.Type) schema.Field {
	return schema.Field{Name: name, Type: t, Nullable: true}
}

// A field inside of structs is read from its own column chunk alone, unless more of its
// column is asked for, and is NULL where a struct before it is.
func TestFieldsInsideAreRead(t *testing.T) {
	people, err := schema.New(
		nullable("id", schema.Of(schema.Long)),
		nullable("address", structOf(
			nullable("street", schema.Of(schema.StringType)),
			nullable("City", schema.Of(schema.StringType)),
			nullable("geo", structOf(nullable("lat", schema.Of(schema.DoubleType)), nullable("blob", schema.Of(schema.StringType)))),
		)),
		nullable("a.b", schema.Of(schema.Long)),
	)
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(5, 6))
	noise := func() schema.Value {
		b := make([]byte, 120)
		for i := range b {
			b[i] = byte(' ' + random.IntN(90))
		}
		return schema.StringValue(string(b))
	}
	var rows [][]schema.Value
	for i := range int64(10_000) {
		geo := schema.CompoundValue(schema.DoubleValue(float64(i)), noise())
		if i%7 == 0 {
			geo = schema.Value{}
		}
		address := schema.CompoundValue(noise(), schema.StringValue([]string{"Rome", "Paris", "Oslo"}[i%3]), geo)
		if i%11 == 0 {
			address = schema.Value{}
		}
		rows = append(rows, []schema.Value{schema.IntValue(i), address, schema.IntValue(-i)})
	}
	columns := make([]parquet.Column, len(people.Fields))
	for i := range columns {
		columns[i] = parquet.ColumnOf(&people.Fields[i])
	}
	encoder, err := parquet.NewEncoder(columns, parquet.EncoderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	data, _, err := encoder.Encode(rows)
	if err != nil {
		t.Fatal(err)
	}
	store := &weighing{Store: mem.New()}
	if err := store.Put(ctx, "a.parquet", data); err != nil {
		t.Fatal(err)
	}
	x := delta.NewTransaction(delta.New(store), nil)
	x.SetMetadata(action.Metadata{ID: "p", Format: action.Format{Provider: "parquet"}, SchemaString: people.String()})
	x.SetProtocol(delta.ProtocolFor())
	x.Add(&action.Add{Path: "a.parquet", Size: int64(len(data)), PartitionValues: map[string]*string{}, DataChange: true})
	outcome, err := x.Commit(ctx)
	if err != nil {
		t.Fatal(err)
	}
	parsed := func(text string) *expr.Predicate {
		if text == "" {
			return nil
		}
		p, err := expr.Parse(text, people)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	city := func(row []schema.Value) schema.Value { return row[1].Part(1) }
	lat := func(row []schema.Value) schema.Value { return row[1].Part(2).Part(0) }
	whole := func(row []schema.Value) schema.Value { return row[1] }
	for _, tc := range []struct {
		columns []string
		where   string
		order   string
		cells   []func([]schema.Value) schema.Value
		names   []string
		most    float64 // of the file
	}{
		{[]string{"address.city"}, "", "", []func([]schema.Value) schema.Value{city}, []string{"address.City"}, 0.1},
		{[]string{"ADDRESS.geo.lat", "address.City"}, "", "", []func([]schema.Value) schema.Value{lat, city}, []string{"address.geo.lat", "address.City"}, 0.1},
		{[]string{"address.city"}, "address.geo.lat >= 9000", "", []func([]schema.Value) schema.Value{city}, []string{"address.City"}, 0.1},
		{[]string{"address.city"}, "address.geo IS NULL", "", []func([]schema.Value) schema.Value{city}, []string{"address.City"}, 0.6},
		{[]string{"address.city", "address"}, "", "", []func([]schema.Value) schema.Value{city, whole}, []string{"address.City", "address"}, 1.1},
		{[]string{"address.geo.lat"}, "id < 500", "id", []func([]schema.Value) schema.Value{lat}, []string{"address.geo.lat"}, 0.1},
		{[]string{"a.b", "address.`geo`.`lat`"}, "", "", []func([]schema.Value) schema.Value{func(row []schema.Value) schema.Value { return row[2] }, lat}, []string{"a.b", "address.geo.lat"}, 0.1},
	} {
		o := scan.Options{Columns: tc.columns, Where: parsed(tc.where)}
		if tc.order != "" {
			if o.OrderBy, err = expr.ParseOrderBy(tc.order, people); err != nil {
				t.Fatal(err)
			}
		}
		s, err := scan.New(store, outcome.Snapshot, o)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range s.Columns() {
			names = append(names, f.Name)
		}
		store.bytes.Store(0)
		got := collect(t, s)
		var want [][]schema.Value
		for _, row := range rows {
			if o.Where != nil && !passes(o.Where, row) {
				continue
			}
			var out []schema.Value
			for _, cell := range tc.cells {
				out = append(out, cell(row))
			}
			want = append(want, out)
		}
		if !slices.EqualFunc(got, want, slices.Equal) || !slices.Equal(names, tc.names) {
			t.Errorf("%q: %d rows of %q, want %d of %q", tc.columns, len(got), names, len(want), tc.names)
		}
		if part := float64(store.bytes.Load()) / float64(len(data)); part > tc.most {
			t.Errorf("%q where %q: %.2f of the file is read", tc.columns, tc.where, part)
		}
	}
	for _, name := range []string{"address.none", "id.x", "none.x", "address.", "address.City.x"} {
		if _, err := scan.New(store, outcome.Snapshot, scan.Options{Columns: []string{name}}); !errors.Is(err, scan.ErrColumn) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if paths, err := expr.ParsePaths("ADDRESS.city, id, \"a.b\"", people); err != nil || !slices.Equal(paths, []string{"address.City", "id", "a.b"}) {
		t.Errorf("paths %q, %v", paths, err)
	}
}
