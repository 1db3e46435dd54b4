package progress

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/alloctest"
	"github.com/gscd-io/gscd/drift"
	"github.com/gscd-io/gscd/format"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/snapshotter"
)

// full has something in every member.
func full() *Progress {
	meta := snapshotter.Meta{Partition: 1, Offset: 9, Line: 1, Position: change.Position{File: 1 << 60, Pos: 1<<53 + 1, Row: 3}, HasPosition: true, Rank: snapshotter.RankRead, Time: 1657958400000001}
	server := change.Server{Name: "shop", ID: 7}
	counts := Counts{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18}
	p := &Progress{
		Kind: SealKind, Label: "2022-07-17", Transform: "t", TopicIDs: map[string]string{"t": "id"}, ColumnsAtOpen: []string{"id", "v"},
		Held: []drift.File{
			{Key: "h1", Group: 3, Label: 19190, Count: 5, Applied: 2, Bytes: 99},
			{Key: "h2", Group: 4, Load: &drift.LoadID{Line: 1, Position: meta.Position}, Count: 1, Bytes: 7},
		},
		Markers: []MarkerFile{{"m", 19189, 2, 3}}, Group: 4, Rows: 12, Counts: counts, FirstUnseen: 3,
		DDL:         []AppliedDDL{{1, meta.Position, true, 19190, "ALTER TABLE t DROP b", []Renamed{{"a", "c"}}, []string{"b"}, []SeenAt{{0, 7}}}},
		Foreign:     []ForeignCommit{{7, "DELETE", "engine", 19190, 0, 5}},
		Rewritten:   []Rewritten{{6, []int64{7}, []string{"part-1.parquet"}, []HighOfLine{{1, 1, meta.Position, true, meta.Time}}}},
		Totals:      Totals{Taken: 36, Applied: 1, Superseded: 2, Duplicates: 3, Tombstones: 4, Filtered: 5, DeadLetters: 6, Dismissed: 2, Held: 15, Holes: 9, Rewound: 1},
		DeadLetters: map[string]int64{"2022-07-16": 2}, Resolved: map[string]int64{"2022-07-17": 1}, Settled: []SettledFile{{"s", 1, 9}}, Undone: []Span{{4, 6}}, RolledBack: []RolledBack{{19190, 5, "2022-07-18T00:00:00Z", 19189, true}},
		Deleted: []Deleted{{19180, 2, "2022-07-18T00:00:00Z"}}, Policies: []PolicyDeleted{{"keep 1 day", [][2]snapshotter.Label{{19170, 19172}, {19175, 19175}}}}, Incomplete: &Incomplete{19189, "why", &meta.Position, 1}, OwnerEpoch: 3, Owner: "host process 7 (a1b2c3d4)", Raised: []int64{1657958400000}, Slice: &Slice{Source: "a.csv", Digest: "ab", Mode: UpsertSlice, Rows: 4, New: 1, Changed: 1, Unchanged: 2, Replaced: 3}, Slices: 2, LastSeal: 0,
		Late: []LateChange{{"t", 1, 5, `{"id":1}`, 19189, "folded"}},
		Seals: []Evidence{{
			Label: 19189, Name: "2022-07-16", SealedAt: "a", Clock: "b", Lines: []snapshotter.Line{{Server: server, Generation: 1}}, Counts: counts, Rows: 2,
			Partitions: []PartitionEvidence{{Topic: "t", Partition: 1, Offset: 9, Watermark: meta.Time, Rule: snapshotter.ByClock,
				Origins: snapshotter.Origins{CommitTimes: true, StatementTimes: true, ColumnTimes: true, BrokerTimes: true, Positions: true, NoPositions: true}}},
			Format:     "maxwell",
			Attributes: []string{"empty"}, DeadLetters: 2, Reason: "r", Digest: "d", Late: []LateChange{{Topic: "t"}}, Foreign: []ForeignCommit{{Version: 7}}, Forced: true,
		}},
	}
	p.State = snapshotter.State{
		First: 19188, Open: 19190, Wait: 600e6, Lines: []snapshotter.Line{{Server: server}, {Server: server, Generation: 1}},
		Loads:  []*snapshotter.Load{{Line: 1, Server: server, Position: meta.Position, Label: 19189, On: []int32{1}, Written: true, FirstRead: &meta, LastRead: &meta, Oldest: 5, Ended: true}},
		Floors: []snapshotter.Meta{meta},
	}
	part := p.State.AddPartition(change.PartitionID{Topic: "t", Partition: 1}, 4)
	part.Next, part.Watermark, part.LastLabel, part.HasLastLabel = 9, meta.Time, 19189, true
	part.CommitTimes, part.NoPositions, part.LastGTID, part.SentAgain = true, true, "u:1", []byte{1, 0xff}
	part.GTIDs.Add("u:1")
	part.Lines = []*snapshotter.PartitionLine{{Server: server, Generation: 1, Number: 1, High: meta.Position, HasHigh: true, AtHigh: []uint64{1<<53 - 1}, File: 1 << 60}}
	p.State.AddPartition(change.PartitionID{Topic: "t", Partition: 2}, 0) // nothing taken
	return p
}

