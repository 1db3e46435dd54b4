package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// workflow is what a file of .github/workflows may have here: another key is a mistake.
type workflow struct {
	Name string `yaml:"name"`
	On   struct {
		Push             *struct{ Branches, Tags []string } `yaml:"push"`
		PullRequest      any                                `yaml:"pull_request"`
		WorkflowDispatch any                                `yaml:"workflow_dispatch"`
		Schedule         []struct {
			Cron string `yaml:"cron"`
		} `yaml:"schedule"`
	} `yaml:"on"`
	Permissions map[string]string `yaml:"permissions"`
	Concurrency struct {
		Group            string `yaml:"group"`
		CancelInProgress bool   `yaml:"cancel-in-progress"`
	} `yaml:"concurrency"`
	Env  map[string]string      `yaml:"env"`
	Jobs map[string]workflowJob `yaml:"jobs"`
}

type workflowJob struct {
	Needs          []string          `yaml:"needs"`
	RunsOn         string            `yaml:"runs-on"`
	TimeoutMinutes int               `yaml:"timeout-minutes"`
	Permissions    map[string]string `yaml:"permissions"`
	Env            map[string]string `yaml:"env"`
	Strategy       struct {
		FailFast *bool               `yaml:"fail-fast"`
		Matrix   map[string][]string `yaml:"matrix"`
	} `yaml:"strategy"`
	Steps []struct {
		Name             string         `yaml:"name"`
		ID               string         `yaml:"id"`
		If               string         `yaml:"if"`
		Uses             string         `yaml:"uses"`
		With             map[string]any `yaml:"with"`
		Run              string         `yaml:"run"`
		WorkingDirectory string         `yaml:"working-directory"`
	} `yaml:"steps"`
}

func readWorkflows(t *testing.T) map[string]*workflow {
	t.Helper()
	files, err := filepath.Glob("../.github/workflows/*.yml")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*workflow{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		w := &workflow{}
		if err := yaml.UnmarshalWithOptions(text, w, yaml.Strict()); err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		all[strings.TrimSuffix(filepath.Base(file), ".yml")] = w
	}
	return all
}

var (
	makeCall      = regexp.MustCompile(`(?:^|[;&|] *)make ((?:[A-Za-z_]+=\S+ +|[a-z-]+ *)+)`)
	makeTarget    = regexp.MustCompile(`(?m)^([a-z-]+):`)
	packageArg    = regexp.MustCompile(`(?:^| |=)\./([\w/-]*[\w-])(/\.\.\.)?(?:\s|$)`)
	scriptCall    = regexp.MustCompile(`(?:^|[;&|] *)((?:[\w.-]+/)+[\w.-]+\.sh)\b`)
	pinnedByHash  = regexp.MustCompile(`uses: [\w.-]+/[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)
	pinnedByTag   = regexp.MustCompile(`uses: [\w.-]+/[\w./-]+@v\d+\.\d+\.\d+ # by tag: .{20,}$`)
	matrixValue   = regexp.MustCompile(`\$\{\{ *matrix\.(\w+) *\}\}`)
	anyExpression = regexp.MustCompile(`\$\{\{ *([^} ]+)`)
)

// The published workflows are well formed, may do no more than they must, call actions that are pinned, and what their steps run is there.
func TestWorkflows(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, m := range makeTarget.FindAllStringSubmatch(string(makefile), -1) {
		targets[m[1]] = true
	}
	all := readWorkflows(t)
	for _, name := range []string{"ci", "release", "nightly"} {
		if all[name] == nil {
			t.Fatalf("there is no workflow %s", name)
		}
	}
	makes, scripts := 0, 0
	for name, w := range all {
		if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" || w.Concurrency.Group == "" {
			t.Errorf("%s: by default it may %v; concurrency %q", name, w.Permissions, w.Concurrency.Group)
		}
		for job, j := range w.Jobs {
			at := name + ": " + job
			if j.TimeoutMinutes < 5 || j.TimeoutMinutes > 360 || j.RunsOn == "" || strings.Contains(j.RunsOn, "latest") {
				t.Errorf("%s: runs on %q for %d minutes", at, j.RunsOn, j.TimeoutMinutes)
			}
			for _, n := range j.Needs {
				if _, ok := w.Jobs[n]; !ok {
					t.Errorf("%s: needs %s, which is no job", at, n)
				}
			}
			if name != "release" && j.Permissions != nil {
				t.Errorf("%s: may %v", at, j.Permissions)
			}
			for _, s := range j.Steps {
				if (s.Uses == "") == (s.Run == "") {
					t.Errorf("%s: a step runs something or uses an action: %+v", at, s)
				}
				if strings.HasPrefix(s.Uses, "actions/checkout@") && s.With["persist-credentials"] != false {
					t.Errorf("%s: the checkout leaves its token in the folder", at)
				}
				for _, m := range anyExpression.FindAllStringSubmatch(s.Run, -1) {
					// What others may write (a branch's name, a title) comes through env alone.
					if !strings.HasPrefix(m[1], "matrix.") {
						t.Errorf("%s: %s stands in a command", at, m[1])
					}
				}
				for _, run := range matrixRuns(t, at, s.Run, j.Strategy.Matrix) {
					m, n := checkRun(t, at, filepath.Join("..", s.WorkingDirectory), run, targets)
					makes, scripts = makes+m, scripts+n
				}
			}
		}
		raw, err := os.ReadFile("../.github/workflows/" + name + ".yml")
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(raw), "\n") {
			if strings.Contains(line, "uses: ") && !pinnedByHash.MatchString(line) && !pinnedByTag.MatchString(line) {
				t.Errorf("%s.yml:%d: %s is not pinned by a hash and its version, nor by tag with a reason", name, i+1, strings.TrimSpace(line))
			}
		}
	}
	if makes < 12 || scripts < 3 {
		t.Errorf("%d calls of make and %d scripts found", makes, scripts)
	}
	fuzzed := all["nightly"].Jobs["fuzz"].Strategy.Matrix["package"]
	for _, folder := range fuzzPackages(t) {
		if !slices.Contains(fuzzed, folder) {
			t.Errorf("nightly: the fuzz tests of %s are not run", folder)
		}
	}
}

