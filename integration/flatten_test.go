//go:build integration

package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/decode"
)

// flattened has Debezium's own transform make flat records of a recording, and gives the
// file with them. dropped is how many it drops.
func flattened(t testing.TB, paths []string, settings ...string) (file string, dropped int) {
	t.Helper()
	var in bytes.Buffer
	var lines []map[string]any
	for _, path := range paths {
		for _, line := range linesOf(t, path) {
			var r map[string]any
			d := json.NewDecoder(bytes.NewReader(line))
			d.UseNumber()
			if err := d.Decode(&r); err != nil {
				t.Fatal(err)
			}
			lines = append(lines, r)
			if err := json.NewEncoder(&in).Encode(map[string]any{"headers": r["headers"], "key": r["key"], "value": r["payload"]}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var stderr bytes.Buffer
	args := append([]string{"-Xmx512m", "-XX:+UseSerialGC", "-cp", filepath.Join(component(t, "connect"), "*"), engineFile(t, "Flatten.java")}, settings...)
	cmd := exec.CommandContext(t.Context(), "java", args...)
	cmd.Stdin, cmd.Stderr = &in, &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("flatten: %v\n%s", err, stderr.Bytes())
	}
	var flat bytes.Buffer
	answers := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	if len(answers) != len(lines) {
		t.Fatalf("%d answers to %d records\n%s", len(answers), len(lines), stderr.Bytes())
	}
	for i, answer := range answers {
		if string(answer) == `"dropped"` {
			dropped++
			continue
		}
		var r map[string]any
		if err := json.Unmarshal(answer, &r); err != nil {
			t.Fatal(err)
		}
		lines[i]["key"], lines[i]["payload"], lines[i]["headers"] = r["key"], r["value"], r["headers"]
		if err := json.NewEncoder(&flat).Encode(lines[i]); err != nil {
			t.Fatal(err)
		}
	}
	file = filepath.Join(t.TempDir(), "flat.jsonl")
	if err := os.WriteFile(file, flat.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return file, dropped
}

// TestFlattenedDays: three days of a connector's records, flattened by Debezium's own
// transform, lead to the server's rows at the end of each day.
func TestFlattenedDays(t *testing.T) {
	fields := "add.fields=op,db,table,name,server_id,file,pos,row,gtid,snapshot,source.ts_ms"
	for _, s := range recordedStreams(t) {
		if s.name != "s3.stock" { // it has schemas, which the transform needs
			continue
		}
		for mode, schemas := range map[string]bool{"rewrite": true, "rewrite-with-tombstone": false} {
			t.Run(fmt.Sprintf("%s, schemas %t", mode, schemas), func(t *testing.T) {
				t.Parallel()
				file, dropped := flattened(t, s.paths(t), "delete.tombstone.handling.mode="+mode, fields, fmt.Sprintf("schemas=%t", schemas))
				if (dropped == 0) != (mode == "rewrite-with-tombstone") {
					t.Errorf("%d records dropped", dropped)
				}
				s := s
				if !schemas {
					s.columns = sqlColumns(t, "00-schema.sql", "shop.stock")
				}
				r := rigOn(t, mem.New(), mem.New(), nil, s.options(t), func(o *ingest.Options) { o.Format = decode.Auto })
				r.readOn(t, recordedEnd, file)
				s.checkDays(t, r)
			})
		}
	}
}
