package validate

import (
	"bytes"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
)

// decoder knows every field of every kind, and refuses others.
var decoder = func() runtime.Decoder {
	if err := monitoring.AddToScheme(scheme.Scheme); err != nil {
		panic(err)
	}
	return serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
}()

// decodeText gives the objects of a text of YAML documents, by kind and name.
func decodeText(t *testing.T, from, text string) map[string]runtime.Object {
	t.Helper()
	out := map[string]runtime.Object{}
	documents := yaml.NewDocumentDecoder(io.NopCloser(strings.NewReader(text)))
	for {
		one := make([]byte, 1<<20)
		n, err := documents.Read(one)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("%s: %v", from, err)
		}
		one = bytes.TrimSpace(one[:n])
		if len(one) == 0 || bytes.Equal(one, []byte("---")) {
			continue
		}
		o, kind, err := decoder.Decode(one, nil, nil)
		if err != nil {
			t.Errorf("%s: %v\n%s", from, err, one)
			continue
		}
		m, err := meta.Accessor(o)
		if err != nil {
			t.Fatal(err)
		}
		name := kind.Kind + " " + m.GetName()
		if _, twice := out[name]; twice {
			t.Errorf("%s is there twice", name)
		}
		if len(m.GetName()) > 63 || kind.Kind == "CronJob" && len(m.GetName()) > 52 {
			t.Errorf("%s is too long a name", name)
		}
		out[name] = o
	}
}

// decodeAll gives the objects of what the engine has rendered.
func decodeAll(t *testing.T, files map[string]string) map[string]runtime.Object {
	t.Helper()
	out := map[string]runtime.Object{}
	for name, text := range files {
		if path.Ext(name) != ".yaml" {
			continue
		}
		for key, o := range decodeText(t, name, text) {
			if _, twice := out[key]; twice {
				t.Errorf("%s is there twice", key)
			}
			out[key] = o
		}
	}
	return out
}

// pods are the pods that objects make, by the object's name.
func pods(objects map[string]runtime.Object) map[string]*core.PodTemplateSpec {
	out := map[string]*core.PodTemplateSpec{}
	for name, o := range objects {
		switch o := o.(type) {
		case *apps.Deployment:
			out[name] = &o.Spec.Template
		case *apps.StatefulSet:
			out[name] = &o.Spec.Template
		case *batch.Job:
			out[name] = &o.Spec.Template
		case *batch.CronJob:
			out[name] = &o.Spec.JobTemplate.Spec.Template
		}
	}
	return out
}

// checkPod looks whether a pod is as the restricted profile of Kubernetes wants it, and whether what it mounts is there.
func checkPod(t *testing.T, p *core.PodTemplateSpec) {
	t.Helper()
	s := p.Spec.SecurityContext
	if s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || s.RunAsUser == nil || *s.RunAsUser == 0 || s.SeccompProfile == nil || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		t.Errorf("the security context of the pod is %+v", s)
	}
	if p.Spec.AutomountServiceAccountToken == nil || *p.Spec.AutomountServiceAccountToken {
		t.Error("the pod has a token of the service account")
	}
	var volumes []string
	for _, v := range p.Spec.Volumes {
		volumes = append(volumes, v.Name)
	}
	for _, c := range p.Spec.Containers {
		s := c.SecurityContext
		if s == nil || s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation ||
			s.Capabilities == nil || !slices.Equal(s.Capabilities.Drop, []core.Capability{"ALL"}) {
			t.Errorf("the security context of %s is %+v", c.Name, s)
		}
		for _, m := range c.VolumeMounts {
			if i := slices.Index(volumes, m.Name); i < 0 {
				t.Errorf("%s mounts %s, which is no volume", c.Name, m.Name)
			} else {
				volumes[i] += " (mounted)"
			}
		}
		for _, e := range c.Env {
			if e.Value != "" && (strings.HasSuffix(e.Name, "_PASSWORD") || strings.HasSuffix(e.Name, "_SECRET") || strings.HasSuffix(e.Name, "_KEY")) {
				t.Errorf("%s has the value of %s", c.Name, e.Name)
			}
		}
	}
	for _, v := range volumes {
		if !strings.HasSuffix(v, " (mounted)") {
			t.Errorf("nobody mounts %s", v)
		}
	}
}
