//go:build kube

package apiserver

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	auth "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const chartFolder = "../../helm/gscd"

// valueFiles are the values that the chart is tried with.
func valueFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("../testdata/*.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("values %q: %v", files, err)
	}
	return files
}

// templated is what helm template makes.
func templated(t *testing.T, values map[string]any) (objects []*unstructured.Unstructured, err error) {
	t.Helper()
	c, err := loader.LoadDir(chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	ready, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "gscd", Namespace: namespace, IsInstall: true, Revision: 1}, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, ready)
	if err != nil {
		return nil, err
	}
	for name, text := range files {
		if filepath.Ext(name) != ".yaml" {
			continue
		}
		of, err := decode(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		objects = append(objects, of...)
	}
	return objects, nil
}

func readValues(t *testing.T, file string) map[string]any {
	t.Helper()
	values, err := chartutil.ReadValuesFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

// accepted has every object, and the pods that they make, taken by the server.
func accepted(t *testing.T, objects []*unstructured.Unstructured) {
	t.Helper()
	if len(objects) == 0 {
		t.Fatal("there is no object")
	}
	pods := 0
	for _, o := range objects {
		got, err := theServer.apply(t.Context(), o, true)
		if err != nil {
			t.Error(err)
			continue
		}
		if got.GetUID() == "" {
			t.Errorf("%s %s was not looked at", o.GetKind(), o.GetName())
		}
		template := []string{"spec", "template"}
		if o.GetKind() == "CronJob" {
			template = []string{"spec", "jobTemplate", "spec", "template"}
		}
		pod, ok, err := unstructured.NestedMap(o.Object, template...)
		if !ok || err != nil {
			continue
		}
		pods++
		p := &unstructured.Unstructured{Object: pod}
		p.SetAPIVersion("v1")
		p.SetKind("Pod")
		p.SetName(o.GetName())
		if _, err := theServer.apply(t.Context(), p, true); err != nil {
			t.Errorf("the pod of %s %s: %v", o.GetKind(), o.GetName(), err)
		}
	}
	t.Logf("%d objects, %d pods", len(objects), pods)
}

// The server takes all that the chart makes, of every file of values, and the restricted profile its pods.
func TestChartIsAccepted(t *testing.T) {
	for _, file := range valueFiles(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			objects, err := templated(t, readValues(t, file))
			if err != nil {
				t.Fatal(err)
			}
			accepted(t, objects)
		})
	}
}

// And all that kustomize makes.
func TestKustomizeIsAccepted(t *testing.T) {
	for _, folder := range []string{"base", "monitoring", "example"} {
		t.Run(folder, func(t *testing.T) {
			all, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../../kustomize/"+folder)
			if err != nil {
				t.Fatal(err)
			}
			text, err := all.AsYaml()
			if err != nil {
				t.Fatal(err)
			}
			objects, err := decode(string(text))
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range objects {
				o.SetNamespace("")
			}
			accepted(t, objects)
		})
	}
}

// The server is as strict as it is taken for: a wrong field, a pod without its security context, a selector of others.
func TestServerRefuses(t *testing.T) {
	objects, err := templated(t, readValues(t, "../testdata/minimal.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(objects, func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "Deployment" || o.GetKind() == "StatefulSet"
	})
	for name, c := range map[string]struct {
		change func(map[string]any) error
		want   string
	}{
		"misspelt": {func(o map[string]any) error { return unstructured.SetNestedField(o, int64(1), "spec", "replica") }, ".spec.replica: field not declared in schema"},
		"selector": {func(o map[string]any) error {
			return unstructured.SetNestedField(o, "x", "spec", "selector", "matchLabels", "other")
		}, "`selector` does not match template `labels`"},
		"negative": {func(o map[string]any) error { return unstructured.SetNestedField(o, int64(-1), "spec", "replicas") }, "must be greater than or equal to 0"},
	} {
		o := objects[i].DeepCopy()
		if err := c.change(o.Object); err != nil {
			t.Fatal(err)
		}
		if _, err := theServer.apply(t.Context(), o, true); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	pod, _, err := unstructured.NestedMap(objects[i].Object, "spec", "template")
	if err != nil {
		t.Fatal(err)
	}
	p := &unstructured.Unstructured{Object: pod}
	p.SetAPIVersion("v1")
	p.SetKind("Pod")
	p.SetName("loose")
	unstructured.RemoveNestedField(p.Object, "spec", "securityContext")
	if _, err := theServer.apply(t.Context(), p, true); err == nil || !strings.Contains(err.Error(), `violates PodSecurity "restricted:latest"`) {
		t.Errorf("a pod that may be root: %v", err)
	}
}

// The account of the pods may do nothing.
func TestServiceAccountHasNoRights(t *testing.T) {
	for _, of := range []auth.ResourceAttributes{
		{Resource: "secrets", Verb: "get"}, {Resource: "configmaps", Verb: "list"}, {Resource: "pods", Verb: "list"},
		{Resource: "pods", Verb: "create"}, {Group: "coordination.k8s.io", Resource: "leases", Verb: "update"},
	} {
		of.Namespace = namespace
		r, err := theServer.client.AuthorizationV1().SubjectAccessReviews().Create(t.Context(), &auth.SubjectAccessReview{
			Spec: auth.SubjectAccessReviewSpec{User: fmt.Sprintf("system:serviceaccount:%s:gscd", namespace), ResourceAttributes: &of},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if r.Status.Allowed {
			t.Errorf("the service account may %s %s: %s", of.Verb, of.Resource, r.Status.Reason)
		}
	}
}
