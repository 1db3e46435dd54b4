package suite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/query/output"
)

// printed is what `gscd bench --format json` or jsonl has printed.
type printed []map[string]any

// What makes two lines of two runs the same line.
var sizes = []string{
	"scenario", "source", "table_rows", "columns", "mix", "keys", "seed", "days", "batch", "batches", "decoders", "partitions",
	"rate", "duration_seconds", "batch_interval_seconds",
}

// What is compared. Counted figures are the same wherever one build runs on one size.
var (
	countedFigures = []string{
		"done", "rows", "allocations", "allocated_bytes", "requests.get", "requests.head", "requests.put", "requests.put_if_absent", "requests.delete",
		"requests.list", "bytes_read", "bytes_written", "bytes_stored", "own_bytes", "write_amplification", "files", "commits", "seals",
	}
	timedFigures = []string{
		"per_second", "per_cpu_second", "seconds", "cpu_seconds", "source_cpu_seconds", "peak_rss_bytes", "gc_cpu_share",
		"latency_ms.p50", "latency_ms.p99", "latency_ms.max", "of_ceiling", "of_ceiling_cpu",
	}
)

// ErrNotAComparison is wrapped by the error about files that can't be compared.
var ErrNotAComparison = errors.New("not the output of gscd bench --format json")

// ComparedNames are those of what Compare gives.
func ComparedNames() []string {
	return []string{"scenario", "source", "table_rows", "batch", "kind", "figure", "old", "new", "ratio"}
}

// Compare holds two outputs against each other, line by line: ratios are new to old, null
// where the old one is 0. Notices say what is in one of them alone, and that the machines
// differ. Figures that are 0 in both are left out.
func Compare(old, new []byte) (records []output.Record, notices []string, err error) {
	before, err := read(old)
	if err != nil {
		return nil, nil, fmt.Errorf("the old one: %w", err)
	}
	after, err := read(new)
	if err != nil {
		return nil, nil, fmt.Errorf("the new one: %w", err)
	}
	if a, b := machineOf(before), machineOf(after); a != b {
		notices = append(notices, fmt.Sprintf("timed figures can't be compared: one is from %s, the other from %s", a, b))
	}
	both := 0
	for _, n := range after {
		i := slices.IndexFunc(before, func(o map[string]any) bool { return name(o) == name(n) })
		if i < 0 {
			notices = append(notices, "only in the new one: "+name(n))
			continue
		}
		both++
		o := before[i]
		for _, kind := range []struct {
			name    string
			figures []string
		}{{"counted", countedFigures}, {"timed", timedFigures}} {
			for _, figure := range kind.figures {
				was, is := number(o, figure), number(n, figure)
				if was == 0 && is == 0 {
					continue
				}
				var ratio any
				if was != 0 {
					ratio = round(is / was)
				}
				records = append(records, output.Record{
					{Name: "scenario", Value: n["scenario"]}, {Name: "source", Value: n["source"]},
					{Name: "table_rows", Value: text(n["table_rows"])}, {Name: "batch", Value: text(n["batch"])},
					{Name: "kind", Value: kind.name}, {Name: "figure", Value: figure}, {Name: "old", Value: was}, {Name: "new", Value: is}, {Name: "ratio", Value: ratio},
				})
			}
		}
	}
	for _, o := range before {
		if !slices.ContainsFunc(after, func(n map[string]any) bool { return name(o) == name(n) }) {
			notices = append(notices, "only in the old one: "+name(o))
		}
	}
	if both == 0 {
		return nil, notices, errors.New("no line is in both: the same flags give the same lines")
	}
	return records, notices, nil
}

// read takes a JSON array of lines, or one after the other.
func read(data []byte) (out printed, err error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	for {
		var v any
		if err := decoder.Decode(&v); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotAComparison, err)
		}
		list, isList := v.([]any)
		if !isList {
			list = []any{v}
		}
		for _, item := range list {
			line, ok := item.(map[string]any)
			if _, named := line["scenario"].(string); !ok || !named {
				return nil, fmt.Errorf("%w: a record has no scenario", ErrNotAComparison)
			}
			out = append(out, line)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: it has no record", ErrNotAComparison)
	}
	return out, nil
}

// name is a line's scenario with its sizes.
func name(line map[string]any) string {
	var parts []string
	for _, size := range sizes {
		if v := line[size]; v != nil {
			parts = append(parts, fmt.Sprintf("%s=%v", size, v))
		}
	}
	return strings.Join(parts, " ")
}

// number is a figure, which may lie in an object of the line; 0 where there is none.
func number(line map[string]any, figure string) float64 {
	outer, inner, nested := strings.Cut(figure, ".")
	v := line[outer]
	if nested {
		object, _ := v.(map[string]any)
		v = object[inner]
	}
	n, ok := v.(json.Number)
	if !ok {
		return 0
	}
	f, err := n.Float64()
	if err != nil {
		return 0
	}
	return f
}

// text is a number as it was read, nil for none.
func text(v any) any {
	if n, ok := v.(json.Number); ok {
		return n
	}
	return nil
}

// machineOf is where a run was made.
func machineOf(lines printed) string {
	m, _ := lines[0]["machine"].(map[string]any)
	return fmt.Sprintf("%v cores of %v with %v", m["cores"], m["cpu"], m["go"])
}
