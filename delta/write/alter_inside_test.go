package write_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

func structOf(fields ...schema.Field) schema.Type {
	return schema.Type{Primitive: schema.Struct, Nested: &schema.Nested{Fields: fields}}
}

func arrayOf(t schema.Type) schema.Type {
	return schema.Type{Primitive: schema.Array, Nested: &schema.Nested{Element: t}}
}

func mapOf(t schema.Type) schema.Type {
	return schema.Type{Primitive: schema.Map, Nested: &schema.Nested{Key: schema.Of(schema.StringType), Element: t, ContainsNull: true}}
}

// placesTable has structs in a struct, in an array and in a map, with a row in each.
func placesTable(t tester, properties map[string]string) *delta.Table {
	integer, text := schema.Of(schema.Integer), schema.Of(schema.StringType)
	table := delta.New(mem.New())
	must(t)(write.Create(ctx, table, write.Definition{Properties: maps.Clone(properties), Columns: []schema.Field{
		write.Column("id", schema.Of(schema.Long)),
		write.Column("address", structOf(write.Column("city", text), schema.Field{Name: "zip", Type: integer}, write.Column("geo", structOf(write.Column("lat", schema.Of(schema.FloatType)))))),
		write.Column("points", arrayOf(structOf(write.Column("x", integer), write.Column("y", integer)))),
		write.Column("by", mapOf(structOf(write.Column("n", integer)))),
		write.Column("list", arrayOf(integer)),
	}}, write.Values([][]any{
		{1, map[string]any{"city": "Wuxi", "zip": 5, "geo": map[string]any{"lat": float32(0.1)}}, []any{map[string]any{"x": 1, "y": 2}}, map[string]any{"k": map[string]any{"n": 3}}, []any{4}},
		{2, nil, nil, nil, nil},
	})))
	return table
}

func schemaText(r write.Result) string {
	fields := make([]string, 0)
	for _, f := range r.Snapshot.Schema().Fields {
		fields = append(fields, f.Name+":"+f.Type.String())
	}
	return strings.Join(fields, " ")
}

