package savepoint_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/savepoint"
)

// weekly keeps three days, then what ends a week for a fortnight, then nothing.
var weekly = savepoint.Policy{
	Text: "keep 3 days, then week ends for 2 weeks", Keep: savepoint.Span{N: 3, Unit: "day"},
	Then: []savepoint.Stage{{Ends: "week", Until: savepoint.Span{N: 2, Unit: "week"}}},
}

// policyDays are the days 1 to 9 of July 2022, of which 5 to 7 are empty and share a version.
// The 3rd is a Sunday.
func policyDays(t testing.TB) *rig {
	g := newRig(t)
	for d := 1; d <= 9; d++ {
		if d < 5 || d > 7 {
			g.day(d, 1, 2, 3, 4)
		}
	}
	g.day(10, 1)
	g.ingest()
	return g
}

func apply(g *rig, now time.Time) string {
	g.t.Helper()
	deleted, _, err := savepoint.ApplyPolicy(ctx, g.table(), weekly, now)
	if err != nil {
		g.t.Fatal(err)
	}
	var names []string
	for _, v := range deleted {
		names = append(names, v.Name[8:])
	}
	return strings.Join(names, " ")
}

func TestApplyPolicy(t *testing.T) {
	g := policyDays(t)
	if _, err := savepoint.CreateNamed(ctx, g.table(), "audit", 1); err != nil {
		t.Fatal(err)
	}
	before := g.pinned()
	if got := apply(g, july(9, 23)); got != "01 02 04 05" { // the 6th ends three days before the 10th
		t.Errorf("deleted %q", got)
	}
	_, s, m := g.newest()
	_, err := m.Resolve("2022-07-02", true)
	if !errors.Is(err, savepoint.ErrDeleted) {
		t.Fatal(err)
	}
	at := m.Entries[1].At
	if when, bad := time.Parse(time.RFC3339Nano, at); bad != nil || time.Since(when) > time.Minute {
		t.Errorf("deleted at %q", at)
	}
	if want := fmt.Sprintf(`2022-07-02: savepoint deleted at %s by the policy "keep 3 days, then week ends for 2 weeks"; the nearest kept label is 2022-07-03`, at); err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	if _, err := m.Resolve("2022-07-05", false); !strings.Contains(fmt.Sprint(err), "the nearest kept labels are 2022-07-03 and 2022-07-06") {
		t.Error(err)
	}
	info := commitInfo(t, g, s.Version())
	if p := info.Parameters; p["policy"] != weekly.Text || p["labels"] != `["2022-07-01","2022-07-02","2022-07-04","2022-07-05"]` {
		t.Errorf("the commit says %v", p)
	}
	if got := apply(g, july(9, 23)); got != "" || g.version() != s.Version() {
		t.Errorf("the second time it deleted %q, version %d after %d", got, g.version(), s.Version())
	}
	// The 6th and the 7th still need the version that they shared with the 5th.
	g.vacuum(savepoint.VacuumOptions{})
	g.check()
	compareKept(t, before, g.pinned(), "audit", "2022-07-03", "2022-07-06", "2022-07-07", "2022-07-08", "2022-07-09", "newest")

	// A day that was deleted is deleted by a person no more, and a year later only the newest is left.
	if _, err := savepoint.Delete(ctx, g.table(), "2022-07-04", time.Now()); !errors.Is(err, savepoint.ErrDeleted) {
		t.Errorf("deleted twice: %v", err)
	}
	if got := apply(g, july(9, 23).AddDate(1, 0, 0)); got != "03 06 07 08" {
		t.Errorf("a year later it deleted %q", got)
	}
	g.vacuum(savepoint.VacuumOptions{})
	compareKept(t, before, g.pinned(), "audit", "2022-07-09", "newest")
	g.day(11, 1, 2)
	g.ingest()
	g.check()
	_, _, m = g.newest()
	if len(m.Progress.Policies) != 1 || fmt.Sprint(m.Progress.Policies[0].Labels) != fmt.Sprintf("[[%d %d]]", m.Entries[0].Label, m.Entries[7].Label) {
		t.Errorf("the progress lists %+v", m.Progress.Policies)
	}
}