// commitInfo puts a progress where a commit has it.
func commitInfo(t testing.TB, p *Progress) json.RawMessage {
	t.Helper()
	raw, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	info, err := json.Marshal(map[string]any{"timestamp": 1, "operation": "SEAL", Key: raw})
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestRoundTrip(t *testing.T) {
	for name, p := range map[string]*Progress{"full": full(), "empty": {}} {
		got, err := Decode(commitInfo(t, p))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, p) {
			t.Errorf("%s: came back as\n%+v, want\n%+v", name, got, p)
		}
		if got.FormatVersion != FormatVersion {
			t.Errorf("%s: format version %d", name, got.FormatVersion)
		}
	}
	// Every member is in full(): a member that is forgotten there is not tested.
	p := reflect.ValueOf(*full())
	for i := range p.NumField() {
		if name := p.Type().Field(i).Name; p.Field(i).IsZero() && name != "FormatVersion" && name != "LastSeal" {
			t.Errorf("full() lacks %s", name)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct {
		info string
		is   error
		says string
	}{
		{`{"gscd":{"format_version":2,"kind":"batch"}}`, format.ErrNewer, "the progress in commitInfo.gscd has version 2, this program knows 1: it was written by a newer gscd; use the release that wrote it or newer"},
		{`{"gscd":{"format_version":3,"kind":["batch"]},"engineInfo":"gscd/v0.3.0"}`, format.ErrNewer, "has version 3, this program knows 1: it was written by a newer gscd; use gscd v0.3.0 or newer"},
		{`{"gscd":{"kind":"batch"}}`, ErrFormat, "version 0"},
		{`{"gscd":{"format_version":1,"state":{"first":5,"open":4}}}`, nil, "before the first"},
		{`{"gscd":{"format_version":1,"state":{"partitions":[{"topic":"t","partition":1,"start":5,"next":4}]}}}`, nil, "t/1"},
		{`{"gscd":{"format_version":1,"state":{"partitions":[null]}}}`, nil, "partition"},
		{`{"gscd":{"format_version":1,"state":{"partitions":[{"lines":[{"number":3}]}]}}}`, nil, "line"},
		{`{"gscd":{"format_version":1,"state":{"partitions":[{"lines":[null]}]}}}`, nil, "line"},
		{`{"gscd":{"format_version":1,"state":{"loads":[null]}}}`, nil, "load"},
		{`{"gscd":[1]}`, nil, "read progress"},
		{`{"gscd":"x"}`, nil, "read progress"},
		{`[]`, nil, "commitInfo"},
		{`{`, nil, "commitInfo"},
		{``, nil, "commitInfo"},
	} {
		p, err := Decode(json.RawMessage(c.info))
		if err == nil || p != nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v", c.info, p, err)
		}
	}
	for _, info := range []string{`{}`, `{"gscd":null}`, `{"operation":"OPTIMIZE"}`} {
		if p, err := Decode(json.RawMessage(info)); p != nil || err != nil {
			t.Errorf("%s: %v, %v", info, p, err)
		}
	}
}

func TestMissing(t *testing.T) {
	totals := full().Totals
	if totals.Missing() != 0 {
		t.Errorf("%d of %+v have no fate", totals.Missing(), totals)
	}
	// Each member counts.
	v := reflect.ValueOf(&totals).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		v.Field(i).SetInt(v.Field(i).Int() + 1)
		want := map[string]int64{"Taken": 1, "Dismissed": 0, "Holes": 0, "FurtherRows": 0, "Rewound": 0}
		n, ok := want[name]
		if !ok {
			n = -1
		}
		if totals.Missing() != n {
			t.Errorf("one more %s: %d have no fate, want %d", name, totals.Missing(), n)
		}
		v.Field(i).SetInt(v.Field(i).Int() - 1)
	}
	if n := full().Counts.Applied(); n != 1+2+3+4 {
		t.Errorf("%d were applied", n)
	}
}

