package validate

import (
	"io"
	"log"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	network "k8s.io/api/networking/v1"
)

const chartFolder = "../helm/gscd"

// TestMain keeps Helm's line about each symbolic link out of the output.
func TestMain(m *testing.M) {
	log.SetOutput(io.Discard)
	os.Exit(m.Run())
}

// render is `helm template gscd` with the values of a file and of more YAML, which goes before it.
func render(t *testing.T, file, more string) (objects map[string]string, err error) {
	t.Helper()
	c, err := loader.LoadDir(chartFolder)
	if err != nil {
		t.Fatal(err)
	}
	values := chartutil.Values{}
	if file != "" {
		if values, err = chartutil.ReadValuesFile(file); err != nil {
			t.Fatal(err)
		}
	}
	over, err := chartutil.ReadValues([]byte(more))
	if err != nil {
		t.Fatal(err)
	}
	merged := chartutil.CoalesceTables(over, values)
	ready, err := chartutil.ToRenderValues(c, merged, chartutil.ReleaseOptions{Name: "gscd", Namespace: "lake", IsInstall: true, Revision: 1}, nil)
	if err != nil {
		return nil, err
	}
	return engine.Render(c, ready)
}

// What the chart makes is what Kubernetes and the Prometheus operator take, field by field.
func TestChart(t *testing.T) {
	for file, want := range map[string][]string{
		"testdata/minimal.yaml": {
			"ConfigMap gscd", "ConfigMap gscd-config-check", "CronJob gscd-check-user-dim-0e84a4", "CronJob gscd-maintain", "Deployment gscd",
			"Job gscd-config-check", "NetworkPolicy gscd", "PodDisruptionBudget gscd", "Service gscd", "ServiceAccount gscd",
		},
		"testdata/values.yaml": {
			"ConfigMap gscd", "ConfigMap gscd-config-check", "ConfigMap gscd-dashboard", "CronJob gscd-check-orders-of-the-b0476a", "CronJob gscd-check-user-dim-0e84a4", "CronJob gscd-maintain",
			"Deployment gscd", "Job gscd-config-check", "NetworkPolicy gscd", "PodDisruptionBudget gscd", "PrometheusRule gscd", "Service gscd", "ServiceAccount gscd", "ServiceMonitor gscd",
		},
	} {
		t.Run(file, func(t *testing.T) {
			files, err := render(t, file, "")
			if err != nil {
				t.Fatal(err)
			}
			objects := decodeAll(t, files)
			if got := slices.Sorted(maps.Keys(objects)); !slices.Equal(got, want) {
				t.Errorf("objects\n%q, want\n%q", got, want)
			}
			for _, pod := range pods(objects) {
				checkPod(t, pod)
			}
			checkIngester(t, objects["Deployment gscd"].(*apps.Deployment), file == "testdata/values.yaml")
			if notes := files["gscd/templates/NOTES.txt"]; !strings.Contains(notes, "gscd status --table user_dim\n") || !strings.Contains(notes, "port-forward deploy/gscd 9090") {
				t.Errorf("NOTES.txt says\n%s", notes)
			}
		})
	}
}

