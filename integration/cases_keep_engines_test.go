//go:build integration

package integration

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/savepoint"
)

func init() { otherVacuums = vacuumsOfEngines }

// namesWhatIsMissing compares the files that savepoints and the newest version need, and
// are not there, with those that check names; lost tells that there are some.
func (r *rig) namesWhatIsMissing(lost bool) {
	r.t.Helper()
	there := map[string]bool{}
	for _, key := range r.objects() {
		there[key] = true
	}
	missing := map[string]bool{}
	for _, p := range savepoint.PinsOf(r.newest()) {
		for key := range r.objectsOf(p.Version) {
			if !there[key] {
				missing[key] = true
			}
		}
	}
	named := map[string]bool{}
	for _, f := range r.checkFaults() {
		if f.Check != "file" || f.Label == "" || !strings.Contains(f.Message, "it is missing") {
			r.t.Errorf("check finds %+v", f)
		}
		named[f.File] = true
	}
	if !maps.Equal(named, missing) || lost != (len(missing) > 0) {
		r.t.Errorf("check names %v, missing are %v", named, missing)
	}
}

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
		{engine: "delta-rs", obeys: []request{{"do": "vacuum"}}, overrides: []request{{"do": "vacuum", "hours": 0}, {"do": "vacuum", "hours": 0, "full": true}}},
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
					r.namesWhatIsMissing(lost)
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
