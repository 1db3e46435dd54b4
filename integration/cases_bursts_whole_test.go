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
	"time"

	"github.com/gscd-io/gscd/ingest/change"
)

func init() { wholeBursts, startProgram = true, costsOfStart }

// costsOfStart reads a recording of the next burst. Python measures: to the peak of a
// process that this one starts, the system counts what this one holds.
func costsOfStart(t *testing.T, tables []string, next [][]*change.Record) []programCost {
	const measure = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=sys.stderr)\n" +
		"r = resource.getrusage(resource.RUSAGE_CHILDREN); print(r.ru_maxrss, r.ru_utime + r.ru_stime)"
	costs := make([]programCost, len(tables))
	for range 5 {
		for i, from := range tables {
			table, input := filepath.Join(t.TempDir(), "table"), filepath.Join(t.TempDir(), "next.jsonl")
			if err := os.CopyFS(table, os.DirFS(from)); err != nil {
				t.Fatal(err)
			}
			var lines bytes.Buffer
			for _, r := range next[i] {
				line, err := json.Marshal(map[string]any{
					"topic": r.Topic, "partition": r.Partition, "offset": r.Offset, "timestamp": r.Timestamp, "key": json.RawMessage(r.Key), "value": json.RawMessage(r.Value),
				})
				if err != nil {
					t.Fatal(err)
				}
				lines.Write(append(line, '\n'))
			}
			if err := os.WriteFile(input, lines.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
			c := exec.Command("python3", "-c", measure, binary(t), "ingest", "--input", input, "--name", "user_dim", "--location", table,
				"--topic", topicName, "--timezone", "Asia/Shanghai", "--until-end")
			var faults bytes.Buffer
			c.Stderr = &faults
			out, err := c.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, faults.Bytes())
			}
			var kib int64
			var seconds float64
			if _, err := fmt.Sscan(string(out), &kib, &seconds); err != nil {
				t.Fatal(err)
			}
			cost := programCost{time.Duration(seconds * float64(time.Second)), kib << 10}
			if had := costs[i]; had.rss > 0 {
				cost = programCost{min(cost.cpu, had.cpu), min(cost.rss, had.rss)}
			}
			costs[i] = cost
		}
	}
	return costs
}