func TestAlterInside(t *testing.T) {
	long, text := schema.Of(schema.Long), schema.Of(schema.StringType)
	for _, mode := range []string{"rewrite", "vectors", "mapped", "mapped by id"} {
		t.Run(mode, func(t *testing.T) {
			table := placesTable(t, modes[mode])
			alter(t, table, write.AddField("address", write.Column("street", text), write.After("city")),
				write.AddField("address.geo", write.Column("lon", schema.Of(schema.FloatType)), write.First()),
				write.AddField("points.element", write.Column("z", long), write.Place{}), write.AddField("by.value", write.Column("m", text), write.First()))
			want(t, rows(t, table, -1), `1|{"city":"Wuxi","street":null,"zip":5,"geo":{"lon":null,"lat":0.1}}|[{"x":1,"y":2,"z":null}]|{"k":{"m":null,"n":3}}|[4]`, "2|-|-|-|-")
			row := map[string]any{"city": "Rome", "street": "Via", "zip": 7, "geo": map[string]any{"lon": 1.5, "lat": 2.5}}
			must(t)(write.Append(ctx, table, write.Values([][]any{{3, row, []any{map[string]any{"z": 9}}, map[string]any{"k": map[string]any{"m": "m"}}, []any{}}})))
			r := alter(t, table, write.RenameColumn("address.city", "town"), write.RenameColumn("points.element.x", "X2"), write.RenameColumn("by.value.n", "number"),
				write.DropColumn("points.element.y"), write.DropColumn("address.geo.lon"), write.MoveColumn("address.zip", write.First()))
			if got, want := schemaText(r), "id:long address:struct<zip:integer,town:string,street:string,geo:struct<lat:float>> points:array<struct<X2:integer,z:long>> by:map<string,struct<m:string,number:integer>> list:array<integer>"; got != want {
				t.Errorf("%s, want\n%s", got, want)
			}
			r = alter(t, table, write.AddField("address.geo", write.Column("lon", text), write.Place{})) // another one than before
			want(t, rows(t, table, -1), `1|{"zip":5,"town":"Wuxi","street":null,"geo":{"lat":0.1,"lon":null}}|[{"X2":1,"z":null}]|{"k":{"m":null,"number":3}}|[4]`, "2|-|-|-|-",
				`3|{"zip":7,"town":"Rome","street":"Via","geo":{"lat":2.5,"lon":null}}|[{"X2":null,"z":9}]|{"k":{"m":"m","number":null}}|[]`)
			if op, parameters, _ := commitInfo(t, table, r.Version); op != "ADD COLUMNS" || !strings.Contains(parameters["columns"], `"name":"address.geo.lon"`) {
				t.Error(op, parameters)
			}
			r = alter(t, table, write.WidenColumn("address.zip", long), write.WidenColumn("address.geo.lat", schema.Of(schema.DoubleType)),
				write.WidenColumn("points.element.X2", long), write.WidenColumn("list.element", long), write.CommentColumn("address.town", "where"),
				write.AllowNull("address.zip"), write.AllowNull("list.element"))
			s := r.Snapshot.Schema()
			address := s.Fields[1].Type.Nested.Fields
			if got := string(s.Fields[4].Metadata["delta.typeChanges"]); got != `[{"fromType":"integer","toType":"long","fieldPath":"element"}]` || !s.Fields[4].Type.Nested.ContainsNull {
				t.Errorf("list: %s %+v", got, s.Fields[4].Type.Nested)
			}
			if got := string(address[0].Metadata["delta.typeChanges"]); got != `[{"fromType":"integer","toType":"long"}]` || !address[0].Nullable || string(address[1].Metadata["comment"]) != `"where"` {
				t.Errorf("%s %+v", got, address)
			}
			must(t)(write.Append(ctx, table, write.Values([][]any{{4, map[string]any{"zip": int64(1) << 40, "geo": map[string]any{"lat": 0.1}}, nil, nil, []any{int64(1) << 41, nil}}})))
			last := []string{`1|{"zip":5,"town":"Wuxi","street":null,"geo":{"lat":0.10000000149011612,"lon":null}}|[{"X2":1,"z":null}]|{"k":{"m":null,"number":3}}|[4]`, "2|-|-|-|-",
				`3|{"zip":7,"town":"Rome","street":"Via","geo":{"lat":2.5,"lon":null}}|[{"X2":null,"z":9}]|{"k":{"m":"m","number":null}}|[]`,
				`4|{"zip":1099511627776,"town":null,"street":null,"geo":{"lat":0.1,"lon":null}}|-|-|[2199023255552,null]`}
			want(t, rows(t, table, -1), last...)
			// Filters find rows of all files by the new names and types.
			for where, ids := range map[string]string{
				"address.zip > 6": "3 4", "address.town = 'Wuxi'": "1", "address.geo.lat = 0.1": "4", "address.geo.lat < 0.2": "1 4", "address.geo.lon IS NULL": "1 2 3 4",
				"address.street IS NULL AND address IS NOT NULL": "1 4", "NOT address.town = 'Rome'": "1",
			} {
				if got, _ := matching(t, table, where); got != ids {
					t.Errorf("%s: %s, want %s", where, got, ids)
				}
			}
			must(t)(write.Update(ctx, table, "address.town = 'Rome'", write.Set{"id": 33}))
			must(t)(write.Delete(ctx, table, "address.zip < 6"))
			want(t, rows(t, table, -1), last[1], "3"+last[2], last[3])
			want(t, rows(t, table, 0), `1|{"city":"Wuxi","zip":5,"geo":{"lat":0.1}}|[{"x":1,"y":2}]|{"k":{"n":3}}|[4]`, "2|-|-|-|-")
		})
	}
}

