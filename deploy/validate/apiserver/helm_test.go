//go:build kube

package apiserver

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// helm is Helm with the rights of the role in deploy/helm/deployer-role.yaml.
func helm(t *testing.T) *action.Configuration {
	t.Helper()
	text, err := os.ReadFile("../../helm/deployer-role.yaml")
	if err != nil {
		t.Fatal(err)
	}
	role, err := decode(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := theServer.apply(t.Context(), role[0], false); err != nil {
		t.Fatal(err)
	}
	config := api.NewConfig()
	config.Clusters["test"] = &api.Cluster{Server: theServer.url, InsecureSkipTLSVerify: true}
	config.AuthInfos["test"] = &api.AuthInfo{Token: deployer}
	config.Contexts["test"] = &api.Context{Cluster: "test", AuthInfo: "test", Namespace: namespace}
	config.CurrentContext = "test"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	flags := genericclioptions.NewConfigFlags(false)
	in, cache := namespace, t.TempDir()
	flags.KubeConfig, flags.Namespace, flags.CacheDir = &file, &in, &cache
	out := &action.Configuration{}
	if err := out.Init(flags, namespace, "secret", t.Logf); err != nil {
		t.Fatal(err)
	}
	return out
}

func theChart(t *testing.T) *chart.Chart {
	t.Helper()
	c, err := loader.LoadDir(chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// endJobs stands in for the controller of Jobs: every Job ends as it is told to.
func endJobs(t *testing.T, good bool) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	jobs := theServer.client.BatchV1().Jobs(namespace)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			list, err := jobs.List(ctx, metav1.ListOptions{})
			for i := range list.Items {
				j := &list.Items[i]
				if err != nil || len(j.Status.Conditions) > 0 {
					continue
				}
				now := metav1.Now()
				j.Status.StartTime = &now
				condition := func(kind batch.JobConditionType, reason string) batch.JobCondition {
					return batch.JobCondition{Type: kind, Status: core.ConditionTrue, Reason: reason, LastTransitionTime: now, LastProbeTime: now}
				}
				if good {
					j.Status.Succeeded, j.Status.CompletionTime = 1, &now
					j.Status.Conditions = []batch.JobCondition{condition(batch.JobSuccessCriteriaMet, "CompletionsReached"), condition(batch.JobComplete, "CompletionsReached")}
				} else {
					j.Status.Failed = 1
					j.Status.Conditions = []batch.JobCondition{condition(batch.JobFailureTarget, "BackoffLimitExceeded"), condition(batch.JobFailed, "BackoffLimitExceeded")}
				}
				if _, err := jobs.UpdateStatus(ctx, j, metav1.UpdateOptions{}); err != nil && ctx.Err() == nil {
					t.Logf("end job %s: %v", j.Name, err)
				}
			}
			time.Sleep(100 * time.Millisecond)
		}
	}()
	return func() { cancel(); <-ended }
}

// ours are the objects of the release that are there.
func ours(t *testing.T) (names []string) {
	t.Helper()
	for _, r := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "configmaps"}, {Version: "v1", Resource: "services"}, {Version: "v1", Resource: "serviceaccounts"},
		{Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "apps", Version: "v1", Resource: "statefulsets"},
		{Group: "batch", Version: "v1", Resource: "cronjobs"}, {Group: "batch", Version: "v1", Resource: "jobs"},
		{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}, {Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
		{Group: "monitoring.coreos.com", Version: "v1", Resource: "servicemonitors"}, {Group: "monitoring.coreos.com", Version: "v1", Resource: "prometheusrules"},
	} {
		list, err := theServer.dynamic.Resource(r).Namespace(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=gscd"})
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list.Items {
			names = append(names, o.GetKind()+" "+o.GetName())
		}
	}
	return names
}

// A release is installed with each file of values, upgraded to everything, rolled back and uninstalled, with the rights
// of the role alone; nothing is left.
func TestHelm(t *testing.T) {
	for _, file := range valueFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			h, values := helm(t), readValues(t, file)
			defer endJobs(t, true)()
			install := action.NewInstall(h)
			install.ReleaseName, install.Namespace, install.Timeout = "gscd", namespace, time.Minute

			dry := action.NewInstall(h)
			dry.ReleaseName, dry.Namespace, dry.DryRun, dry.DryRunOption = "gscd", namespace, true, "server"
			if _, err := dry.RunWithContext(t.Context(), theChart(t), values); err != nil {
				t.Fatalf("helm install --dry-run=server: %v", err)
			}
			if left := ours(t); len(left) > 0 {
				t.Fatalf("a dry run has made %q", left)
			}
			r, err := install.RunWithContext(t.Context(), theChart(t), values)
			if err != nil {
				t.Fatalf("helm install: %v", err)
			}
			if r.Info.Status != release.StatusDeployed || !strings.Contains(r.Info.Notes, "gscd status") {
				t.Errorf("installed: %s\n%s", r.Info.Status, r.Info.Notes)
			}
			objects, err := decode(r.Manifest)
			if err != nil {
				t.Fatal(err)
			}
			there := ours(t)
			if len(there) != len(objects) {
				t.Errorf("the server has %q, the release %d objects", there, len(objects))
			}

			upgrade := action.NewUpgrade(h)
			upgrade.Namespace, upgrade.Timeout = namespace, time.Minute
			if r, err = upgrade.RunWithContext(t.Context(), "gscd", theChart(t), readValues(t, "../testdata/values.yaml")); err != nil || r.Version != 2 {
				t.Fatalf("helm upgrade: revision %d: %v", r.Version, err)
			}
			back := action.NewRollback(h)
			back.Version, back.Timeout = 1, time.Minute
			if err := back.Run("gscd"); err != nil {
				t.Fatalf("helm rollback: %v", err)
			}
			if again := ours(t); strings.Join(again, ", ") != strings.Join(there, ", ") {
				t.Errorf("rolled back, the server has\n%q, and had\n%q", again, there)
			}
			if _, err := action.NewUninstall(h).Run("gscd"); err != nil {
				t.Fatalf("helm uninstall: %v", err)
			}
			if left := ours(t); len(left) > 0 {
				t.Errorf("helm uninstall leaves %q", left)
			}
		})
	}
}

