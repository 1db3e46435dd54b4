package suite

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gscd-io/gscd/bench/scenario"
	"github.com/gscd-io/gscd/query/output"
)

// pick gives the middle one of a figure of all repeats, or the one at an end.
func (l *Line) pick(at func(n int) int, figure func(*scenario.Result) float64) float64 {
	var all []float64
	for _, r := range l.Results {
		all = append(all, figure(r))
	}
	slices.Sort(all)
	return all[at(len(all))]
}

func lowest(int) int    { return 0 }
func middle(n int) int  { return n / 2 }
func highest(n int) int { return n - 1 }

// median is the Result whose speed is the middle one: all that is counted is from there.
func (l *Line) median() *scenario.Result {
	sorted := slices.Clone(l.Results)
	slices.SortStableFunc(sorted, func(a, b *scenario.Result) int { return cmp.Compare(a.Seconds, b.Seconds) })
	return sorted[len(sorted)/2]
}

// timed are the figures that differ from run to run, by name.
var timed = []struct {
	name   string
	figure func(*scenario.Result) float64
}{
	{"seconds", func(r *scenario.Result) float64 { return r.Seconds }},
	{"per_second", func(r *scenario.Result) float64 { return r.Per(r.Seconds) }},
	{"per_cpu_second", func(r *scenario.Result) float64 { return r.Per(r.CPU()) }},
	{"cpu_seconds", (*scenario.Result).CPU},
	{"peak_rss_bytes", func(r *scenario.Result) float64 { return float64(r.PeakRSS) }},
}

// Record is a line as it is printed, with the machine.
func (l *Line) Record(m Machine) output.Record {
	r, s := l.median(), l.Spec
	number := func(f float64) any { return round(f) }
	ratio := func(a, b float64) any {
		if b <= 0 || a <= 0 {
			return nil
		}
		return round(a / b)
	}
	var latency, ceiling, ofCeiling, ofCeilingCPU, tableRows any
	if r.Latency != nil {
		latency = output.Record{{Name: "p50", Value: number(r.Latency.P50)}, {Name: "p99", Value: number(r.Latency.P99)}, {Name: "max", Value: number(r.Latency.Max)}}
	}
	if l.Ceiling != nil && len(l.Ceiling.Results) > 0 {
		c := l.Ceiling.median()
		ceiling, ofCeiling, ofCeilingCPU = l.Ceiling.Scenario.Name, ratio(r.Per(r.Seconds), c.Per(c.Seconds)), ratio(r.Per(r.CPU()), c.Per(c.CPU()))
	}
	if l.Scenario.Needs.Rows {
		tableRows = s.Params.Rows
	}
	var rate, seconds, interval any
	if l.Scenario.Needs.Paced {
		rate, seconds, interval = s.Params.Rate, round(s.Duration.Seconds()), round(s.Interval.Seconds())
	}
	bounds := func(at func(int) int) any {
		if len(l.Results) < 2 {
			return nil
		}
		var out output.Record
		for _, t := range timed {
			out = append(out, output.Item{Name: t.name, Value: round(l.pick(at, t.figure))})
		}
		return out
	}
	var rows, checksum any
	if r.Checked {
		rows, checksum = r.Rows, r.Checksum
	}
	return output.Record{
		{Name: "scenario", Value: l.Scenario.Name}, {Name: "source", Value: l.Source()},
		{Name: "table_rows", Value: tableRows}, {Name: "columns", Value: s.Params.Columns}, {Name: "mix", Value: s.Params.Mix}, {Name: "keys", Value: s.Params.Keys},
		{Name: "seed", Value: s.Params.Seed}, {Name: "days", Value: s.Params.Days}, {Name: "batch", Value: s.Batch}, {Name: "batches", Value: s.Batches},
		{Name: "decoders", Value: s.Decoders}, {Name: "partitions", Value: s.Partitions},
		{Name: "rate", Value: rate}, {Name: "duration_seconds", Value: seconds}, {Name: "batch_interval_seconds", Value: interval},
		{Name: "unit", Value: r.Unit}, {Name: "done", Value: r.Done}, {Name: "seconds", Value: number(r.Seconds)}, {Name: "per_second", Value: number(r.Per(r.Seconds))},
		{Name: "per_cpu_second", Value: number(r.Per(r.CPU()))}, {Name: "cpu_seconds", Value: number(r.CPU())},
		{Name: "cpu_user_seconds", Value: number(r.CPUUser)}, {Name: "cpu_system_seconds", Value: number(r.CPUSystem)}, {Name: "source_cpu_seconds", Value: number(r.CPUSource)},
		{Name: "peak_rss_bytes", Value: r.PeakRSS}, {Name: "allocations", Value: r.Allocations}, {Name: "allocated_bytes", Value: r.AllocatedBytes}, {Name: "gc_cpu_share", Value: number(r.GCShare)},
		{Name: "requests", Value: output.Record{
			{Name: "get", Value: r.Requests.Get}, {Name: "head", Value: r.Requests.Head}, {Name: "put", Value: r.Requests.Put},
			{Name: "put_if_absent", Value: r.Requests.PutIfAbsent}, {Name: "delete", Value: r.Requests.Delete}, {Name: "list", Value: r.Requests.List},
		}},
		{Name: "bytes_read", Value: r.BytesRead}, {Name: "bytes_written", Value: r.BytesWritten}, {Name: "bytes_stored", Value: r.BytesStored},
		{Name: "bytes_per_event", Value: ratio(float64(r.BytesWritten), float64(r.Done))}, {Name: "own_bytes", Value: r.OwnBytes},
		{Name: "write_amplification", Value: ratio(float64(r.BytesWritten), float64(r.OwnBytes))},
		{Name: "files", Value: r.Files}, {Name: "commits", Value: r.Commits}, {Name: "seals", Value: r.Seals},
		{Name: "requests_per_commit", Value: ratio(float64(r.Requests.Total()), float64(r.Commits))},
		{Name: "latency_ms", Value: latency}, {Name: "ceiling", Value: ceiling}, {Name: "of_ceiling", Value: ofCeiling}, {Name: "of_ceiling_cpu", Value: ofCeilingCPU},
		{Name: "rows", Value: rows}, {Name: "checksum", Value: checksum}, {Name: "checked", Value: r.Checked},
		{Name: "repeat", Value: len(l.Results)}, {Name: "min", Value: bounds(lowest)}, {Name: "max", Value: bounds(highest)},
		{Name: "machine", Value: m.Record()},
	}
}

