package snapshotter

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// zoneBytes is a zone's file from the embedded data.
func zoneBytes(t testing.TB, name string) []byte {
	t.Helper()
	files, err := zoneFiles()
	if err != nil {
		t.Fatal(err)
	}
	r, err := files[name].Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// testdata finds the shared test data: GSCD_TESTDATA, else ../shared beside go.mod.
func testdata(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("GSCD_TESTDATA"); dir != "" {
		return dir
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(filepath.Dir(root), "shared")
}

// The oracle's calendar, another implementation in another language, must name
// and bound every instant alike. It is given the embedded zone data.
func TestCalendarAgainstOracle(t *testing.T) {
	oracle := filepath.Join(testdata(t), "oracle")
	if _, err := os.Stat(filepath.Join(oracle, "oracle.py")); err != nil {
		t.Skipf("no oracle: %v; set GSCD_TESTDATA to the shared test data", err)
	}
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 to run the oracle with")
	}
	type subject struct{ granularity, zone, cutover string }
	subjects := []subject{
		{"day", "Asia/Shanghai", "00:00"},
		{"day", "Asia/Shanghai", "04:00"},
		{"day", "Europe/Berlin", "02:30"},
		{"day", "America/Sao_Paulo", "00:00"},
		{"day", "Pacific/Apia", "00:00"},
		{"day", "America/St_Johns", "00:00"},
		{"day", "America/Havana", "00:00"},
		{"day", "Asia/Gaza", "00:30"},
		{"day", "Australia/Lord_Howe", "02:15"},
		{"day", "Africa/Casablanca", "02:45"},
		{"day", "Europe/Dublin", "01:00"},
		{"day", "Antarctica/Troll", "01:30"},
		// Hours where all jumps fall on the hour; elsewhere the oracle keeps full
		// hours across a jump.
		{"hour", "Asia/Shanghai", "00:00"},
		{"hour", "Europe/Berlin", "00:00"},
		{"hour", "Asia/Kolkata", "00:00"},
		{"hour", "America/New_York", "00:00"},
		{"hour", "Australia/Adelaide", "00:00"},
	}
	zones := t.TempDir()
	rng := rand.New(rand.NewPCG(7, 16))
	to := micros(t, "2100-01-01T00:00:00Z")
	var in, want bytes.Buffer
	for _, s := range subjects {
		path := filepath.Join(zones, s.zone)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, zoneBytes(t, s.zone), 0o644); err != nil {
			t.Fatal(err)
		}
		c := calendar(t, s.granularity, s.zone, s.cutover)
		from := micros(t, "1990-01-01T00:00:00Z")
		if s.granularity == "hour" {
			// The oracle leaves the offset out before, also where an hour came twice.
			from = micros(t, "2000-01-01T00:00:00Z")
		}
		for range 150 {
			at := from + rng.Int64N(to-from)
			if l := c.Label(at); rng.IntN(2) == 0 {
				at = c.Start(l) - 2000 + 1000*rng.Int64N(4) // at a label's edge
			}
			ms := floorDiv(at, 1000)
			l := c.Label(ms * 1000)
			fmt.Fprintln(&in, s.granularity, s.zone, s.cutover, ms)
			fmt.Fprintln(&want, s.granularity, s.zone, s.cutover, ms, c.Name(l), c.Start(l)/1000, c.End(l)/1000)
		}
	}
	cmd := exec.Command(python, "-I", "-c", `
import sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
import zoneinfo; zoneinfo.reset_tzpath([sys.argv[2]])
import oracle
cals = {}
for line in sys.stdin:
    g, z, c, ms = line.split()
    if (g, z, c) not in cals:
        cals[g, z, c] = oracle.Calendar(oracle.Settings(granularity=g, timezone=z, cutover=int(c[:2]) * 60 + int(c[3:])))
    cal = cals[g, z, c]; n = cal.label(int(ms))
    print(g, z, c, ms, cal.name(n), cal.start(n), cal.end(n))
`, oracle, zones)
	cmd.Stdin = &in
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("oracle: %v\n%s", err, stderr.String())
	}
	ours, theirs := strings.Split(want.String(), "\n"), strings.Split(string(out), "\n")
	if len(ours) != len(theirs) {
		t.Fatalf("%d answers, want %d", len(theirs), len(ours))
	}
	differ := 0
	for i := range ours {
		if ours[i] != theirs[i] && differ < 10 {
			differ++
			t.Errorf("ours   %s\noracle %s", ours[i], theirs[i])
		}
	}
}