// A configuration that gscd config check refuses stops an upgrade, and what runs goes on.
func TestHelmStopsAtWrongConfiguration(t *testing.T) {
	h, values := helm(t), readValues(t, "../testdata/minimal.yaml")
	stop := endJobs(t, true)
	install := action.NewInstall(h)
	install.ReleaseName, install.Namespace, install.Timeout = "gscd", namespace, time.Minute
	if _, err := install.RunWithContext(t.Context(), theChart(t), values); err != nil {
		t.Fatal(err)
	}
	stop()
	before, err := theServer.client.AppsV1().Deployments(namespace).Get(t.Context(), "gscd", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stop = endJobs(t, false)
	upgrade := action.NewUpgrade(h)
	upgrade.Namespace, upgrade.Timeout = namespace, time.Minute
	wrong := chartutil.CoalesceTables(map[string]any{"config": map[string]any{"calendar": map[string]any{"timezone": "Mars/Base"}}}, values)
	if _, err := upgrade.RunWithContext(t.Context(), "gscd", theChart(t), wrong); err == nil || !strings.Contains(err.Error(), "pre-upgrade hooks failed") {
		t.Errorf("an upgrade whose check fails: %v", err)
	}
	stop()
	after, err := theServer.client.AppsV1().Deployments(namespace).Get(t.Context(), "gscd", metav1.GetOptions{})
	if err != nil || after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the deployment has changed: %v", err)
	}
	uninstall := action.NewUninstall(h)
	if _, err := uninstall.Run("gscd"); err != nil {
		t.Fatal(err)
	}
	// Helm leaves the Job that has failed, for its log.
	if left := ours(t); !slices.Equal(left, []string{"Job gscd-config-check"}) {
		t.Errorf("helm uninstall leaves %q", left)
	}
	background := metav1.DeletePropagationBackground
	if err := theServer.client.BatchV1().Jobs(namespace).Delete(t.Context(), "gscd-config-check", metav1.DeleteOptions{PropagationPolicy: &background}); err != nil {
		t.Fatal(err)
	}
}

// Values that Kubernetes would refuse fail before anything is made; those that the chart refuses say what to do.
func TestHelmRefuses(t *testing.T) {
	h := helm(t)
	for more, want := range map[string]string{
		`replicas: three`:                                             "at '/replicas'",
		`config: {kafka: {sasl: {password: x}}}`:                      "is a secret",
		`nodeSelector: {"a b": x}`:                                    "a b",
		`podLabels: {"-x": y}`:                                        "-x",
		`extraEnv: [{name: "1=", value: x}]`:                          "1=",
		`extraVolumeMounts: [{name: none, mountPath: /x}]`:            `"none"`,
		`resources: {requests: {memory: 8Gi}, limits: {memory: 2Gi}}`: "must be less than or equal to memory limit",
		`tolerations: [{key: a, operator: Similar}]`:                  "at '/tolerations/0/operator'",
		`topologySpreadConstraints: [{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]`: "maxSkew",
	} {
		over, err := chartutil.ReadValues([]byte(more))
		if err != nil {
			t.Fatal(err)
		}
		values := chartutil.CoalesceTables(over, readValues(t, "../testdata/minimal.yaml"))
		objects, err := templated(t, values)
		if err == nil { // the chart lets it pass: the server must say it
			for _, o := range objects {
				if _, refused := theServer.apply(t.Context(), o, true); refused != nil {
					err = refused
				}
			}
			if err != nil {
				t.Logf("%s: only the server refuses it: %v", more, err)
			}
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v\nwant %s", more, err, want)
			continue
		}
		install := action.NewInstall(h)
		install.ReleaseName, install.Namespace, install.DisableHooks = "gscd", namespace, true
		if _, err := install.RunWithContext(t.Context(), theChart(t), values); err == nil {
			t.Errorf("%s: helm install makes it", more)
		}
		uninstall := action.NewUninstall(h)
		uninstall.IgnoreNotFound = true
		_, _ = uninstall.Run("gscd")
		if left := ours(t); len(left) > 0 {
			t.Errorf("%s: left behind: %q", more, left)
		}
	}
}
