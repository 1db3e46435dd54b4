//go:build integration

package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/scan"
)

func init() { otherVacuums = vacuumsOfEngines }

// vacuumsOfEngines has files of 40 days, of which no engine's own rule needs more than those
// of the newest version: a VACUUM with the table's settings keeps each day, and behind one
// that overrides them a day has its rows or an error that names a file.
func vacuumsOfEngines(t *testing.T, prepare func(t *testing.T, mode string) (*rig, map[string][]row)) {
	const guard = "spark.databricks.delta.retentionDurationCheck.enabled"
	sql := func(lines ...string) (out []request) {
		for _, l := range lines {
			out = append(out, request{"do": "sql", "text": l})
		}
		return out
	}
	for _, v := range []struct {
		engine      string
		obeys       []request // nil: it has none that does
		overrides   []request
		refusesWith string // with deletion vectors
	}{
		{engine: "delta-rs", obeys: []request{{"do": "vacuum"}}, overrides: []request{{"do": "vacuum", "hours": 0}}},
		{engine: "Spark", obeys: sql("VACUUM {path}"), overrides: sql("SET "+guard+" = false", "VACUUM {path} RETAIN 0 HOURS", "SET "+guard+" = true")},
		{engine: "Trino", overrides: sql("CALL delta.system.vacuum('default', '{path}', '7d')"), refusesWith: "Cannot execute vacuum procedure with deletionVectors"},
	} {
		t.Run(v.engine, func(t *testing.T) {
			if v.engine == "Trino" && trinoLacks(t) != "" {
				t.Skip(trinoLacks(t))
			}
			e := startEngine(t, v.engine)
			for _, mode := range []string{"merge on read", "copy on write"} {
				r, before := prepare(t, mode)
				live := r.current()
				old := time.Now().AddDate(0, 0, -40)
				for _, key := range r.objects() {
					if err := os.Chtimes(filepath.Join(r.store.Store.String(), filepath.FromSlash(key)), old, old); err != nil {
						t.Fatal(err)
					}
				}
				vacuum := func(requests []request) error {
					for _, q := range requests {
						q["path"] = r.store.Store.String()
						if _, err := e.ask(t, q); err != nil {
							return err
						}
					}
					return nil
				}
				days := func(lost bool) {
					t.Helper()
					missing := 0
					for day, want := range before {
						rows, _, err := r.asOf(day)
						if errors.Is(err, scan.ErrFileMissing) {
							missing++
							continue
						} else if err != nil {
							t.Error(err)
						}
						sameRows(t, fmt.Sprintf("%s, as of %s", mode, day), rows, want)
					}
					if lost != (missing > 0) {
						t.Errorf("%s: %d days lack files", mode, missing)
					}
					sameRows(t, "rows of the newest version", r.current(), live)
					if lost != (len(r.checkFaults()) > 0) {
						t.Errorf("%s: gscd check finds %v", mode, r.checkFaults())
					}
				}
				if err := vacuum(v.obeys); err != nil {
					t.Fatal(err)
				}
				days(false)
				err := vacuum(v.overrides)
				if v.refusesWith != "" && mode == "merge on read" {
					if err == nil || !strings.Contains(err.Error(), v.refusesWith) {
						t.Errorf("%s: %v", mode, err)
					}
					days(false)
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				days(true)
			}
		})
	}
}