// round keeps four digits, which is more than repeats have in common.
func round(f float64) float64 {
	if f == 0 || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(f))))
	if scale < 1 { // whole digits stay
		return math.Round(f)
	}
	return math.Round(f*scale) / scale
}

// Names are those of a Record.
func Names() []string {
	l := &Line{Scenario: &scenario.Scenario{}, Results: []*scenario.Result{{}}}
	var out []string
	for _, item := range l.Record(Machine{}) {
		out = append(out, item.Name)
	}
	return out
}

// HasLatency tells that the line has a distribution of times.
func (l *Line) HasLatency() bool { return l.median().Latency != nil }

// Short is a line for people: some figures, in units that are easily read.
func (l *Line) Short() output.Record {
	r := l.median()
	latency, ofCeiling, amplification, rows, batch, written := "", "", "", "", "", ""
	if r.Latency != nil {
		latency = fmt.Sprintf("%.0f / %.0f", r.Latency.P50, r.Latency.P99)
	}
	if l.Ceiling != nil && len(l.Ceiling.Results) > 0 {
		c := l.Ceiling.median()
		if cs := c.Per(c.Seconds); cs > 0 {
			ofCeiling = fmt.Sprintf("%.0f %%", 100*r.Per(r.Seconds)/cs)
		}
	}
	if r.OwnBytes > 0 && r.BytesWritten > 0 {
		amplification = fmt.Sprintf("%.1f", float64(r.BytesWritten)/float64(r.OwnBytes))
	}
	if l.Scenario.Needs.Rows {
		rows = count(float64(l.Spec.Params.Rows))
	}
	if l.Scenario.Needs.Table || !l.Scenario.Needs.Events {
		batch = count(float64(l.Spec.Batch))
	}
	if r.BytesWritten > 0 {
		written = count(float64(r.BytesWritten)) + "B"
	}
	requests := ""
	if n := r.Requests.Total(); n > 0 {
		requests = count(float64(n))
	}
	return output.Record{
		{Name: "scenario", Value: l.Scenario.Name}, {Name: "rows", Value: rows}, {Name: "batch", Value: batch},
		{Name: "/s", Value: count(r.Per(r.Seconds))}, {Name: "/CPU s", Value: count(r.Per(r.CPU()))},
		{Name: "MiB", Value: fmt.Sprint(r.PeakRSS >> 20)}, {Name: "calls", Value: requests}, {Name: "written", Value: written}, {Name: "x own", Value: amplification},
		{Name: "ceiling", Value: ofCeiling}, {Name: "p50/p99 ms", Value: latency},
	}
}

// count is a number with three digits and k, M or G.
func count(f float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if f >= unit.size {
			return digits(f/unit.size) + " " + unit.name
		}
	}
	return digits(f)
}

// digits writes three of them.
func digits(f float64) string {
	switch {
	case f >= 100 || f == math.Trunc(f):
		return fmt.Sprintf("%.0f", f)
	case f >= 10:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.2f", f)
}