// What comes back by a rollback and is sealed again counts as any other, whatever deleted it
// before, and rolled-back savepoints have their own time.
func TestPolicyAndRollback(t *testing.T) {
	g := policyDays(t)
	if _, err := savepoint.Delete(ctx, g.table(), "2022-07-08", july(10, 2)); err != nil {
		t.Fatal(err)
	}
	if got := apply(g, july(9, 23)); got != "01 02 04 05" {
		t.Fatalf("deleted %q", got)
	}
	g.rollback("2022-07-03", savepoint.RollbackOptions{})
	g.check()
	if got := apply(g, july(9, 23)); got != "" {
		t.Errorf("with 2022-07-03 as the newest it deleted %q", got)
	}
	g.ingest()
	g.check()
	want := "01 deleted"
	if got := g.states(); !strings.HasPrefix(got, want) || strings.Contains(got, "04 deleted") || !strings.Contains(got, "08 sealed") || !strings.Contains(got, "09@") {
		t.Errorf("after the replay: %s", got)
	}
	if got := apply(g, july(9, 23)); got != "04 05" {
		t.Errorf("after the replay it deleted %q", got)
	}
	if _, _, m := g.newest(); len(m.Progress.Deleted) != 1 {
		t.Errorf("deleted by hand: %+v", m.Progress.Deleted)
	}
	if got := apply(g, july(9, 23).AddDate(1, 0, 0)); got != "03 06 07 08" {
		t.Errorf("a year later it deleted %q", got)
	}
	_, _, m := g.newest()
	if len(m.Progress.Deleted) != 0 { // the policy deleted it last
		t.Errorf("deleted by hand: %+v", m.Progress.Deleted)
	}
	if _, err := m.Resolve("2022-07-08", true); !strings.Contains(fmt.Sprint(err), "by the policy") {
		t.Error(err)
	}
	g.vacuum(savepoint.VacuumOptions{RolledBack: 24 * time.Hour})
	g.check()
}

// An ingester that seals meanwhile is no obstacle, and what it sealed is judged too.
func TestPolicyBesideIngester(t *testing.T) {
	g := policyDays(t)
	first := true
	store := &beforeCommit{g.store, func() {
		if !first {
			return
		}
		first = false
		g.day(11, 1, 2, 3)
		g.day(12, 1, 2, 3)
		g.ingest() // seals the 10th and the 11th
	}}
	deleted, _, err := savepoint.ApplyPolicy(ctx, delta.New(store), weekly, july(11, 23))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(deleted); first || n != 6 || deleted[n-1].Name != "2022-07-07" {
		t.Errorf("deleted %v", deleted)
	}
	g.check()
	g.day(13, 1, 2)
	g.ingest()
	g.check()
}

// beforeCommit calls do before each commit of whoever has the store.
type beforeCommit struct {
	objstore.Store
	do func()
}

func (b *beforeCommit) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	if deltalog.ParseName(strings.TrimPrefix(key, deltalog.Dir)).Kind == deltalog.CommitFile {
		b.do()
	}
	return b.Store.PutIfAbsent(ctx, key, data)
}

type infoOf struct {
	Operation  string            `json:"operation"`
	Parameters map[string]string `json:"operationParameters"`
}

func commitInfo(t *testing.T, g *rig, version int64) (info infoOf) {
	t.Helper()
	raw, err := g.table().CommitInfo(ctx, version)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(raw)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &info); err != nil {
		t.Fatal(err)
	}
	return info
}

func (g *rig) version() int64 {
	_, s, _ := g.newest()
	return s.Version()
}

// compareKept wants exactly these names to be pinned, with the rows of before.
func compareKept(t *testing.T, before, now map[string]string, names ...string) {
	t.Helper()
	if len(now) != len(names) {
		t.Errorf("pinned are %d, want %v", len(now), names)
	}
	for _, name := range names {
		if now[name] != before[name] || now[name] == "" {
			t.Errorf("%s: %s\nwant %s", name, now[name], before[name])
		}
	}
}
