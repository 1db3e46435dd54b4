package ingest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
)

// A rename by another engine is none of the source's: gscd stops before it writes
// anything, and says how to undo it.
func TestColumnMappingTurnedOnByAnotherEngine(t *testing.T) {
	for _, running := range []bool{false, true} {
		s := newShared(t)
		src := story16()
		s.mustRun(src.upTo(2, 2), "17T08:30")
		rename := func() {
			snap := s.snapshot()
			fields := append([]schema.Field{}, snap.Schema().Fields...)
			for i := range fields {
				fields[i].Metadata = map[string]json.RawMessage{
					"delta.columnMapping.id": fmt.Append(nil, i+1), "delta.columnMapping.physicalName": fmt.Appendf(nil, "%q", fields[i].Name),
				}
			}
			fields[1].Name = "w"
			columns, err := schema.New(fields...)
			if err != nil {
				t.Fatal(err)
			}
			m := *snap.Metadata()
			m.SchemaString, m.Configuration = columns.String(), maps.Clone(m.Configuration)
			m.Configuration["delta.columnMapping.mode"] = "name"
			p := delta.WithFeatures(*snap.Protocol(), delta.FeatureColumnMapping)
			commit := action.Commit{Info: json.RawMessage(`{"operation":"RENAME COLUMN"}`), Protocol: &p, Metadata: &m}
			if err := s.store.PutIfAbsent(context.Background(), deltalog.CommitKey(snap.Version()+1), commit.Append(nil)); err != nil {
				t.Fatal(err)
			}
		}
		before := s.snapshot().Version()
		var err error
		if running {
			done := false
			err = s.run(src, "18T01:00", func(version int64) {
				if !done {
					before, done = version-1, true
					rename()
				}
			})
		} else {
			rename()
			err = s.run(src, "18T01:00", nil)
		}
		if !errors.Is(err, ingest.ErrForeignCommit) ||
			!strings.Contains(err.Error(), "the column v is gone") || !strings.Contains(err.Error(), fmt.Sprintf("restore version %d ", before)) {
			t.Errorf("running %t: %v", running, err)
		}
		snap := s.snapshot()
		if snap.Version() != before+1 || snap.Schema().Fields[1].Name != "w" || snap.Schema().Fields[1].Stored() != "v" {
			t.Errorf("running %t: %v, %+v", running, snap, snap.Schema().Fields)
		}
	}
}
