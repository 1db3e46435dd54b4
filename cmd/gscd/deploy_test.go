package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// What deploy/ gives the program it takes: configurations without a fault, settings that there are, flags that there are.
func TestDeploy(t *testing.T) {
	const deploy = "../../deploy/"
	password := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(password, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(name string) []byte {
		t.Helper()
		text, err := os.ReadFile(deploy + name)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	check := func(name string, config []byte, environ ...string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "gscd.yaml")
		if err := os.WriteFile(file, config, 0o644); err != nil {
			t.Fatal(err)
		}
		a, stdout, stderr := newTestApp(append(environ, "GSCD_CONFIG="+file)...)
		if code := run([]string{"config", "check"}, a, commands); code != exitOK {
			t.Errorf("%s: exit %d: %s%s", name, code, stdout, stderr)
		}
	}

	for _, name := range []string{"validate/testdata/minimal.yaml", "validate/testdata/values.yaml"} {
		var values struct {
			Config  any
			Secrets struct{ Settings []struct{ Setting string } }
		}
		if err := yaml.Unmarshal(read(name), &values); err != nil {
			t.Fatal(err)
		}
		config, err := yaml.Marshal(values.Config)
		if err != nil {
			t.Fatal(err)
		}
		var environ []string
		for _, s := range values.Secrets.Settings { // as templates/_helpers.tpl names them
			environ = append(environ, "GSCD_"+strings.ToUpper(strings.ReplaceAll(s.Setting, ".", "_"))+"_FILE="+password)
		}
		check(name, config, environ...)
	}
	check("kustomize/example", read("kustomize/example/gscd.yaml"), "GSCD_KAFKA_SASL_PASSWORD_FILE="+password)
	check("compose", read("compose/gscd.yaml"), "GSCD_S3_ACCESS_KEY_ID=a", "GSCD_S3_SECRET_ACCESS_KEY=b")

	// The chart's are compared with these in deploy/validate.
	args := regexp.MustCompile(`(?m)^ *args: \[(.*)\]$`)
	for _, name := range []string{"deployment", "maintain", "check"} {
		found := args.FindSubmatch(read("kustomize/base/" + name + ".yaml"))
		if found == nil {
			t.Errorf("%s.yaml has no arguments", name)
			continue
		}
		a, _, stderr := newTestApp()
		list := strings.Split(strings.ReplaceAll(string(found[1]), `"`, ""), ", ")
		if code := run(append(list, "--table", "t", "--deep", "--help"), a, commands); name != "check" && code == exitOK {
			t.Errorf("%s takes --deep", name)
		}
		a, _, stderr = newTestApp()
		if code := run(append(list, "--table", "t", "--help"), a, commands); code != exitOK {
			t.Errorf("gscd %s: exit %d: %s", strings.Join(list, " "), code, stderr)
		}
	}

	// Those of a pod that is one of several, as templates/_helpers.tpl has them.
	several := regexp.MustCompile(`"(--scale-out-[a-z-]+)"`).FindAllStringSubmatch(string(read("helm/gscd/templates/_helpers.tpl")), -1)
	if len(several) != 3 {
		t.Errorf("the chart sets %q", several)
	}
	for _, flag := range several {
		a, _, stderr := newTestApp()
		if code := run([]string{"ingest", flag[1], "x", "--help"}, a, commands); code != exitOK {
			t.Errorf("gscd ingest %s: exit %d: %s", flag[1], code, stderr)
		}
	}

	// The chart refuses secrets in the configuration: each by a key that there is.
	refuse := string(read("helm/gscd/templates/_refuse.tpl"))
	keys := regexp.MustCompile(`"([a-z0-9_]+\.[a-z0-9_.]*(?:password|token|secret|key)[a-z_]*)"`).FindAllStringSubmatch(refuse, -1)
	if len(keys) < 9 {
		t.Errorf("the chart refuses %d secrets", len(keys))
	}
	unknown := func(key string) bool {
		a, _, stderr := newTestApp("GSCD_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_")) + "_FILE=" + password)
		run([]string{"config", "check", "-c", deploy + "kustomize/example/gscd.yaml"}, a, commands)
		return strings.Contains(stderr.String(), "unknown")
	}
	for _, k := range keys {
		if unknown(k[1]) {
			t.Errorf("the chart refuses %s, which is no setting", k[1])
		}
	}
	if !unknown("kafka.sasl.pass_word") {
		t.Error("a setting that there is not goes through")
	}
}

// The commands that runbooks and pages name in a line of text are commands, with flags that there are.
func TestRunbooks(t *testing.T) {
	form := regexp.MustCompile("`(?:kubectl [^`]*-- |docker compose exec gscd )?(gscd [^`]*)`")
	n := 0
	for _, page := range []string{"docs/runbooks.md", "docs/kubernetes.md", "docs/operations.md", "deploy/compose/README.md"} {
		text, err := os.ReadFile("../../" + page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range form.FindAllStringSubmatch(string(text), -1) {
			n++
			args := regexp.MustCompile(`"[^"]*"|\S+`).FindAllString(m[1], -1)[1:]
			a, stdout, stderr := newTestApp()
			if code := run(append(args, "--help"), a, commands); code != exitOK || !strings.Contains(stdout.String(), "gscd "+args[0]) {
				t.Errorf("%s: %s: exit %d: %s", page, m[1], code, stderr)
			}
		}
	}
	if n < 15 {
		t.Errorf("only %d commands were found", n)
	}
}