// matching gives the ids, the first column, of the rows of a filter, and how many files
// were not left out for it.
func matching(t tester, table *delta.Table, where string) (ids string, files int) {
	t.Helper()
	s, err := table.Snapshot(ctx)
	if err != nil {
		t.Fatalf("%v", err)
	}
	reading, err := scan.New(table.Store(), s, scan.Options{Where: parsed(t, where, s.Schema()), Columns: []string{"id"}})
	if err != nil {
		t.Fatalf("%v", err)
	}
	var list []string
	for row, err := range reading.Rows(ctx) {
		if err != nil {
			t.Fatalf("%v", err)
		}
		list = append(list, rowText(reading.Columns(), row))
	}
	slices.Sort(list)
	return strings.Join(list, " "), len(reading.Files())
}

func TestAlterInsideRefuses(t *testing.T) {
	table := placesTable(t, nil)
	alter(t, table, write.AddConstraint("near", "address.geo.lat < 90 OR address.geo.lat IS NULL"))
	required := write.Column("r", schema.Of(schema.Long))
	required.Nullable = false
	for reason, change := range map[string]write.Change{
		`address has ["city" "zip" "geo"]`:              write.DropColumn("address.nix"),
		`id is long`:                                    write.DropColumn("id.x"),
		`points is array<`:                              write.DropColumn("points.x"),
		`points.element is no field`:                    write.RenameColumn("points.element", "x"),
		`by.value is no field`:                          write.CommentColumn("by.value", "x"),
		`there is a column "geo"`:                       write.RenameColumn("address.city", "GEO"),
		`there is a column "address.CITY"`:              write.AddField("address", write.Column("CITY", schema.Of(schema.Long)), write.Place{}),
		`is NOT NULL`:                                   write.AddField("address", required, write.Place{}),
		`list is array<integer>, no struct`:             write.AddField("list", write.Column("x", schema.Of(schema.Long)), write.Place{}),
		`there are ["x" "y"]`:                           write.AddField("points.element", write.Column("z", schema.Of(schema.Long)), write.After("id")),
		`"by.value.n" is the only field of its struct`:  write.DropColumn("by.value.n"),
		`"address.geo.lat"`:                             write.RenameColumn("address.geo.lat", "latitude"),
		`constraint near is about column "address.geo"`: write.DropColumn("address.geo"),
		`constraint near is about column "address"`:     write.RenameColumn("address", "a"),
		`does not widen to integer`:                     write.WidenColumn("by.value.n", schema.Of(schema.Integer)),
		`keys of a map`:                                 write.AllowNull("by.key"),
		`the name "a b"`:                                write.AddField("address", write.Column("a b", schema.Of(schema.Long)), write.Place{}),
		`no such column`:                                write.SetDefault("address.zip", "5"),
		`can't be behind itself`:                        write.MoveColumn("address.zip", write.After("ZIP")),
	} {
		r, err := write.Alter(ctx, table, []write.Change{change})
		if err == nil || !strings.Contains(err.Error(), reason) || r.Committed {
			t.Errorf("%s: %+v, %v", reason, r, err)
		}
		if !errors.Is(err, write.ErrChange) && !errors.Is(err, write.ErrColumn) {
			t.Errorf("%s: %v", reason, err)
		}
	}
	for _, row := range []any{map[string]any{"zip": 1, "geo": map[string]any{"lat": 91}}} {
		if _, err := write.Append(ctx, table, write.Values([][]any{{9, row}}, "id", "address")); !errors.Is(err, write.ErrRow) {
			t.Errorf("the constraint: %v", err)
		}
	}
	alter(t, table, write.DropColumn("address.city")) // no rule is about it
	want(t, rows(t, table, -1), `1|{"zip":5,"geo":{"lat":0.1}}|[{"x":1,"y":2}]|{"k":{"n":3}}|[4]`, "2|-|-|-|-")
}