// matrixRuns gives a command with each value of the matrix.
func matrixRuns(t *testing.T, at, run string, matrix map[string][]string) []string {
	m := matrixValue.FindStringSubmatch(run)
	if m == nil {
		return []string{run}
	}
	if len(matrix[m[1]]) == 0 {
		t.Errorf("%s: the matrix has no %s", at, m[1])
	}
	var runs []string
	for _, value := range matrix[m[1]] {
		runs = append(runs, matrixRuns(t, at, strings.ReplaceAll(run, m[0], value), matrix)...)
	}
	return runs
}

// checkRun looks for what a command names: targets, packages, scripts.
func checkRun(t *testing.T, at, folder, run string, targets map[string]bool) (makes, scripts int) {
	for _, m := range makeCall.FindAllStringSubmatch(run, -1) {
		makes++
		for _, word := range strings.Fields(m[1]) {
			if !strings.Contains(word, "=") && !targets[word] {
				t.Errorf("%s: make %s: there is no such target", at, word)
			}
		}
	}
	for _, m := range packageArg.FindAllStringSubmatch(run, -1) {
		if info, err := os.Stat(filepath.Join(folder, m[1])); err != nil || !info.IsDir() {
			t.Errorf("%s: %s: there is no package %s", at, run, m[1])
		}
	}
	for _, m := range scriptCall.FindAllStringSubmatch(run, -1) {
		scripts++
		if info, err := os.Stat(filepath.Join(folder, m[1])); err != nil || info.Mode()&0o111 == 0 {
			t.Errorf("%s: %s: %v, or nobody may run it", at, m[1], err)
		}
	}
	return makes, scripts
}

// fuzzPackages are the folders that have fuzz tests.
func fuzzPackages(t *testing.T) (folders []string) {
	err := filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "build" || strings.HasPrefix(d.Name(), ".") && d.Name() != "..") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if folder := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), "../")); strings.Contains(string(text), "\nfunc Fuzz") && !slices.Contains(folders, folder) {
			folders = append(folders, folder)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return folders
}

// dependabot.yml looks at folders that have what it is to look after.
func TestDependabot(t *testing.T) {
	text, err := os.ReadFile("../.github/dependabot.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Version int `yaml:"version"`
		Updates []struct {
			Ecosystem string `yaml:"package-ecosystem"`
			Directory string `yaml:"directory"`
			Schedule  struct {
				Interval string `yaml:"interval"`
			} `yaml:"schedule"`
			Groups map[string]struct {
				Patterns []string `yaml:"patterns"`
			} `yaml:"groups"`
		} `yaml:"updates"`
	}
	if err := yaml.UnmarshalWithOptions(text, &file, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	needs := map[string]string{"gomod": "go.mod", "github-actions": ".github/workflows/ci.yml", "docker": "Dockerfile", "docker-compose": "docker-compose.yml"}
	seen := map[string]bool{}
	for _, u := range file.Updates {
		need, ok := needs[u.Ecosystem]
		if _, err := os.Stat(filepath.Join("..", u.Directory, need)); !ok || err != nil {
			t.Errorf("%s in %s: %v", u.Ecosystem, u.Directory, err)
		}
		if !slices.Contains([]string{"daily", "weekly", "monthly"}, u.Schedule.Interval) {
			t.Errorf("%s in %s: every %s", u.Ecosystem, u.Directory, u.Schedule.Interval)
		}
		seen[u.Ecosystem] = true
	}
	if file.Version != 2 || len(seen) != len(needs) {
		t.Errorf("version %d, %v", file.Version, seen)
	}
}

// The forms for issues are ones that GitHub takes.
func TestIssueForms(t *testing.T) {
	for _, name := range []string{"bug", "feature"} {
		text, err := os.ReadFile("../.github/ISSUE_TEMPLATE/" + name + ".yml")
		if err != nil {
			t.Fatal(err)
		}
		var form struct {
			Name        string   `yaml:"name"`
			Description string   `yaml:"description"`
			Labels      []string `yaml:"labels"`
			Body        []struct {
				Type       string `yaml:"type"`
				ID         string `yaml:"id"`
				Attributes struct {
					Label       string `yaml:"label"`
					Description string `yaml:"description"`
					Placeholder string `yaml:"placeholder"`
					Render      string `yaml:"render"`
					Value       string `yaml:"value"`
				} `yaml:"attributes"`
				Validations struct {
					Required bool `yaml:"required"`
				} `yaml:"validations"`
			} `yaml:"body"`
		}
		if err := yaml.UnmarshalWithOptions(text, &form, yaml.Strict()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		ids := map[string]bool{}
		for _, b := range form.Body {
			if !slices.Contains([]string{"markdown", "textarea", "input"}, b.Type) || (b.Type == "markdown") != (b.ID == "") || ids[b.ID] || b.Type != "markdown" && b.Attributes.Label == "" {
				t.Errorf("%s: %+v", name, b)
			}
			ids[b.ID] = true
		}
		if form.Name == "" || form.Description == "" || len(form.Body) < 2 {
			t.Errorf("%s: %+v", name, form)
		}
	}
}
