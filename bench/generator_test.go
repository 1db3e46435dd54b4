package bench

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// digest is that of n events: keys, values, offsets and times.
func digest(t *testing.T, p Params, n int) string {
	t.Helper()
	g, err := NewGenerator(p)
	if err != nil {
		t.Fatal(err)
	}
	h := sha256.New()
	for range n {
		r := g.Record(g.Next())
		fmt.Fprintf(h, "%d %d %s %s\n", r.Offset, r.Timestamp, r.Key, r.Value)
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// The same parameters give the same bytes on every machine: what these digests are
// changes only with the workload itself, and figures of before can't be compared then.
func TestGeneratorBytes(t *testing.T) {
	base := Params{Seed: 1, Columns: 10, Mix: "standard", Keys: "uniform", Rows: 1000, Events: 5000, Days: 1}
	with := func(change func(*Params)) Params { p := base; change(&p); return p }
	seen := map[string]string{}
	for name, c := range map[string]struct {
		p    Params
		want string
	}{
		"base":    {base, "d56477339489eb33"},
		"seed":    {with(func(p *Params) { p.Seed = 2 }), "eb5dd73a2c394565"},
		"wide":    {with(func(p *Params) { p.Columns = 40 }), "32dc862251c1a9c9"},
		"inserts": {with(func(p *Params) { p.Mix = "insert-heavy" }), "a838e95585661c7e"},
		"updates": {with(func(p *Params) { p.Mix = "update-heavy" }), "a4a92551bef69fe3"},
		"zipf":    {with(func(p *Params) { p.Keys = "zipf" }), "b9a394f19ee32551"},
		"recent":  {with(func(p *Params) { p.Keys = "recent" }), "182048d996067d4a"},
		"empty":   {with(func(p *Params) { p.Rows = 0 }), "02e7e1a4bedf20dd"},
		"year":    {with(func(p *Params) { p.Days = 365 }), "a272524e02a8e80a"},
		"rate":    {with(func(p *Params) { p.Rate, p.Begin = 5000, 1_700_000_000_000 }), "7ca9603c2a83a332"},
	} {
		got := digest(t, c.p, 5000)
		if got != digest(t, c.p, 5000) {
			t.Errorf("%s: two runs differ", name)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
		if other := seen[got]; other != "" {
			t.Errorf("%s and %s are the same", name, other)
		}
		seen[got] = name
	}
}

// Against a set of keys kept aside: what is changed lives, shares and skew are as said.
func TestGeneratorIsValid(t *testing.T) {
	const n = 60_000
	for _, mix := range Mixes() {
		for _, keys := range KeyPatterns() {
			for _, rows := range []int64{0, 5000} {
				g, err := NewGenerator(Params{Seed: 3, Columns: 10, Mix: mix, Keys: keys, Rows: rows, Events: n, Days: 3})
				if err != nil {
					t.Fatal(err)
				}
				live := map[int64]bool{}
				for id := range rows {
					live[id+1] = true
				}
				ops, hits, newest, last := map[byte]int{}, map[int64]int{}, 0, int64(0)
				for range n {
					before := g.Keys()
					e := g.Next()
					ops[e.Op]++
					if live[e.ID] != (e.Op != 'c') {
						t.Fatalf("%s %s: %c of %d at event %d", mix, keys, e.Op, e.ID, e.N)
					}
					live[e.ID] = true
					if e.Op == 'd' {
						delete(live, e.ID)
					}
					if e.Op == 'u' {
						hits[e.ID]++
						if e.ID > before-before/100 {
							newest++
						}
					}
					if e.Time < last {
						t.Fatalf("time goes back at event %d", e.N)
					}
					last = e.Time
				}
				if g.Live() != int64(len(live)) {
					t.Errorf("%s %s: %d live, want %d", mix, keys, g.Live(), len(live))
				}
				for i, op := range []byte("cud") {
					share := float64(ops[op]) / n * 10_000
					if want := float64(mixes[mix][i]); share < want*.9 || share > want*1.1+20 {
						t.Errorf("%s %s: %.0f of 10,000 are %c, want %.0f", mix, keys, share, op, want)
					}
				}
				top := 0
				for _, h := range hits {
					top = max(top, h)
				}
				share := float64(newest) / float64(ops['u'])
				switch {
				case keys == "zipf" && float64(top) < .02*float64(ops['u']):
					t.Errorf("%s %s: the hottest key has %d of %d", mix, keys, top, ops['u'])
				case keys == "uniform" && rows > 0 && top > 60:
					t.Errorf("%s %s: a key has %d of %d", mix, keys, top, ops['u'])
				case keys == "recent" && (share < .75 || share > .97):
					t.Errorf("%s %s %d: %.2f in the newest hundredth", mix, keys, rows, share)
				}
				if days := (last - start) / dayMillis; days != 1 { // the last one is short of the second midnight
					t.Errorf("%d days", days)
				}
			}
		}
	}
}

func TestGeneratorValueIsJSON(t *testing.T) {
	g, err := NewGenerator(Params{Seed: 1, Columns: 40, Mix: "standard", Keys: "uniform", Rows: 100, Days: 1})
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		e := g.Next()
		var v struct {
			Before, After map[string]any
			Op            string
		}
		if err := json.Unmarshal(g.AppendValue(nil, e), &v); err != nil {
			t.Fatal(err)
		}
		if v.Op != string(e.Op) || e.Op != 'd' && len(v.After) != 40 || e.Op != 'c' && len(v.Before) != 40 {
			t.Fatalf("%+v", v)
		}
		if e.Op != 'd' && (v.After["id"] != float64(e.ID) || v.After["city"] != Row(40, e.ID, e.Version())[3].S) {
			t.Fatalf("%v", v.After)
		}
	}
}

func TestParamsCheck(t *testing.T) {
	err := Params{Columns: 3, Mix: "x", Keys: "y", Rows: MaxRows + 1, Days: 0}.Check()
	for _, word := range []string{"columns", "mix", "keys", "rows", "days"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not name %s", err, word)
		}
	}
}

// A generator on 50 M rows takes a bit a key.
func TestGeneratorMemory(t *testing.T) {
	g, err := NewGenerator(Params{Seed: 1, Columns: 10, Mix: "standard", Keys: "uniform", Rows: MaxRows, Events: 1000, Days: 1})
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 200_000 {
		g.Next()
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 {
		t.Errorf("%d bytes", took)
	}
}

func BenchmarkGenerator(b *testing.B) {
	for _, columns := range []int{10, 40} {
		b.Run(fmt.Sprintf("columns=%d", columns), func(b *testing.B) {
			g, err := NewGenerator(Params{Seed: 1, Columns: columns, Mix: "standard", Keys: "uniform", Rows: 1_000_000, Days: 1})
			if err != nil {
				b.Fatal(err)
			}
			bytes := 0
			for b.Loop() {
				bytes += len(g.Record(g.Next()).Value)
			}
			b.ReportMetric(float64(bytes)/float64(b.N), "bytes/event")
		})
	}
}
