package suite

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func line(scenario string, rows int, perSecond float64, puts int, cpu string) string {
	return fmt.Sprintf(`{"scenario":%q,"source":"process","table_rows":%d,"batch":100,"seed":1,"done":10,"per_second":%v,"requests":{"put":%d},"latency_ms":null,"machine":{"cpu":%q,"cores":2,"go":"go1"}}`,
		scenario, rows, perSecond, puts, cpu)
}

func TestCompare(t *testing.T) {
	old := "[\n" + line("ingest", 5, 100, 4, "A") + ",\n" + line("query", 5, 1, 0, "A") + "\n]\n"
	new := line("ingest", 5, 150, 6, "A") + "\n" + line("ingest", 6, 1, 1, "A") + "\n"
	records, notices, err := Compare([]byte(old), []byte(new))
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, r := range records {
		got += fmt.Sprint(r[0].Value, r[2].Value, " ", r[4].Value, " ", r[5].Value, " ", r[6].Value, " ", r[7].Value, " ", r[8].Value, "\n")
	}
	want := "ingest5 counted done 10 10 1\ningest5 counted requests.put 4 6 1.5\ningest5 timed per_second 100 150 1.5\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if len(notices) != 2 || !strings.Contains(notices[0], "only in the new one: scenario=ingest") || !strings.Contains(notices[1], "only in the old one: scenario=query") {
		t.Errorf("%q", notices)
	}
	if _, notices, _ = Compare([]byte(old), []byte(line("ingest", 5, 1, 1, "B"))); len(notices) == 0 || !strings.Contains(notices[0], "2 cores of B") {
		t.Errorf("%q", notices)
	}
	if _, _, err = Compare([]byte(old), []byte(line("ingest", 7, 1, 1, "A"))); err == nil {
		t.Error("nothing in common was compared")
	}
	for _, bad := range []string{"", "[]", "{}", "[1]", `{"scenario":3}`, "{", "null"} {
		if _, _, err := Compare([]byte(bad), []byte(old)); !errors.Is(err, ErrNotAComparison) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestNamesAreThoseOfRecords(t *testing.T) {
	names := strings.Join(Names(), " ")
	for _, figure := range append(append([]string{}, countedFigures...), timedFigures...) {
		outer, _, _ := strings.Cut(figure, ".")
		if !strings.Contains(" "+names+" ", " "+outer+" ") {
			t.Errorf("%s is compared and not printed", figure)
		}
	}
	for _, size := range sizes {
		if !strings.Contains(" "+names+" ", " "+size+" ") {
			t.Errorf("%s is not printed", size)
		}
	}
}

func TestCount(t *testing.T) {
	for f, want := range map[float64]string{0: "0", 7: "7", 12.34: "12.3", 1.234: "1.23", 999.6: "1000", 1234: "1.23 k", 99_950: "100.0 k", 2e6: "2 M", 3.5e9: "3.50 G"} {
		if got := count(f); got != want {
			t.Errorf("%v: %q, want %q", f, got, want)
		}
	}
	for f, want := range map[float64]float64{0: 0, 123456: 123456, 1.23456: 1.235, 0.00012345: 0.0001235, -2.00001: -2} {
		if got := round(f); got < want-1e-9 || got > want+1e-9 {
			t.Errorf("%v: %v, want %v", f, got, want)
		}
	}
}
