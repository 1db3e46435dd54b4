//go:build kube

package apiserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

const (
	binaries  = "../../../build/kube"
	namespace = "lake"
	deployer  = "deployer"
)

// server is a kube-apiserver with its etcd.
type server struct {
	url     string
	client  kubernetes.Interface
	dynamic dynamic.Interface
	mapper  meta.ResettableRESTMapper
}

var theServer *server

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "gscd-kube-")
	if err != nil {
		log.Fatal(err)
	}
	s, stop, err := start(dir)
	if err != nil {
		stop()
		_ = os.RemoveAll(dir)
		log.Fatal(err)
	}
	theServer = s
	log.SetOutput(io.Discard) // Helm's line about each symbolic link
	code := m.Run()
	stop()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return fmt.Sprint(l.Addr().(*net.TCPAddr).Port), nil
}

// start starts both, and waits until they are ready. stop is to be called in any case.
func start(dir string) (s *server, stop func(), err error) {
	var running []*exec.Cmd
	stop = func() {
		for _, c := range running {
			_ = c.Process.Kill()
			_ = c.Wait()
		}
	}
	var logs bytes.Buffer
	run := func(name string, args ...string) error {
		path := filepath.Join(binaries, name)
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("%w: deploy/kube/build.sh builds it", err)
		}
		c := exec.Command(path, args...)
		c.Stdout, c.Stderr = &logs, &logs
		if err := c.Start(); err != nil {
			return err
		}
		running = append([]*exec.Cmd{c}, running...)
		return nil
	}
	var ports [3]string
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return nil, stop, err
		}
	}
	etcd := "http://127.0.0.1:" + ports[0]
	err = run("etcd", "--data-dir", filepath.Join(dir, "etcd"), "--listen-client-urls", etcd, "--advertise-client-urls", etcd,
		"--listen-peer-urls", "http://127.0.0.1:"+ports[1], "--unsafe-no-fsync", "--log-level", "warn")
	if err != nil {
		return nil, stop, err
	}
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, stop, err
	}
	keyFile, tokens := filepath.Join(dir, "sa.key"), filepath.Join(dir, "tokens.csv")
	if err := os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), 0o600); err != nil {
		return nil, stop, err
	}
	if err := os.WriteFile(tokens, []byte("admin,admin,admin,\"system:masters\"\n"+deployer+","+deployer+","+deployer+"\n"), 0o600); err != nil {
		return nil, stop, err
	}
	err = run("kube-apiserver", "--etcd-servers", etcd, "--bind-address=127.0.0.1", "--secure-port", ports[2], "--cert-dir", filepath.Join(dir, "certs"),
		"--service-account-key-file", keyFile, "--service-account-signing-key-file", keyFile, "--service-account-issuer=https://kubernetes.default.svc",
		"--service-cluster-ip-range=10.0.0.0/24", "--token-auth-file", tokens, "--authorization-mode=RBAC",
		"--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none")
	if err != nil {
		return nil, stop, err
	}
	s = &server{url: "https://127.0.0.1:" + ports[2]}
	config := s.config("admin")
	if s.client, err = kubernetes.NewForConfig(config); err != nil {
		return nil, stop, err
	}
	if s.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return nil, stop, err
	}
	s.mapper = restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(s.client.Discovery()))
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for {
		if body, err := s.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err == nil && string(body) == "ok" {
			break
		}
		if ctx.Err() != nil {
			return nil, stop, fmt.Errorf("kube-apiserver is not ready after 2 minutes:\n%.4000s", logs.String())
		}
		time.Sleep(200 * time.Millisecond)
	}
	return s, stop, s.prepare(ctx)
}

// config is that of a client with a token.
func (s *server) config(token string) *rest.Config {
	return &rest.Config{Host: s.url, BearerToken: token, TLSClientConfig: rest.TLSClientConfig{Insecure: true}, QPS: 500, Burst: 1000, WarningHandler: rest.NoWarnings{}}
}

// prepare makes what a cluster has before gscd comes: a namespace under the restricted profile,
// the operator's kinds, a class of priority, and a role for who deploys.
func (s *server) prepare(ctx context.Context) error {
	_, err := s.client.CoreV1().Namespaces().Create(ctx, &core.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/enforce-version": "latest"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	folder, err := operatorModule()
	if err != nil {
		return err
	}
	for _, kind := range []string{"servicemonitors", "prometheusrules"} {
		text, err := os.ReadFile(filepath.Join(folder, "example/prometheus-operator-crd/monitoring.coreos.com_"+kind+".yaml"))
		if err != nil {
			return err
		}
		objects, err := decode(string(text))
		if err != nil {
			return err
		}
		if _, err := s.apply(ctx, objects[0], false); err != nil {
			return err
		}
	}
	for _, kind := range []string{"ServiceMonitor", "PrometheusRule"} {
		for {
			s.mapper.Reset()
			if _, err := s.mapper.RESTMapping(schema.GroupKind{Group: "monitoring.coreos.com", Kind: kind}, "v1"); err == nil {
				break
			}
			if ctx.Err() != nil {
				return fmt.Errorf("%s is not served: %w", kind, ctx.Err())
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	text, err := os.ReadFile("testdata/cluster.yaml")
	if err != nil {
		return err
	}
	objects, err := decode(string(text))
	if err != nil {
		return err
	}
	for _, o := range objects {
		if _, err := s.apply(ctx, o, false); err != nil {
			return err
		}
	}
	return nil
}

// apply is kubectl apply --server-side, with --dry-run=server or without; unknown and doubled fields are errors.
func (s *server) apply(ctx context.Context, o *unstructured.Unstructured, dry bool) (*unstructured.Unstructured, error) {
	gvk := o.GroupVersionKind()
	mapping, err := s.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", gvk.Kind, o.GetName(), err)
	}
	var to dynamic.ResourceInterface = s.dynamic.Resource(mapping.Resource)
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		in := o.GetNamespace()
		if in == "" {
			in = namespace
		}
		to = s.dynamic.Resource(mapping.Resource).Namespace(in)
	}
	body, err := o.MarshalJSON()
	if err != nil {
		return nil, err
	}
	force := true
	options := metav1.PatchOptions{FieldManager: "gscd-test", FieldValidation: metav1.FieldValidationStrict, Force: &force}
	if dry {
		options.DryRun = []string{metav1.DryRunAll}
	}
	got, err := to.Patch(ctx, o.GetName(), "application/apply-patch+yaml", body, options)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", gvk.Kind, o.GetName(), err)
	}
	return got, nil
}
