package delta_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/deltalog"
)

// A domain that has ended does not come back, and one that lasts is not lost: by a
// checkpoint, beside a checksum file that does not name them, after log cleanup.
func TestDomainsOutliveTheLog(t *testing.T) {
	for _, policy := range []string{"classic", "v2"} {
		c := newClock()
		store, table, s := newTable(t, c)
		x := delta.NewTransaction(table, s)
		m := metadata("table")
		features := []string{delta.FeatureDomainMetadata}
		if policy == "v2" {
			m.Configuration[delta.PropertyCheckpointPolicy] = policy
			features = append(features, delta.FeatureV2Checkpoint)
		}
		x.SetMetadata(m)
		x.SetProtocol(delta.WithFeatures(*s.Protocol(), features...))
		x.SetDomain(action.DomainMetadata{Domain: "kept", Configuration: `{"a":1}`})
		x.SetDomain(action.DomainMetadata{Domain: "ended", Configuration: "{}"})
		s = commit(t, x)
		x = delta.NewTransaction(table, s)
		x.SetDomain(action.DomainMetadata{Domain: "ended", Configuration: "{}", Removed: true})
		s = commit(t, x)
		for i := range 2 { // the second one is made from what the first one says
			if _, err := table.Checkpoint(ctx, s, delta.CheckpointOptions{}); err != nil {
				t.Fatal(err)
			}
			for v := range s.Version() {
				if err := store.Delete(ctx, deltalog.CommitKey(v)); err != nil && i == 0 {
					t.Fatal(err) // the second time some have gone before
				}
			}
			if err := store.Put(ctx, deltalog.ChecksumKey(s.Version()), []byte(`{"tableSizeBytes":0,"numFiles":0,"numMetadata":1,"numProtocol":1,"domainMetadata":[]}`)); err != nil {
				t.Fatal(err)
			}
			s = reopen(t, table)
			if got := s.Domains(); len(got) != 1 || got[0].Domain != "kept" || got[0].Configuration != `{"a":1}` {
				t.Errorf("%s: domains %+v", policy, got)
			}
			x = delta.NewTransaction(table, s)
			x.Add(add(fmt.Sprint(i)))
			s = commit(t, x)
		}
	}
}

// The list of pitfalls in the README names tests that are there.
func TestPitfallsAreTested(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, ok := strings.Cut(string(readme), "## What others ran into")
	list, _, _ = strings.Cut(list, "\n## ")
	rows, names := 0, regexp.MustCompile("`([a-z0-9/]+)` ((?:`(?:Test|Fuzz)[A-Za-z0-9]+`(?:, )?)+)")
	for line := range strings.Lines(list) {
		cells := strings.Split(line, "|")
		if !ok || len(cells) != 4 || strings.HasPrefix(cells[1], " ---") || cells[1] == " what went wrong " {
			continue
		}
		rows++
		found := names.FindAllStringSubmatch(cells[2], -1)
		if len(found) == 0 {
			t.Errorf("no test: %s", line)
		}
		for _, m := range found {
			var source strings.Builder
			files, err := filepath.Glob(filepath.Join("..", m[1], "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range files {
				text, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				source.Write(text)
			}
			for test := range strings.SplitSeq(strings.TrimSuffix(m[2], ", "), ", ") {
				if test = strings.Trim(test, "`"); !strings.Contains(source.String(), "\nfunc "+test+"(") {
					t.Errorf("package %s has no test %s", m[1], test)
				}
			}
		}
	}
	if rows < 20 {
		t.Errorf("only %d rows in the list", rows)
	}
}