func TestClone(t *testing.T) {
	p := full()
	p.FormatVersion = FormatVersion
	c := p.Clone()
	if !reflect.DeepEqual(p, c) {
		t.Fatalf("%+v is a clone of %+v", c, p)
	}
	c.State.Partitions[0].Next++
	c.State.Loads[0].FirstRead.Offset++
	c.Held[1].Load.Position.Pos++
	c.DeadLetters["x"] = 1
	c.Seals[0].Counts.Inserts++
	again := full()
	if again.FormatVersion = FormatVersion; !reflect.DeepEqual(p, again) {
		t.Fatal("a change of the clone changed its origin")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(commitInfo(f, full())))
	f.Add([]byte(commitInfo(f, &Progress{})))
	f.Add([]byte(`{"gscd":{"format_version":1,"state":{"partitions":[{"gtids":{"u":[[1,2],[4,5]]}}]}}}`))
	f.Add([]byte(`{"gscd":null}`))
	f.Fuzz(func(t *testing.T, info []byte) {
		alloctest.Within(t, len(info), 256, 1<<20, func() { _, _ = Decode(info) })
		p, err := Decode(info)
		if err != nil || p == nil {
			return
		}
		again, err := Decode(commitInfo(t, p))
		if err != nil || fmt.Sprintf("%+v", again.State.First) != fmt.Sprintf("%+v", p.State.First) {
			t.Fatalf("%s came back as %+v, %v", info, again, err)
		}
		x, _ := p.Encode()
		y, _ := again.Encode()
		if string(x) != string(y) {
			t.Fatalf("%s came back as %s", x, y)
		}
	})
}

func TestDeadLettersAsOf(t *testing.T) {
	p := &Progress{
		DeadLetters: map[string]int64{"2022-07-16": 5, "2022-07-18": 1},
		Resolved:    map[string]int64{"2022-07-17": 2, "2022-07-18": 1},
	}
	// A day lacks what was dead by then and not resolved by then.
	for label, want := range map[string]int64{"2022-07-15": 0, "2022-07-16": 5, "2022-07-17": 3, "2022-07-18": 3, "2022-07-19": 3} {
		if got := p.DeadLettersAsOf(func(l string) bool { return l <= label }); got != want {
			t.Errorf("%s: %d, want %d", label, got, want)
		}
	}
}

// What policies and people deleted, against a map of labels.
func TestNoteDeleted(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		p, want := &Progress{}, map[snapshotter.Label]string{}
		for range 30 {
			if r.IntN(3) == 0 {
				l := snapshotter.Label(r.IntN(40))
				p.NoteDeleted(Deleted{Label: l, At: "now"}, 1000)
				want[l] = "by hand"
				continue
			}
			policy := []string{"a", "b"}[r.IntN(2)]
			var labels []snapshotter.Label
			for l := range snapshotter.Label(40) {
				if r.IntN(8) == 0 {
					labels = append(labels, l)
					want[l] = policy
				}
			}
			p.NoteDeletedByPolicy(policy, labels)
			p = p.Clone()
		}
		for l := range snapshotter.Label(41) {
			got := p.DeletedByPolicy(l)
			for _, d := range p.Deleted {
				if d.Label == l {
					got += "by hand"
				}
			}
			if got != want[l] {
				t.Fatalf("label %d: %q, want %q; %+v, %+v", l, got, want[l], p.Deleted, p.Policies)
			}
		}
		for _, d := range p.Policies {
			for i, ranges := 1, d.Labels; i < len(ranges); i++ {
				if ranges[i][0] <= ranges[i-1][1]+1 {
					t.Fatalf("ranges that touch: %v", ranges)
				}
			}
		}
	}
}
