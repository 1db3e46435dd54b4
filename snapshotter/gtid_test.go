package snapshotter

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestGTIDSet adds transactions one by one, and shows the intervals.
func TestGTIDSet(t *testing.T) {
	const uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
	var g GTIDSet
	for _, c := range []struct {
		add   string
		known bool
		want  string
	}{
		{uuid + ":5", false, "[[5,5]]"},
		{uuid + ":5", true, "[[5,5]]"},
		{uuid + ":6", false, "[[5,6]]"},
		{uuid + ":4", false, "[[4,6]]"},
		{uuid + ":9", false, "[[4,6],[9,9]]"},
		{uuid + ":1", false, "[[1,1],[4,6],[9,9]]"},
		{uuid + ":8", false, "[[1,1],[4,6],[8,9]]"},
		{uuid + ":7", false, "[[1,1],[4,9]]"},
		{uuid + ":3", false, "[[1,1],[3,9]]"},
		{uuid + ":2", false, "[[1,9]]"},
		{uuid + ":7", true, "[[1,9]]"},
	} {
		if got := g.Has(c.add); got != c.known {
			t.Errorf("%s is known: %v", c.add, got)
		}
		g.Add(c.add)
		if got, _ := json.Marshal(g[uuid]); string(got) != c.want {
			t.Errorf("behind %s: %s, want %s", c.add, got, c.want)
		}
	}
	// Sources are apart: tags of MySQL 8.3, MariaDB's domains and servers.
	for _, text := range []string{uuid + ":tag:3", "0-1-3", "0-2-3", "1-1-3"} {
		if g.Has(text) {
			t.Errorf("%s is known", text)
		}
		g.Add(text)
		if !g.Has(text) {
			t.Errorf("%s is not known", text)
		}
	}
	before := fmt.Sprint(g)
	for _, text := range []string{"", "x", "a:", "a:x", ":", "a:99999999999999999999", "-"} {
		if g.Add(text); g.Has(text) {
			t.Errorf("%q, which is no GTID, is known", text)
		}
	}
	if fmt.Sprint(g) != before {
		t.Errorf("what is no GTID changed the set: %v", g)
	}
}

// TestGTIDSetAgainstMap: exact while there are few gaps; never forgets what it took.
func TestGTIDSetAgainstMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g GTIDSet
		taken := map[string]bool{}
		gtid := rapid.Custom(func(t *rapid.T) string {
			return rapid.SampledFrom([]string{"u:%d", "u:tag:%d", "0-7-%d"}).Draw(t, "source")
		})
		text := func() string {
			return strings.Replace(gtid.Draw(t, "gtid"), "%d", fmt.Sprint(rapid.IntRange(0, 60).Draw(t, "n")), 1)
		}
		for range rapid.IntRange(0, 80).Draw(t, "adds") {
			x := text()
			g.Add(x)
			taken[x] = true
		}
		raw, err := json.Marshal(g)
		if err != nil {
			t.Fatal(err)
		}
		var read GTIDSet
		if err := json.Unmarshal(raw, &read); err != nil || len(g) > 0 && !reflect.DeepEqual(g, read) {
			t.Fatalf("%s came back as %v, %v", raw, read, err)
		}
		for range 20 {
			if x := text(); read.Has(x) != taken[x] {
				t.Fatalf("%s is known: %v, in %s", x, read.Has(x), raw)
			}
		}
	})
}

// TestGTIDSetIsBounded: past the bound the oldest gap closes: nothing that was
// taken is forgotten, and what is newer stays exact.
func TestGTIDSetIsBounded(t *testing.T) {
	var g GTIDSet
	for n := int64(0); n < 4*maxIntervals; n += 2 {
		g.Add(fmt.Sprintf("u:%d", n))
		if len(g["u"]) > maxIntervals {
			t.Fatalf("%d intervals", len(g["u"]))
		}
	}
	for n := int64(0); n < 4*maxIntervals; n += 2 {
		if !g.Has(fmt.Sprintf("u:%d", n)) {
			t.Errorf("u:%d was forgotten", n)
		}
	}
	if !g.Has("u:1") {
		t.Error("the oldest gap is open")
	}
	if last := fmt.Sprintf("u:%d", 4*maxIntervals-3); g.Has(last) {
		t.Errorf("%s, in the newest gap, is known", last)
	}
}
