package main

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/objstore/faulty"
)

// writing is a command that writes, on tables that a preparation has made.
type writing struct {
	prepare doing
	args    []string
	// done is what the command may refuse with where it had succeeded before: there is
	// nothing left to do. Empty: it succeeds as often as it is run.
	done string
	// unfinished is what it refuses with where an interrupted run has left files that a person
	// is to remove first.
	unfinished string
	// labels are tables of gscd, which check and vacuum look after; places are others.
	labels, places []string
}

// story is a topic of days: changes, a bad record, a late one, one of the next day.
func storyOf(days int) string {
	var b strings.Builder
	at := func(day int, clock string) int64 {
		when, err := time.Parse("2006-01-02 15:04", fmt.Sprintf("2022-07-%02d %s", day, clock))
		if err != nil {
			panic(err)
		}
		return when.UnixMilli()
	}
	offsets := map[int]int{}
	record := func(partition int, ts int64, key, value string) {
		fmt.Fprintf(&b, `{"topic":"items","partition":%d,"offset":%d,"ts":%d,"key":{"id":%s},%s}`+"\n", partition, offsets[partition], ts, key, value)
		offsets[partition]++
	}
	change := func(id, name string, ts, event int64) {
		op, after := "u", fmt.Sprintf(`{"id":%s,"name":%q,"day":"2022-07-16"}`, id, name)
		if name == "" {
			op, after = "d", "null"
		}
		partition := int(id[0]-'0') % 2
		record(partition, ts, id, fmt.Sprintf(`"value":{"op":%q,"before":{"id":%s},"after":%s,"source":{"name":"s","server_id":1,"db":"d","table":"items","file":"b.000001","pos":%d,"row":0,"ts_ms":%d},"ts_ms":%d}`,
			op, id, after, 100+10*(offsets[0]+offsets[1]), event, event))
	}
	for day := 16; day < 16+days; day++ {
		for i, id := range []string{"1", "2", "3", "4"} {
			now := at(day, fmt.Sprintf("08:%02d", i))
			change(id, fmt.Sprintf("n%d", day), now, now)
		}
		now := at(day, "09:00")
		change(fmt.Sprintf("%d", 5+day%4), "new", now, now)
		if day > 16 {
			change("3", "", now, now)
			change("2", "late", now, at(day-1, "10:00"))
			record(0, now, "7", `"raw_value":"no envelope"`)
		}
		// The next day begins within drift.wait: these are held.
		for _, id := range []string{"1", "2"} {
			now := at(day+1, "00:0"+id)
			change(id, "early", now, now)
		}
	}
	return b.String()
}

// tableConfig configures one table of the topic.
func tableConfig(t *testing.T, name, more string) string {
	t.Helper()
	return input(t, name+".yaml", fmt.Sprintf("calendar: {timezone: UTC}\ntables: [{name: %s, location: /w/%s, topics: [items], key: [id]%s}]\n", name, name, more))
}

// doing makes tables: it runs commands and lays files down.
type doing func(*testing.T, *world)

func after(parts ...doing) doing {
	return func(t *testing.T, w *world) {
		for _, do := range parts {
			do(t, w)
		}
	}
}

func run1(args ...string) doing { return func(t *testing.T, w *world) { w.ok(t, args...) } }

