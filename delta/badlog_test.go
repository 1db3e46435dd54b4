package delta_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/deltalog"
)

// Whatever the hint says, the newest version is found.
func TestTheHintOnlySavesAListing(t *testing.T) {
	store, table, s := newTable(t, newClock())
	s = grow(t, table, s, 4)
	if _, err := table.Checkpoint(ctx, s, delta.CheckpointOptions{}); err != nil {
		t.Fatal(err)
	}
	s = grow(t, table, s, 2)
	want := state(s)
	for _, hint := range []string{
		"", "{", "null", "[]", `"x"`, "\x00", `{"version":null}`, `{"version":-1}`, `{"version":"4"}`, `{"version":3}`, `{"version":5}`, `{"version":99}`, `{"version":9223372036854775807}`,
		`{"version":1e400}`, `{"version":4,"parts":7,"size":1}`, `{"version":4,"size":-1,"checkpointSchema":` + strings.Repeat("[", 5000) + `}`, strings.Repeat(`{"version":`, 20_000),
		`{"version":4,"v2Checkpoint":{"path":"../../etc/passwd","sizeInBytes":1}}`, `{"version":0}`,
	} {
		if err := store.Put(ctx, deltalog.HintKey, []byte(hint)); err != nil {
			t.Fatal(err)
		}
		got, err := table.Snapshot(ctx)
		if err != nil {
			t.Errorf("%.60s: %v", hint, err)
		} else if state(got) != want {
			t.Errorf("%.60s: %s, want %s", hint, state(got), want)
		}
	}
}

// Logs that lie or never end are refused, soon.
func TestBadLogs(t *testing.T) {
	const protocol = `{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}` + "\n"
	metadata := func(schemaString string) string {
		return fmt.Sprintf(`{"metaData":{"id":"x","format":{"provider":"parquet"},"schemaString":%q,"partitionColumns":[],"configuration":{}}}`, schemaString)
	}
	deep := `"long"`
	for range 5000 {
		deep = `{"type":"array","elementType":` + deep + `,"containsNull":true}`
	}
	for name, log := range map[string]string{
		"a schema without end":     protocol + metadata(`{"type":"struct","fields":[{"name":"a","type":`+deep+`,"nullable":true,"metadata":{}}]}`),
		"a schema that is a leaf":  protocol + metadata(`"long"`),
		"two columns of one name":  protocol + metadata(`{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{}},{"name":"A","type":"long","nullable":true,"metadata":{}}]}`),
		"an unknown field nested":  protocol + `{"x":` + strings.Repeat(`{"y":`, 100_000),
		"a commitInfo nested":      `{"commitInfo":` + strings.Repeat("[", 1<<20),
		"a version that overflows": `{"protocol":{"minReaderVersion":99999999999999999999,"minWriterVersion":2}}`,
		"nothing":                  "\n\n",
		"a size that overflows":    protocol + metadata(idSchema) + "\n" + `{"add":{"path":"a","partitionValues":{},"size":1e30,"modificationTime":1,"dataChange":true}}`,
		"no path":                  protocol + metadata(idSchema) + "\n" + `{"add":{"partitionValues":{},"size":1,"modificationTime":1,"dataChange":true}}`,
	} {
		store, _, _ := newTable(t, newClock())
		if err := store.Put(ctx, deltalog.CommitKey(0), []byte(log)); err != nil {
			t.Fatal(err)
		}
		if _, err := delta.New(store).Snapshot(ctx); !errors.Is(err, delta.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
