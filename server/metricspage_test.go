package server

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest/kafka"
	"github.com/gscd-io/gscd/server/group"
)

var rewrite = flag.Bool("rewrite", false, "write docs/metrics.md")

const metricsPage = "../docs/metrics.md"

// metricsHead stands before the tables of docs/metrics.md.
const metricsHead = `# Metrics

This page is written by the program's code: ` + "`go test ./server -run TestMetricsPage -rewrite`" + `.

` + "`gscd ingest`" + ` answers with them at ` + "`/metrics`" + ` ([HTTP](operations.md#http)). Counters count what this process has committed and
begin at 0 with it; gauges tell the table's state, and are absent while no runner has it loaded. Labels are bounded:
tables, topics and partitions are those of the configuration. The metrics of the Go runtime and of the process
(` + "`go_…`, `process_…`" + `) come with them. [Alert rules](operations.md#alerts) and a [dashboard](operations.md#dashboard) are made of them.
`

// metricsGroups are the tables of the page, by what their metrics are of.
var metricsGroups = []struct{ title, label string }{{"The process", ""}, {"Each sink of notifications", "sink"}, {"Each table", "table"}, {"Each partition", "partition"}}

// family is one metric as a table at work shows it.
type family struct {
	name, kind, help string
	labels           []string
}

// families are the program's own metrics, by name.
func families(t *testing.T) (own []family) {
	t.Helper()
	s, get, stop := served(t, mem.New())
	await(t, get)
	all, err := s.registry().Gather()
	stop()
	if err != nil {
		t.Fatal(err)
	}
	member, err := group.NewMember(group.Options{Group: "lake", Name: "a", Brokers: kafka.Options{Brokers: []string{"127.0.0.1:1"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer member.Close()
	grouped, err := New(Options{Group: member}).registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range grouped {
		if strings.HasPrefix(f.GetName(), "gscd_group_") {
			all = append(all, f)
		}
	}
	for _, f := range all {
		if !strings.HasPrefix(f.GetName(), "gscd_") {
			continue
		}
		one := family{name: f.GetName(), kind: strings.ToLower(f.GetType().String()), help: f.GetHelp()}
		for _, l := range f.GetMetric()[0].GetLabel() {
			one.labels = append(one.labels, l.GetName())
		}
		own = append(own, one)
	}
	return own
}

// group is the label that a metric is of: partition, table, sink, or "" for the process.
func (f family) group() string {
	for _, of := range []string{"partition", "table", "sink"} {
		if slices.Contains(f.labels, of) {
			return of
		}
	}
	return ""
}

// docs/metrics.md is what the code says of each metric.
func TestMetricsPage(t *testing.T) {
	var page strings.Builder
	page.WriteString(metricsHead)
	own := families(t)
	for _, group := range metricsGroups {
		fmt.Fprintf(&page, "\n## %s\n\n| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n", group.title)
		for _, f := range own {
			if f.group() != group.label {
				continue
			}
			var labels []string
			for _, l := range f.labels {
				labels = append(labels, "`"+l+"`")
			}
			fmt.Fprintf(&page, "| `%s` | %s | %s | %s |\n", f.name, f.kind, strings.Join(labels, ", "), f.help)
		}
	}
	if *rewrite {
		if err := os.WriteFile(metricsPage, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	is, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	if string(is) != page.String() {
		t.Errorf("docs/metrics.md is not what the code says: run go test ./server -run TestMetricsPage -rewrite. It would be\n%s", page.String())
	}
}