func put(key, text string) doing {
	return func(t *testing.T, w *world) {
		if err := w.below.Put(t.Context(), key, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
}

// removed takes the first object away whose key has both parts.
func removed(prefix, part string) doing {
	return func(t *testing.T, w *world) {
		if err := w.below.Delete(t.Context(), w.first(t, prefix, part)); err != nil {
			t.Fatal(err)
		}
	}
}

// altered replaces a part of the first such object.
func altered(prefix, part, from, to string) doing {
	return func(t *testing.T, w *world) {
		key := w.first(t, prefix, part)
		body, err := w.below.Get(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		changed := bytes.ReplaceAll(body, []byte(from), []byte(to))
		if bytes.Equal(changed, body) {
			t.Fatalf("%s has no %q: %s", key, from, body)
		}
		// Another program that wrote it would give it no sum.
		changed = bytes.ReplaceAll(changed, []byte(`,"sha256":"`), []byte(`,"other":"`))
		put(key, string(changed))(t, w)
	}
}

func (w *world) first(t *testing.T, prefix, part string) string {
	t.Helper()
	for o, err := range w.below.List(t.Context(), prefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(o.Key, part) {
			return o.Key
		}
	}
	t.Fatalf("no object %s*%s", prefix, part)
	return ""
}

// writings are all commands that write into a storage, each in the forms that write
// in ways of their own.
func writings(t *testing.T) map[string]writing {
	whole, part := input(t, "items.jsonl", storyOf(4)), input(t, "items.jsonl", storyOf(2))
	plain, cowed := tableConfig(t, "t", ""), tableConfig(t, "cow", ", write: {mode: copy-on-write}, change_data: true, partition_by: [day]")
	keeps := tableConfig(t, "keeps", ", retention: keep 1 day")
	late, folds := tableConfig(t, "late", ", late: dead_letter"), tableConfig(t, "late", ", late: fold")
	args := func(line string, more ...string) []string {
		line = strings.NewReplacer("PLAIN", plain, "KEEPS", keeps, "COW", cowed, "LATE", late, "FOLDS", folds, "WHOLE", whole, "PART", part).Replace(line)
		return append(strings.Fields(line), more...)
	}
	do := func(line string, more ...string) doing { return run1(args(line, more...)...) }
	grown := after(do("ingest -c PLAIN --input PART --until-end"), do("ingest -c PLAIN --input WHOLE --until-end"))
	exported := do("export --table /w/t --as-of 2022-07-16 --to /w/out --deep")
	slices := after(
		put("w/in/2022-07-16.csv", "id,name,n\n1,a,1\n2,b,2\n3,c,3\n"),
		put("w/in/2022-07-17.csv", "id,name,n\n1,a,1\n2,B,2\n3,c,3\n4,d,4\n"),
		put("w/in/2022-07-18.csv", "id,name,n\n1,a,1\n2,b,3\n3,c,3\n5,e,5\n"),
	)
	const slice = " --table /w/s --key id --timezone UTC --max-delete-fraction 90%"
	first := after(slices, do("load --snapshot 2022-07-16 s3://w/in/2022-07-16.csv"+slice))
	deleted := do("savepoint delete 2022-07-16 --table /w/t --yes")
	rolled := do("rollback --table /w/t --to 2022-07-17 --yes")
	history := do("scd2 --table /w/t --out /w/h --row-hash hash")
	t1, cow, s := []string{"/w/t"}, []string{"/w/cow"}, []string{"/w/s"}
	out := []string{"/w/out"}
	return map[string]writing{
		"ingest, the first":         {args: args("ingest -c PLAIN --input WHOLE --until-end"), labels: t1},
		"ingest, going on":          {prepare: do("ingest -c PLAIN --input PART --until-end"), args: args("ingest -c PLAIN --input WHOLE --until-end"), labels: t1},
		"ingest, in small batches":  {args: args("ingest -c PLAIN --input PART --until-end --batch-rows 2"), labels: t1},
		"ingest, copy-on-write":     {prepare: do("ingest -c COW --input PART --until-end"), args: args("ingest -c COW --input WHOLE --until-end"), labels: cow},
		"ingest behind a rollback":  {prepare: after(grown, rolled), args: args("ingest -c PLAIN --input WHOLE --until-end"), labels: t1},
		"rollback":                  {prepare: grown, args: args("rollback --table /w/t --to 2022-07-17 --yes"), labels: t1},
		"rollback --no-replay":      {prepare: grown, args: args("rollback --table /w/t --to 2022-07-17 --yes --no-replay"), labels: t1},
		"rollback with change data": {prepare: do("ingest -c COW --input WHOLE --until-end"), args: args("rollback --table /w/cow --to 2022-07-17 --yes"), labels: cow},
		"savepoint create":          {prepare: grown, args: args("savepoint create here --table /w/t"), done: `"here" pins version \d+ already`, labels: t1},
		"savepoint delete, a label": {prepare: grown, args: args("savepoint delete 2022-07-16 --table /w/t --yes"), done: "2022-07-16.*deleted", labels: t1},
		"savepoint delete, a name":  {prepare: after(grown, do("savepoint create here --table /w/t")), args: args("savepoint delete here --table /w/t --yes"), done: "here", labels: t1},
		"seal":                      {prepare: do("ingest -c PLAIN --input PART --until-end"), args: args("seal 2022-07-17 --force -c PLAIN --input PART --now 2022-07-18T00:05:00Z"), done: "2022-07-17 is sealed|2022-07-17 is not the open", labels: t1},
		"offsets set":               {prepare: grown, args: args("offsets set items/0=5 -c PLAIN --input WHOLE --yes"), labels: t1},
		"adopt":                     {prepare: after(grown, do("export --table /w/t --as-of 2022-07-17 --to /w/a --deep --purge")), args: args("adopt --label 2022-07-17 --location /w/a --key id --timezone UTC --topic items --yes --input WHOLE --offsets items/0=3,items/1=3"), done: "it is gscd's", labels: []string{"/w/a"}},
		"load, the first":           {prepare: slices, args: args("load --snapshot 2022-07-16 s3://w/in/2022-07-16.csv" + slice), labels: s},
		"load":                      {prepare: first, args: args("load --snapshot 2022-07-17 s3://w/in/2022-07-17.csv" + slice), labels: s},
		"load over a gap":           {prepare: first, args: args("load --snapshot 2022-07-18 s3://w/in/2022-07-18.csv" + slice), labels: s},
		"load --upsert":             {prepare: first, args: args("load --snapshot 2022-07-18 s3://w/in/2022-07-18.csv --upsert" + slice), labels: s},
		"load --replace":            {prepare: after(first, do("load --snapshot 2022-07-17 s3://w/in/2022-07-17.csv"+slice)), args: args("load --snapshot 2022-07-17 s3://w/in/2022-07-18.csv --replace" + slice), labels: s},
		"load --from-dir":           {prepare: slices, args: args("load --from-dir s3://w/in" + slice), labels: s},
		"load --from-scd2":          {prepare: after(grown, history), args: args("load --from-scd2 /w/h --without-columns hash" + slice), labels: s},
		"optimize":                  {prepare: grown, args: args("optimize --table /w/t --pinned"), labels: t1},
		"optimize --zorder":         {prepare: grown, args: args("optimize --table /w/t --pinned --zorder id,name"), labels: t1},
		"optimize --hilbert":        {prepare: do("ingest -c COW --input WHOLE --until-end"), args: args("optimize --table /w/cow --pinned --hilbert id,name"), labels: cow},
		"optimize --purge":          {prepare: grown, args: args("optimize --table /w/t --pinned --purge"), labels: t1},
		"widen":                     {prepare: after(slices, do("load --snapshot 2022-07-16 s3://w/in/2022-07-16.csv --columns n=int"+slice)), args: args("widen n=bigint --table /w/s"), labels: s},
		"vacuum":                    {prepare: after(grown, rolled, deleted), args: args("vacuum --table /w/t --retain 0s --grace 0s"), labels: t1},
		"maintain":                  {prepare: after(do("ingest -c KEEPS --input PART --until-end"), do("ingest -c KEEPS --input WHOLE --until-end"), run1(args("rollback --table /w/keeps --to 2022-07-17 --yes")...), do("ingest -c KEEPS --input WHOLE --until-end")), args: args("maintain -c KEEPS --once --retain 0s --grace 0s"), labels: []string{"/w/keeps"}},
		"vacuum --by-log":           {prepare: after(grown, do("optimize --table /w/t --pinned"), deleted), args: args("vacuum --table /w/t --retain 0s --grace 0s --by-log"), labels: t1},
		"check --repair":            {prepare: after(grown, removed("w/t/_delta_log/", ".checkpoint."), removed("w/t/_delta_log/", "00000001.json")), args: args("check --table /w/t --repair"), labels: t1},
		"check --files forget":      {prepare: after(grown, exported, removed("w/out/", ".parquet")), args: args("check --files --forget-missing --table /w/out"), places: out},
		"check --files --repair":    {prepare: after(grown, exported, altered("w/out/_delta_log/", "0.json", `"size":`, `"size":1`)), args: args("check --files --repair --table /w/out"), places: out},
		"scd2, the first":           {prepare: grown, args: args("scd2 --table /w/t --out /w/h --row-hash hash --keep-steps /w/k"), places: []string{"/w/h", "/w/k/new", "/w/k/changed", "/w/k/closed", "/w/k/deleted"}},
		"scd2, going on":            {prepare: after(do("ingest -c PLAIN --input PART --until-end"), history, do("ingest -c PLAIN --input WHOLE --until-end")), args: args("scd2 --table /w/t --out /w/h"), places: []string{"/w/h"}},
		"scd2 behind a rollback":    {prepare: after(grown, history, rolled), args: args("scd2 --table /w/t --out /w/h"), places: []string{"/w/h"}},
		"export --shallow":          {prepare: grown, args: args("export --table /w/t --as-of 2022-07-17 --to /w/out"), done: "there is a table already", places: out},
		"export --deep":             {prepare: grown, args: args("export --table /w/t --as-of 2022-07-17 --to /w/out --deep"), done: "there is a table already", places: out},
		"export --replace":          {prepare: after(grown, exported), args: args("export --table /w/t --as-of 2022-07-17 --to /w/out --deep --replace --purge --manifest"), places: out},
		"export, a file":            {prepare: grown, args: args("export --table /w/t --as-of 2022-07-17 --to /w/out/one.csv"), done: "there is something already|there already", places: out},
		"export --as parquet":       {prepare: grown, args: args("export --table /w/t --as-of 2022-07-17 --to /w/out --as parquet"), done: "already in .*_SUCCESS", unfinished: "did not come to its end", places: out},
		"convert":                   {prepare: after(grown, do("export --table /w/t --as-of 2022-07-17 --to /w/out --as parquet")), args: args("convert /w/out"), done: "exists|already|is a", places: out},
		"dead-letter replay":        {prepare: do("ingest -c LATE --input WHOLE --until-end"), args: args("dead-letter replay -c FOLDS --reason late"), labels: []string{"/w/late"}},
		"dead-letter dismiss":       {prepare: do("ingest -c LATE --input WHOLE --until-end"), args: args("dead-letter dismiss -c LATE --reason decode"), labels: []string{"/w/late"}},
	}
}

// faults are the ways in which a call fails. What has no effect can't be lost.
var faults = map[string]struct {
	faulty.Fault
	reads bool
}{
	"error before":     {faulty.Fault{}, true},
	"error, and there": {faulty.Fault{Applied: true}, false},
	"lost answer":      {faulty.LostAnswer, false},
	"never arrived":    {faulty.NeverArrived, false},
	"crash before":     {faulty.Fault{Crash: true}, true},
	"crash behind":     {faulty.Fault{Crash: true, Applied: true}, false},
}

// everyCall lets TestEveryCallOfCommands and TestEveryRequestOfCommands take all points; else they take
// some of each command, in -short fewer.
var everyCall = flag.Bool("everycall", false, "TestEveryCallOfCommands and TestEveryRequestOfCommands: fail every call of every command")

// TestEveryCallOfCommands lets each call that a command makes to the storage fail once, in
// each way in which calls fail, runs the command again, and compares with a run without
// faults: rows and counts of every label, what is pinned, offsets, dead letters. What check
// finds, what vacuum leaves and what a place outside of the tables holds is looked at too.
func TestEveryCallOfCommands(t *testing.T) {
	var points atomic.Int64
	atWork := make(chan struct{}, 8)
	t.Cleanup(func() { t.Logf("%d points in all", points.Load()) })
	all := writings(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		wr := all[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base := newWorld()
			if wr.prepare != nil {
				wr.prepare(t, base)
			}
			sound := base.clone()
			sound.ok(t, wr.args...)
			want := wr.tell(t, sound)
			calls := sound.store.Calls()
			n, step := 0, 7
			switch {
			case *everyCall:
				step = 1
			case testing.Short():
				step = 29
			}
			var wg sync.WaitGroup
			for kind, f := range faults {
				for i := range calls {
					if !slices.Contains(faulty.Writes, calls[i].Op) && !f.reads {
						continue
					}
					if (i+len(kind)+len(name))%step != 0 {
						continue
					}
					n++
					wg.Add(1)
					atWork <- struct{}{} // runs wait more than they work
					go func() {
						defer func() { <-atWork; wg.Done() }()
						wr.failAt(t, base.clone(), calls[i].N, kind, f.Fault, want)
					}()
				}
			}
			wg.Wait()
			points.Add(int64(n))
			t.Logf("%d calls, %d points", len(calls), n)
		})
	}
}

func (wr *writing) tell(t *testing.T, w *world) string {
	t.Helper()
	var b strings.Builder
	for _, place := range append(slices.Clone(wr.labels), wr.places...) {
		fmt.Fprintf(&b, "%s\n%s", place, w.tell(t, place))
	}
	return b.String()
}

func (wr *writing) failAt(t *testing.T, w *world, n int64, kind string, f faulty.Fault, want string) {
	t.Helper()
	var hit faulty.Call
	w.store.Fail(func(c faulty.Call) *faulty.Fault {
		if c.N != n {
			return nil
		}
		hit = c
		return &f
	})
	var out bytes.Buffer
	code, stderr := w.gscd(&out, wr.args...)
	what := fmt.Sprintf("%s at %s", kind, hit)
	if hit.N == 0 {
		return // the calls of another run stand in another order, and it made fewer
	}
	w.store.Heal()
	if code != 0 && !strings.Contains(stderr, "call "+fmt.Sprint(n)) && !strings.Contains(stderr, faulty.ErrCrashed.Error()) {
		t.Errorf("%s: exit %d, and the error does not say what failed: %s", what, code, stderr)
	}
	out.Reset()
	again, says := w.gscd(&out, wr.args...)
	if again != 0 && wr.unfinished != "" && strings.Contains(says, wr.unfinished) {
		for _, place := range wr.places {
			w.clear(t, place)
		}
		again, says = w.gscd(&out, wr.args...)
	}
	if again != 0 && (wr.done == "" || !regexp.MustCompile(wr.done).MatchString(says)) {
		t.Errorf("%s: exit %d: %s\nand again: exit %d: %s", what, code, stderr, again, says)
		return
	}
	if got := wr.tell(t, w); got != want {
		t.Errorf("%s: exit %d: %s\nand again: exit %d: %s\nit is\n%s\nwithout a fault\n%s", what, code, stderr, again, says, got, want)
		return
	}
	for _, table := range wr.labels {
		out.Reset()
		if code, stderr := w.gscd(&out, "check", "--deep", "--table", table); code != 0 {
			t.Errorf("%s: check --deep of %s: exit %d\n%s%s", what, table, code, out.String(), stderr)
			return
		}
		w.ok(t, "vacuum", "--table", table, "--retain", "0s", "--grace", "0s")
		if left := w.orphans(t, table); len(left) > 0 {
			t.Errorf("%s: vacuum leaves %s of %s", what, left, table)
		}
	}
	if len(wr.labels) > 0 {
		if got := wr.tell(t, w); got != want {
			t.Errorf("%s: behind vacuum it is\n%s\nwithout a fault\n%s", what, got, want)
		}
	}
}