// With scaleOut the ingester is a StatefulSet whose pods are members by their names.
func TestChartScaleOut(t *testing.T) {
	files, err := render(t, "testdata/minimal.yaml", "replicas: 3\nscaleOut: {enabled: true, sessionTimeout: 30s}\nnetworkPolicy: {from: []}")
	if err != nil {
		t.Fatal(err)
	}
	objects := decodeAll(t, files)
	if objects["Deployment gscd"] != nil {
		t.Error("there is a Deployment too")
	}
	for _, pod := range pods(objects) {
		checkPod(t, pod)
	}
	s, ok := objects["StatefulSet gscd"].(*apps.StatefulSet)
	if !ok {
		t.Fatalf("no StatefulSet: %q", slices.Sorted(maps.Keys(objects)))
	}
	service := objects["Service gscd"].(*core.Service)
	if *s.Spec.Replicas != 3 || s.Spec.ServiceName != service.Name || service.Spec.ClusterIP != "None" || !service.Spec.PublishNotReadyAddresses ||
		s.Spec.PodManagementPolicy != apps.ParallelPodManagement || s.Spec.UpdateStrategy.Type != apps.RollingUpdateStatefulSetStrategyType {
		t.Errorf("%+v", s.Spec)
	}
	c := s.Spec.Template.Spec.Containers[0]
	want := []string{
		"ingest", "--http", "0.0.0.0:9090", "--log-level", "info", "--log-format", "json",
		"--scale-out-group", "gscd", "--scale-out-session-timeout", "30s", "--scale-out-advertise", "http://$(POD_NAME).gscd.lake.svc:9090",
	}
	if !slices.Equal(c.Args, want) {
		t.Errorf("arguments %q, want %q", c.Args, want)
	}
	if i := slices.IndexFunc(c.Env, func(e core.EnvVar) bool { return e.Name == "POD_NAME" }); i < 0 || c.Env[i].ValueFrom.FieldRef.FieldPath != "metadata.name" {
		t.Errorf("environment %v", c.Env)
	}
	// The pods ask each other.
	policy := objects["NetworkPolicy gscd"].(*network.NetworkPolicy)
	if from := policy.Spec.Ingress[0].From; len(from) != 1 || !maps.Equal(from[0].PodSelector.MatchLabels, policy.Spec.PodSelector.MatchLabels) {
		t.Errorf("ingress from %v", from)
	}
	if notes := files["gscd/templates/NOTES.txt"]; !strings.Contains(notes, "exec statefulset/gscd -- gscd status --group\n") {
		t.Errorf("NOTES.txt says\n%s", notes)
	}
}

// checkIngester looks at what the ingester's pod is told.
func checkIngester(t *testing.T, d *apps.Deployment, whole bool) {
	t.Helper()
	c := d.Spec.Template.Spec.Containers[0]
	if want := []string{"ingest", "--http", "0.0.0.0:9090", "--log-level", "info", "--log-format", "json"}; !slices.Equal(c.Args, want) {
		t.Errorf("arguments %q, want %q", c.Args, want)
	}
	if c.LivenessProbe.HTTPGet.Path != "/healthz" || c.StartupProbe.HTTPGet.Path != "/healthz" || c.ReadinessProbe.HTTPGet.Path != "/readyz" {
		t.Errorf("probes %v, %v, %v", c.StartupProbe, c.LivenessProbe, c.ReadinessProbe)
	}
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	want := map[string]string{"GSCD_CONFIG": "/etc/gscd/gscd.yaml", "TMPDIR": "/scratch", "HOME": "/scratch", "GOMEMLIMIT": "1228MiB"} // of 2 GiB
	if whole {
		maps.Copy(want, map[string]string{
			"GOMEMLIMIT":                    "3686MiB",
			"GSCD_KAFKA_SASL_PASSWORD_FILE": "/etc/gscd-secrets/gscd-kafka/password", "GSCD_TRANSFORM_HASH_SECRET_FILE": "/etc/gscd-secrets/gscd-kafka/hash",
			"AWS_SECRET_ACCESS_KEY": "", "HTTPS_PROXY": "http://proxy:3128", "POD_IP": "",
		})
		if d.Spec.Template.Spec.Volumes[1].Ephemeral == nil {
			t.Error("the scratch volume has no storage class")
		}
	}
	if !maps.Equal(env, want) {
		t.Errorf("environment %q, want %q", env, want)
	}
}

