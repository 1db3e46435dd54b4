//go:build kube

package apiserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// The module that the definitions of ServiceMonitor and PrometheusRule come from, and its sum.
const (
	operator    = "github.com/prometheus-operator/prometheus-operator@v0.85.0"
	operatorSum = "h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s="
)

// operatorModule gives the folder of the operator's module.
func operatorModule() (string, error) {
	c := exec.Command("go", "mod", "download", "-json", operator)
	c.Dir = os.TempDir()
	c.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	out, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("go mod download %s: %w\n%s", operator, err, out)
	}
	var m struct{ Dir, Sum string }
	if err := json.Unmarshal(out, &m); err != nil {
		return "", err
	}
	if m.Sum != operatorSum {
		return "", fmt.Errorf("%s has the sum %s, and not %s", operator, m.Sum, operatorSum)
	}
	return m.Dir, nil
}

// decode gives the objects of YAML documents.
func decode(text string) (objects []*unstructured.Unstructured, err error) {
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		var raw json.RawMessage
		if err := documents.Decode(&raw); errors.Is(err, io.EOF) {
			return objects, nil
		} else if err != nil {
			return nil, err
		}
		if raw = bytes.TrimSpace(raw); len(raw) == 0 || string(raw) == "null" {
			continue
		}
		o := &unstructured.Unstructured{}
		if err := o.UnmarshalJSON(raw); err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
}
