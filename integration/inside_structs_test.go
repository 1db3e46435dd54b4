//go:build integration

package integration

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
)

// Spark and delta-rs read tables whose structs were altered, and gscd skips files by the
// statistics of fields in structs that Spark wrote.
func TestFieldsInsideElsewhere(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "places")
	b := &book{t, delta.New(localStore(t, path)), path}
	address := schema.Type{Primitive: schema.Struct, Nested: &schema.Nested{Fields: []schema.Field{
		write.Column("city", schema.Of(schema.StringType)), write.Column("zip", schema.Of(schema.Long)),
	}}}
	b.did(write.Create(ctx, b.table, write.Definition{Columns: []schema.Field{write.Column("id", schema.Of(schema.Long)), write.Column("address", address)}}, write.Source{}))
	b.append([]any{1, map[string]any{"city": "Wuxi", "zip": 5}}, []any{2, nil})
	b.alter(write.AddField("address", write.Column("street", schema.Of(schema.StringType)), write.First()))
	b.append([]any{3, map[string]any{"city": "Rome", "zip": 7, "street": "Via"}})
	plain := b.all().versions[len(b.all().versions)-1]
	b.alter(write.RenameColumn("address.city", "town"))
	b.append([]any{4, map[string]any{"town": "Oslo", "zip": 9}})
	last := plain + 2
	spark := startEngine(t, "Spark")
	for _, c := range []struct {
		e       *engine
		version int64
		where   string
	}{
		{startEngine(t, "delta-rs"), plain, "true"}, {spark, plain, "address.city = 'Rome'"},
		{spark, last, "true"}, {spark, last, "address.town = 'Oslo'"}, {spark, last, "address.zip < 6"},
	} {
		s, err := b.table.SnapshotAt(ctx, c.version)
		if err != nil {
			t.Fatal(err)
		}
		where, err := expr.Parse(c.where, s.Schema())
		if err != nil {
			t.Fatal(err)
		}
		want := ownContent(t, b.table.Store(), s, func(row []schema.Value) bool {
			return len(where.NewEvaluator().Select([][]schema.Value{row[:1], row[1:2]}, []int32{0})) == 1
		})
		if got, err := c.e.read(t, path, c.version, c.where, want); err != nil {
			t.Errorf("%s, version %d, %s: %v", c.e.name, c.version, c.where, err)
		} else if d := got.differs(want); d != "" {
			t.Errorf("%s, version %d, %s: %s", c.e.name, c.version, c.where, d)
		}
	}
	// Spark's own.
	path = filepath.Join(t.TempDir(), "of spark")
	for _, text := range []string{
		"CREATE TABLE {path} (id BIGINT, a STRUCT<n: BIGINT, g: STRUCT<city: STRING>>) USING delta",
		"INSERT INTO {path} VALUES (1, named_struct('n', 5L, 'g', named_struct('city', 'Wuxi'))), (2, NULL)",
		"INSERT INTO {path} VALUES (3, named_struct('n', 50L, 'g', named_struct('city', 'Rome')))",
		"ALTER TABLE {path} ADD COLUMNS (a.g.more STRING)",
	} {
		if _, err := spark.ask(t, request{"do": "sql", "path": path, "text": text}); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	store := localStore(t, path)
	s, err := delta.New(store).Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	where, err := expr.Parse("a.n > 10 AND a.g.city = 'Rome' AND a.g.more IS NULL", s.Schema())
	if err != nil {
		t.Fatal(err)
	}
	reading, err := scan.New(store, s, scan.Options{Where: where})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for row, err := range reading.Rows(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, string(schema.AppendText(nil, s.Schema().Fields[1].Type, row[1])))
	}
	if strings.Join(got, " ") != `{"n":50,"g":{"city":"Rome","more":null}}` || len(reading.Files()) >= s.NumFiles() {
		t.Errorf("%q of %d files of %d", got, len(reading.Files()), s.NumFiles())
	}
}