// Pages can be secured: by secrets that are named, and probes and Prometheus follow.
func TestChartSecuresHTTP(t *testing.T) {
	files, err := render(t, "testdata/minimal.yaml", "http: {tls: {secret: web-tls}, token: {secret: web, key: t}}\nserviceMonitor: {enabled: true}")
	if err != nil {
		t.Fatal(err)
	}
	objects := decodeAll(t, files)
	for _, pod := range pods(objects) {
		checkPod(t, pod)
	}
	spec := objects["Deployment gscd"].(*apps.Deployment).Spec.Template.Spec
	c := spec.Containers[0]
	if c.LivenessProbe.HTTPGet.Scheme != "HTTPS" || c.StartupProbe.HTTPGet.Scheme != "HTTPS" || c.ReadinessProbe.HTTPGet.Scheme != "HTTPS" {
		t.Errorf("probes %v, %v, %v", c.StartupProbe, c.LivenessProbe, c.ReadinessProbe)
	}
	env, mounts := map[string]string{}, ""
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	for _, m := range c.VolumeMounts {
		mounts += m.MountPath + " "
	}
	if env["GSCD_HTTP_TLS_CERT_FILE"] != "/etc/gscd-secrets/web-tls/tls.crt" || env["GSCD_HTTP_TLS_KEY_FILE"] != "/etc/gscd-secrets/web-tls/tls.key" || env["GSCD_HTTP_TOKEN_FILE"] != "/etc/gscd-secrets/web/t" ||
		!strings.Contains(mounts, "/etc/gscd-secrets/web-tls ") || !strings.Contains(mounts, "/etc/gscd-secrets/web ") {
		t.Errorf("environment %q, mounts %s", env, mounts)
	}
	monitor := files["gscd/templates/monitoring.yaml"]
	for _, want := range []string{"scheme: https", "serverName: gscd.lake.svc", "{name: web-tls, key: ca.crt, optional: true}", "type: Bearer", "credentials: {name: web, key: t}"} {
		if !strings.Contains(monitor, want) {
			t.Errorf("the ServiceMonitor has no %s:\n%s", want, monitor)
		}
	}
}

