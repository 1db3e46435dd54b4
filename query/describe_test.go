package query_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
	"github.com/gscd-io/gscd/query"
	"github.com/gscd-io/gscd/query/output"
)

func TestDescribe(t *testing.T) {
	ctx, table := t.Context(), delta.New(mem.New())
	column := func(name string, of schema.Type) schema.Field { return write.Column(name, of) }
	var rows [][]any
	for i := range 25 {
		rows = append(rows, []any{i, []string{"Berlin", "Paris"}[i/20], nil, "1.50"})
	}
	_, err := write.Create(ctx, table, write.Definition{
		Columns:     []schema.Field{column("id", schema.Of(schema.Long)), column("city", schema.Of(schema.StringType)), column("name", schema.Of(schema.StringType)), column("amount", schema.Decimal(20, 2))},
		PartitionBy: []string{"city"},
		Properties: map[string]string{
			delta.PropertyDeletionVectors: "true",
			"gscd.key":                    `["id"]`, "fs.s3a.secret.key": "hidden", "my.Access.Key": "hidden",
			"schema.registry": "https://user:hidden@host/path", "plain": "https://host/path",
		},
	}, write.Values(rows))
	if err != nil {
		t.Fatal(err)
	}
	deleted, err := write.Delete(ctx, table, "id IN (1, 2, 3)")
	if err != nil {
		t.Fatal(err)
	}
	snapshot := deleted.Snapshot
	d := query.Describe(snapshot)
	bytesOfAll := snapshot.Files()[0].Size + snapshot.Files()[1].Size
	if d.Files != 2 || d.Bytes != bytesOfAll || d.Rows != 22 || d.DeletedRows != 3 || d.DeletionVectors != 1 || d.Version != 1 {
		t.Errorf("got %+v", d)
	}
	var out bytes.Buffer
	if err := output.WriteObject(output.JSON, &out, d.Record()); err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(out.Bytes(), []byte("hidden")) {
		t.Errorf("a secret is shown: %s", out.Bytes())
	}
	var record struct {
		Rows       int64             `json:"rows"`
		Properties map[string]string `json:"properties"`
		Partition  []string          `json:"partition_columns"`
		Columns    []struct {
			Name, Type          string
			Nullable, Partition bool
		} `json:"columns"`
		Reader   []string `json:"reader_features"`
		Name     *string  `json:"name"`
		Created  *string  `json:"created"`
		MinRead  int      `json:"min_reader_version"`
		MinWrite int      `json:"min_writer_version"`
	}
	if err := json.Unmarshal(out.Bytes(), &record); err != nil {
		t.Fatal(err)
	}
	if record.Rows != 22 || record.Properties["gscd.key"] != `["id"]` || record.Properties["plain"] != "https://host/path" ||
		len(record.Partition) != 1 || record.Columns[3].Type != "decimal(20,2)" || !record.Columns[1].Partition ||
		record.Name != nil || record.Created == nil || record.MinRead != 3 || record.MinWrite != 7 || record.Reader[0] != "deletionVectors" {
		t.Errorf("got %s", out.Bytes())
	}

	bare := *snapshot.Files()[1]
	bare.Stats = ""
	x := delta.NewTransaction(table, snapshot)
	x.Remove(delta.RemoveOf(&bare, time.Now(), false))
	x.Add(&bare)
	outcome, err := x.Commit(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if d = query.Describe(outcome.Snapshot); d.Rows != -1 || d.DeletedRows != 3 {
		t.Errorf("without statistics: %+v", d)
	}
	if rows := d.Record()[7]; rows.Name != "rows" || rows.Value != nil {
		t.Errorf("got %+v", rows)
	}
}
