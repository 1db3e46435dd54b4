//go:build integration

package integration

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// airflow makes an environment with the pinned Airflow of a version, where there is none,
// and gives its folder of programs.
func airflow(t *testing.T, version string) string {
	t.Helper()
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "build", "integration", "airflow-"+version)
	if _, err := os.Stat(dir + ".installed"); err == nil {
		return filepath.Join(dir, "bin")
	}
	began := time.Now()
	for _, command := range [][]string{
		{"python3", "-m", "venv", dir},
		{filepath.Join(dir, "bin", "pip"), "install", "--quiet", "-r", filepath.Join(root, "examples", "airflow", "requirements-"+version+".txt")},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("install Airflow %s: %v\n%s", version, err, out)
		}
	}
	if err := os.WriteFile(dir+".installed", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("Airflow %s installed in %s", version, time.Since(began).Round(time.Second))
	return filepath.Join(dir, "bin")
}

// The operators and the sensor of examples/airflow in the real Airflow, with the real
// program: days are loaded, waited for and checked; what is refused fails.
func TestAirflow(t *testing.T) {
	if os.Getenv("GSCD_ENGINES") == "most" {
		t.Skip("GSCD_ENGINES=most leaves Airflow out")
	}
	t.Parallel()
	gscd := theProgram(t)
	program := filepath.Join(t.TempDir(), "gscd")
	if out, err := exec.Command("go", "build", "-o", program, "../cmd/gscd").CombinedOutput(); err != nil {
		t.Fatalf("build gscd: %v\n%s", err, out)
	}
	example, err := filepath.Abs(filepath.Join("..", "examples", "airflow"))
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"2.11", "3"} {
		t.Run(version, func(t *testing.T) {
			bin := airflow(t, version)
			dir := t.TempDir()
			table, slices, dags := filepath.Join(dir, "user_dim"), filepath.Join(dir, "slices"), filepath.Join(dir, "dags")
			for name, text := range map[string]string{
				"slices/2022-07-16.csv": "id,name,city\n1,Chen Jie,Beijing\n2,Li Na,Beijing\n3,Wang Fang,Wuhan\n",
				"slices/2022-07-17.csv": "id,name,city\n1,Chen Jie,Beijing\n2,Li Na,Hangzhou\n3,Wang Fang,Wuhan\n4,Zhao Lei,Beijing\n",
				"slices/empty.csv":      "id,name,city\n",
				"dags/user_dim.py":      string(readFile(t, filepath.Join(example, "dags", "user_dim.py"))),
				"dags/cases.py":         string(readFile(t, filepath.Join(example, "tests", "cases.py"))),
			} {
				if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			run := func(args ...string) string {
				t.Helper()
				c := exec.Command(filepath.Join(bin, args[0]), args[1:]...)
				c.Dir = dags
				c.Env = append(os.Environ(), "AIRFLOW_HOME="+dir, "AIRFLOW__CORE__DAGS_FOLDER="+dags, "AIRFLOW__CORE__LOAD_EXAMPLES=false",
					"PYTHONPATH="+example+":"+dags, "PYTHONDONTWRITEBYTECODE=1",
					"GSCD_EXAMPLE_TABLE="+table, "GSCD_EXAMPLE_SLICES="+slices, "GSCD_EXAMPLE_PROGRAM="+program)
				out, err := c.CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
				}
				return string(out)
			}
			began := time.Now()
			run("airflow", "db", "migrate")
			run("airflow", "dags", "reserialize")
			said := run("python", filepath.Join(example, "tests", "drive.py"))
			t.Logf("run in %s", time.Since(began).Round(time.Second))
			lines := strings.Split(strings.TrimSpace(said), "\n")
			var raw map[string]json.RawMessage
			if err := json.Unmarshal([]byte(lines[len(lines)-1]), &raw); err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			for name, want := range map[string]string{
				"first": "success", "second": "success", "deferred": "success",
				"unsealed": "failed", "before": "failed", "refused": "failed", "flag": "failed", "unknown": "failed",
			} {
				var got struct {
					State string            `json:"state"`
					Tasks map[string]string `json:"tasks"`
				}
				if err := json.Unmarshal(raw[name], &got); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				equal(t, name, got.State, want)
				for task, state := range got.Tasks {
					equal(t, name+"/"+task, state, want)
				}
			}
			for _, reason := range []string{"2022-07-02", "--accept-deletes=3; touch x", "not a Delta table", "the slice is incomplete: it has 0 rows"} {
				if !strings.Contains(said, reason) {
					t.Errorf("the log does not say %q", reason)
				}
			}
			for label, want := range map[string]string{
				"2022-07-16": "id,name,city\n1,Chen Jie,Beijing\n2,Li Na,Beijing\n3,Wang Fang,Wuhan\n",
				"2022-07-17": "id,name,city\n1,Chen Jie,Beijing\n2,Li Na,Hangzhou\n3,Wang Fang,Wuhan\n4,Zhao Lei,Beijing\n",
				"2022-07-18": "id,name,city\n1,Chen Jie,Beijing\n2,Li Na,Hangzhou\n3,Wang Fang,Wuhan\n4,Zhao Lei,Beijing\n",
			} {
				out, errs, code := gscd("query", "--table", table, "--as-of", label, "--sealed", "--order-by", "id", "--format", "csv")
				if code != 0 || out != want {
					t.Errorf("%s: exit %d, %s\n%s", label, code, errs, out)
				}
			}
		})
	}
}
