package server

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

const (
	rulesFile     = "../deploy/prometheus/rules.yaml"
	dashboardFile = "../deploy/grafana/gscd.json"
	runbooksPage  = "../docs/runbooks.md"
)

// alert is a rule of rulesFile.
type alert struct {
	Alert, Expr string
	Labels      map[string]string
	Annotations map[string]string
}

func alerts(t *testing.T) (out []alert) {
	t.Helper()
	text, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []struct{ Rules []alert } }
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		out = append(out, g.Rules...)
	}
	return out
}

// panel is a panel of the dashboard.
type panel struct {
	Title, Description string
	Targets            []struct{ Expr string }
}

// queries are what the dashboard asks for, by the panel's title.
func queries(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		UID        string
		Panels     []panel
		Templating struct {
			List []struct{ Name, Definition string }
		}
		Annotations struct{ List []struct{ Name, Expr string } }
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	out := map[string][]string{}
	for _, p := range d.Panels {
		for _, q := range p.Targets {
			out[p.Title] = append(out[p.Title], q.Expr)
		}
		if len(p.Targets) > 0 && p.Description == "" {
			t.Errorf("panel %q says not what it shows", p.Title)
		}
	}
	for _, v := range d.Templating.List {
		if v.Definition != "" {
			out["the variable "+v.Name] = []string{v.Definition}
		}
	}
	for _, a := range d.Annotations.List {
		out["the annotation "+a.Name] = []string{a.Expr}
	}
	return out
}

var (
	metricForm  = regexp.MustCompile(`\b(gscd_[a-z_]+)(\{[^}]*\})?`)
	matcherForm = regexp.MustCompile(`([a-z_]+)\s*(?:=~|!~|!=|=)\s*"`)
	foreignForm = regexp.MustCompile(`\b(?:process|go)_[a-z_]+`)
)

// unknownNames are the metrics and labels of an expression that the program does not have.
func unknownNames(expr string, own []family) (wrong []string) {
	for _, m := range metricForm.FindAllStringSubmatch(expr, -1) {
		i := slices.IndexFunc(own, func(f family) bool {
			return f.name == m[1] || f.kind == "histogram" && slices.Contains([]string{f.name + "_bucket", f.name + "_sum", f.name + "_count"}, m[1])
		})
		if i < 0 {
			wrong = append(wrong, m[1])
			continue
		}
		for _, l := range matcherForm.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(own[i].labels, l[1]) {
				wrong = append(wrong, m[1]+" with the label "+l[1])
			}
		}
	}
	// Those of the runtime that are relied on; client_golang has had them under these names from the beginning.
	for _, name := range foreignForm.FindAllString(expr, -1) {
		if !slices.Contains([]string{"process_start_time_seconds", "process_resident_memory_bytes", "process_cpu_seconds_total", "go_memstats_heap_inuse_bytes"}, name) {
			wrong = append(wrong, name)
		}
	}
	return wrong
}

// Rules and dashboard ask for metrics that there are; each rule wakes somebody or waits for the morning, and has its entry in the runbooks.
func TestAlertsAndDashboard(t *testing.T) {
	own := families(t)
	if got := unknownNames(`gscd_partition_lag{topic="t"} and gscd_seal_overdo_seconds > 1 or gscd_commit_seconds_bucket{le="1", fate="x"} and go_gc`, own); len(got) != 4 {
		t.Errorf("of names that there are not it found %q", got) // le too: buckets are asked for by quantile alone
	}
	page, err := os.ReadFile(runbooksPage)
	if err != nil {
		t.Fatal(err)
	}
	entries := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^## (\w+)$`).FindAllStringSubmatch(string(page), -1) {
		entries[m[1]] = true
	}
	for _, a := range alerts(t) {
		for _, name := range unknownNames(a.Expr, own) {
			t.Errorf("%s asks for %s", a.Alert, name)
		}
		if s := a.Labels["severity"]; s != "page" && s != "ticket" {
			t.Errorf("%s has the severity %q", a.Alert, s)
		}
		if !entries[a.Alert] || a.Annotations["summary"] == "" || a.Annotations["description"] == "" ||
			a.Annotations["runbook_url"] != "https://github.com/gscd-io/gscd/blob/main/docs/runbooks.md#"+strings.ToLower(a.Alert) {
			t.Errorf("%s: an entry in docs/runbooks.md: %t, annotations %q", a.Alert, entries[a.Alert], a.Annotations)
		}
		delete(entries, a.Alert)
	}
	for name := range entries {
		if strings.HasPrefix(name, "Gscd") {
			t.Errorf("docs/runbooks.md has %s, which no rule fires", name)
		}
	}
	for title, list := range queries(t) {
		for _, expr := range list {
			for _, name := range unknownNames(expr, own) {
				t.Errorf("the dashboard's %q asks for %s", title, name)
			}
		}
	}
}

// The rules fire where they should, and would not without what they say.
func TestAlertsFire(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil { // integration/engines/prometheus.sh puts it there
		promtool, err = filepath.Abs("../build/integration/prometheus/usr/bin/promtool")
		if err == nil {
			_, err = os.Stat(promtool)
		}
	}
	if err != nil {
		t.Skip("promtool is not on this machine (it comes with Prometheus): the unit tests of the alert rules were not run")
	}
	check := func(dir string, args ...string) error {
		c := exec.Command(promtool, args...)
		c.Dir = dir
		out, err := c.CombinedOutput()
		if err != nil {
			return fmt.Errorf("promtool %s: %w\n%s", strings.Join(args, " "), err, out)
		}
		return nil
	}
	home := filepath.Dir(rulesFile)
	for _, args := range [][]string{{"check", "rules", "rules.yaml"}, {"test", "rules", "rules_test.yaml"}} {
		if err := check(home, args...); err != nil {
			t.Fatal(err)
		}
	}

	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// What the dashboard asks for is PromQL.
	rules := []string{}
	for _, list := range queries(t) {
		for _, expr := range list {
			if strings.HasPrefix(expr, "label_values(") {
				continue
			}
			expr = strings.NewReplacer("$table", ".*", "$__rate_interval", "5m").Replace(expr)
			rules = append(rules, fmt.Sprintf("      - {record: panel%d, expr: %q}\n", len(rules), expr))
		}
	}
	write("panels.yaml", "groups:\n  - name: panels\n    rules:\n"+strings.Join(rules, ""))
	if err := check(dir, "check", "rules", "panels.yaml"); err != nil {
		t.Error(err)
	}

	// Each rule is tested: were it never true, or always, a test of it would fail.
	text, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	tests, err := os.ReadFile(filepath.Join(home, "rules_test.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	write("rules_test.yaml", string(tests))
	for name, instead := range map[string]string{"never": "vector(0) == 1", "always": "(%s) or vector(1)"} {
		changed := string(text)
		for _, a := range alerts(t) {
			was := "expr: '" + strings.ReplaceAll(a.Expr, "'", "''") + "'\n"
			if !strings.Contains(changed, was) {
				t.Fatalf("%s is not written as %s", a.Alert, was)
			}
			changed = strings.Replace(changed, was, "expr: '"+strings.ReplaceAll(instead, "%s", a.Expr)+"'\n", 1)
		}
		write("rules.yaml", changed)
		err := check(dir, "test", "rules", "rules_test.yaml")
		for _, a := range alerts(t) {
			if err == nil || !strings.Contains(err.Error(), "alertname: "+a.Alert+",") {
				t.Errorf("no test of %s fails where it is %s true: %v", a.Alert, name, err)
			}
		}
	}
}