// Wrong values fail when the chart is rendered, in words that say what to do.
func TestChartRefuses(t *testing.T) {
	for values, want := range map[string]string{
		// The schema's.
		`replica: 1`:                                                      "additional properties 'replica' not allowed",
		`image: {repo: x}`:                                                "additional properties 'repo' not allowed",
		`image: {digest: latest}`:                                         "at '/image/digest': 'latest' does not match pattern",
		`image: {pullPolicy: Sometimes}`:                                  "value must be one of 'Always', 'IfNotPresent', 'Never'",
		`resources: {limits: {memory: 2G}}`:                               "at '/resources/limits/memory': '2G' does not match pattern '^[1-9][0-9]*(Mi|Gi)$'",
		`resources: {limit: {memory: 2Gi}}`:                               "additional properties 'limit' not allowed",
		`goMemoryPercent: 100`:                                            "at '/goMemoryPercent': maximum: got 100, want 95",
		`http: {tls: {cert: x}}`:                                          "additional properties 'cert' not allowed",
		`http: {token: {secret: "A B"}}`:                                  "at '/http/token/secret': 'A B' does not match pattern",
		`http: {port: 80}`:                                                "at '/http/port': minimum: got 80, want 1,024",
		`log: {level: trace}`:                                             "value must be one of 'debug', 'info', 'warn', 'error'",
		`updateStrategy: Rolling`:                                         "value must be one of 'Recreate', 'RollingUpdate'",
		`maintain: {schedule: "2 o'clock"}`:                               "at '/maintain/schedule'",
		`check: {deeply: true}`:                                           "additional properties 'deeply' not allowed",
		`serviceAccount: {annotations: {a: 1}}`:                           "at '/serviceAccount/annotations/a': got number, want string",
		`podDisruptionBudget: {maxUnavailable: 2}`:                        "at '/podDisruptionBudget/maxUnavailable': maximum: got 2, want 1",
		`networkPolicy: {ingress: []}`:                                    "additional properties 'ingress' not allowed",
		`secrets: {settings: [{setting: kafka.sasl.password, value: x}]}`: "missing properties 'secret', 'key'",
		`secrets: {settings: [{setting: password, secret: a, key: b}]}`:   "at '/secrets/settings/0/setting': 'password' does not match pattern",
		`secrets: {env: [{name: "A B", secret: a, key: b}]}`:              "at '/secrets/env/0/name': 'A B' does not match pattern",
		`scratch: {size: much}`:                                           "at '/scratch/size': 'much' does not match pattern",
		`extraVolumeMounts: [{name: a}]`:                                  "missing property 'mountPath'",
		`runAsUser: 0`:                                                    "at '/runAsUser': minimum: got 0, want 1",
		`config: text`:                                                    "at '/config': got string, want object",
		// The chart's own.
		`replicas: 3`:                                                    "replicas is 3: one process ingests a table, more would take it from each other: set scaleOut.enabled, by which they share the tables out, or use 1",
		`scaleOut: {sessionTimeout: soon}`:                               "at '/scaleOut/sessionTimeout': 'soon' does not match pattern",
		`config: {scale_out: {group: a}}`:                                "config.scale_out is set by the chart: use scaleOut",
		`{scaleOut: {enabled: true}, config: {kafka: {group: gscd}}}`:    "scaleOut.group gscd is config.kafka.group too, whose offsets are for lag tools",
		`terminationGracePeriodSeconds: 30`:                              "terminationGracePeriodSeconds is 30: a stop may commit for 30 s and ends HTTP in 3: use 40 or more",
		`config: {kafka: {sasl: {password: x}}}`:                         "config.kafka.sasl.password is a secret, and would be readable in a ConfigMap: put it into a Secret and name that: secrets.settings: [{setting: kafka.sasl.password, secret: NAME, key: KEY}]",
		`config: {s3: {secret_access_key: x}}`:                           "config.s3.secret_access_key is a secret",
		`config: {transform: {hash_secret: x}}`:                          "config.transform.hash_secret is a secret",
		`config: {http: {address: "0.0.0.0:80"}}`:                        "config.http is set by the chart: use http.port, http.tls and http.token",
		`config: {calendar: {timezone: ""}}`:                             "config.calendar.timezone is missing: the IANA zone whose clock ends the day",
		`config: {tables: []}`:                                           "config.tables is empty: a table has a location and topics",
		`config: {tables: [{topics: [a]}]}`:                              "config.tables[0].location is missing: where the table lies",
		`config: {tables: [s3://lake/t]}`:                                "config.tables[0] is no map: write {location: s3://BUCKET/PATH, topics: [TOPIC]}",
		`config: {tables: [{location: /data/t}]}`:                        "config.tables[0].location /data/t is a path in the pod, which no volume holds",
		`config: {tables: [{location: s3://a/t}, {location: s3://b/t}]}`: "config.tables[1]: a table is called t already",
		`extraEnv: [{name: AWS_SECRET_ACCESS_KEY, value: x}]`:            "extraEnv AWS_SECRET_ACCESS_KEY looks like a secret",
		`image: {tag: v1, digest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}`: "image.digest and image.tag: give one of them",
	} {
		if _, err := render(t, "testdata/minimal.yaml", values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%v\nwant %s", values, err, want)
		}
	}
	_, err := render(t, "", "")
	if err == nil || !strings.Contains(err.Error(), "config is empty: it is the configuration of gscd, with at least kafka.brokers, calendar.timezone and tables") {
		t.Errorf("no values: %v", err)
	}
	_, err = render(t, "testdata/minimal.yaml", "replicas: 2\nterminationGracePeriodSeconds: 1\nconfig: {calendar: {timezone: \"\"}}")
	if err == nil || !strings.Contains(err.Error(), "the values have 3 fault(s)") {
		t.Errorf("three faults: %v", err)
	}
}

// helm lint finds nothing.
func TestChartLint(t *testing.T) {
	values, err := chartutil.ReadValuesFile("testdata/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range lint.AllWithKubeVersion(chartFolder, values, "lake", nil).Messages {
		if m.Severity > support.InfoSev {
			t.Error(m)
		}
	}
}
