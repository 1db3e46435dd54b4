package query_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
	"github.com/gscd-io/gscd/query"
	"github.com/gscd-io/gscd/query/output"
)

// What commits say of themselves comes out as Spark names it, without secrets.
func TestHistory(t *testing.T) {
	ctx, table := t.Context(), delta.New(mem.New(), delta.WithEngineInfo("test/1"))
	committed := func(r write.Result, err error) write.Result {
		t.Helper()
		if err != nil || !r.Committed {
			t.Fatalf("%+v, %v", r, err)
		}
		return r
	}
	columns := []schema.Field{write.Column("id", schema.Of(schema.Long)), write.Column("name", schema.Of(schema.StringType))}
	committed(write.Create(ctx, table, write.Definition{Columns: columns, Properties: map[string]string{"my.secret": "hidden"}}, write.Source{}))
	committed(write.Append(ctx, table, write.Values([][]any{{1, "a"}, {2, "b"}, {3, "c"}})))
	committed(write.Update(ctx, table, "id = 1", write.Set{"name": "x"}))
	committed(write.Merge(ctx, table, write.MergeInto{Key: []string{"id"}}, write.Values([][]any{{2, "y"}, {9, "z"}})))
	last := committed(write.Delete(ctx, table, "id = 3"))

	want := []struct {
		operation string
		blind     bool
		read      any
		metrics   map[string]string
		times     bool
	}{
		{"CREATE TABLE", false, nil, map[string]string{}, false},
		{"WRITE", true, int64(0), map[string]string{"numFiles": "1", "numOutputRows": "3"}, false},
		{"UPDATE", false, int64(1), map[string]string{"numUpdatedRows": "1", "numCopiedRows": "2", "numAddedFiles": "1", "numRemovedFiles": "1"}, true},
		{"MERGE", false, int64(2), map[string]string{
			"numSourceRows": "2", "numTargetRowsInserted": "1", "numTargetRowsUpdated": "1", "numTargetRowsDeleted": "0", "numTargetRowsCopied": "2", "numOutputRows": "4",
		}, true},
		{"DELETE", false, int64(3), map[string]string{"numDeletedRows": "1", "numCopiedRows": "3"}, true},
	}
	n := 0
	for v, err := range table.History(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		w := want[n]
		cells := query.HistoryCells(v)
		if len(cells) != len(query.HistoryColumns()) || cells[2] != w.operation || cells[5] != w.read || cells[6] != "Serializable" || cells[7] != w.blind || cells[8] != "test/1" {
			t.Errorf("version %d: %v", n, cells)
		}
		var metrics map[string]string
		if err := json.Unmarshal(cells[4].(json.RawMessage), &metrics); err != nil {
			t.Fatal(err)
		}
		for name, value := range w.metrics {
			if metrics[name] != value {
				t.Errorf("version %d: %s is %q, want %q", n, name, metrics[name], value)
			}
		}
		for _, name := range []string{"scanTimeMs", "rewriteTimeMs"} {
			if _, ok := metrics[name]; ok != w.times {
				t.Errorf("version %d: %v", n, metrics)
			}
		}
		if raw := cells[3].(json.RawMessage); bytes.Contains(raw, []byte("hidden")) || !json.Valid(raw) {
			t.Errorf("version %d: %s", n, raw)
		}
		n++
	}
	if n != len(want) {
		t.Errorf("%d versions", n)
	}

	x := delta.NewTransaction(table, last.Snapshot)
	x.SetProtocol(delta.WithFeatures(*last.Snapshot.Protocol(), delta.FeatureClustering, delta.FeatureDomainMetadata))
	x.Implements(delta.FeatureClustering)
	x.SetDomain(action.DomainMetadata{Domain: "delta.clustering", Configuration: `{"clusteringColumns":[["name"]],"domainName":"delta.clustering"}`})
	out, err := x.Commit(ctx)
	if err != nil || !out.Committed {
		t.Fatalf("%+v, %v", out, err)
	}
	d, err := table.Detail(ctx, out.Snapshot)
	if err != nil {
		t.Fatal(err)
	}
	size := out.Snapshot.Files()[0].Size
	if d.Format != "parquet" || d.NumFiles != 1 || d.SizeInBytes != size || !slices.Equal(d.ClusteringColumns, []string{"name"}) || d.MinWriterVersion != 7 ||
		!slices.Contains(d.TableFeatures, "clustering") || d.Modified.IsZero() || d.Modified.Before(d.Created) || !maps.Equal(d.Properties, map[string]string{"my.secret": "hidden"}) {
		t.Errorf("%+v", d)
	}
	var printed bytes.Buffer
	if err := output.WriteObject(output.JSON, &printed, query.DetailRecord(d)); err != nil || bytes.Contains(printed.Bytes(), []byte("hidden")) {
		t.Errorf("%s, %v", printed.Bytes(), err)
	}
}
