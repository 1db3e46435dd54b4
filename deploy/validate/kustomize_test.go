package validate

import (
	"flag"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

var rewrite = flag.Bool("rewrite", false, "write the copies of rules and dashboard that kustomize needs in its own folder")

// build is `kustomize build` of a folder.
func build(t *testing.T, folder string) map[string]runtime.Object {
	t.Helper()
	all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatal(err)
	}
	text, err := all.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return decodeText(t, folder, string(text))
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// kept compares a copy with what it is made of.
func kept(t *testing.T, name, want string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if read(t, name) != want {
		t.Errorf("%s is not the copy of what it is made of: run go test -run TestKustomize -rewrite", name)
	}
}

// What kustomize makes is what Kubernetes takes, and runs the same pods as the chart.
func TestKustomize(t *testing.T) {
	rules := read(t, "../prometheus/rules.yaml")
	kept(t, "../kustomize/monitoring/gscd.json", read(t, "../grafana/gscd.json"))
	kept(t, "../kustomize/monitoring/prometheusrule.yaml", "# A copy of deploy/prometheus/rules.yaml, as the Prometheus operator takes it.\napiVersion: monitoring.coreos.com/v1\n"+
		"kind: PrometheusRule\nmetadata:\n  name: gscd\nspec:\n  "+strings.TrimSuffix(strings.ReplaceAll(rules[strings.Index(rules, "groups:"):], "\n", "\n  "), "  "))

	objects := build(t, "../kustomize/example")
	names := slices.Sorted(maps.Keys(objects))
	i := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, "ConfigMap gscd-") && n != "ConfigMap gscd-dashboard" })
	if i < 0 {
		t.Fatalf("no ConfigMap with a hash in its name among %q", names)
	}
	config := names[i]
	names = slices.Delete(names, i, i+1)
	want := []string{
		"ConfigMap gscd-dashboard", "CronJob gscd-check", "CronJob gscd-maintain", "Deployment gscd", "NetworkPolicy gscd",
		"PodDisruptionBudget gscd", "PrometheusRule gscd", "Service gscd", "ServiceAccount gscd", "ServiceMonitor gscd",
	}
	if !slices.Equal(names, want) {
		t.Errorf("objects\n%q, want\n%q", names, want)
	}
	configName := strings.TrimPrefix(config, "ConfigMap ")
	for name, p := range pods(objects) {
		checkPod(t, p)
		if got := p.Spec.Volumes[slices.IndexFunc(p.Spec.Volumes, func(v core.Volume) bool { return v.Name == "config" })].ConfigMap.Name; got != configName {
			t.Errorf("%s mounts the ConfigMap %s, want %s", name, got, configName)
		}
	}

	files, err := render(t, "testdata/minimal.yaml", "prometheusRule: {enabled: true}")
	if err != nil {
		t.Fatal(err)
	}
	chart := decodeAll(t, files)
	base := build(t, "../kustomize/base")
	ours := pods(base)
	for name, p := range pods(chart) {
		switch {
		case name == "Job gscd-config-check":
			continue
		case strings.HasPrefix(name, "CronJob gscd-check-"):
			name = "CronJob gscd-check"
			c := &p.Spec.Containers[0]
			c.Args = slices.Delete(c.Args, 1, 3) // its table
		}
		q := ours[name]
		if q == nil {
			t.Errorf("kustomize has no %s", name)
			continue
		}
		for _, c := range q.Spec.TopologySpreadConstraints {
			delete(c.LabelSelector.MatchLabels, "app.kubernetes.io/instance") // kustomize puts it into every selector
		}
		p.Spec.Containers[0].Image, q.Spec.Containers[0].Image = "", ""
		if !reflect.DeepEqual(p.Spec, q.Spec) {
			a, _ := yaml.Marshal(p.Spec)
			b, _ := yaml.Marshal(q.Spec)
			t.Errorf("%s differs. The chart's:\n%s\nkustomize's:\n%s", name, a, b)
		}
	}
	a, b := chart["Deployment gscd"].(*apps.Deployment).Spec, base["Deployment gscd"].(*apps.Deployment).Spec
	if a.Strategy.Type != apps.RecreateDeploymentStrategyType || !reflect.DeepEqual(a.Strategy, b.Strategy) || *a.Replicas != 1 || *b.Replicas != 1 {
		t.Errorf("the strategies are %+v and %+v", a.Strategy, b.Strategy)
	}
	if x, y := chart["PrometheusRule gscd"].(*monitoring.PrometheusRule), objects["PrometheusRule gscd"].(*monitoring.PrometheusRule); len(x.Spec.Groups) != 2 || !reflect.DeepEqual(x.Spec, y.Spec) {
		t.Error("the chart and kustomize have other rules")
	}
}
