package ingest_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/compact"
	"github.com/gscd-io/gscd/delta/objstore/faulty"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/snapshotter"
)

// scenario is one run, as plain data: it can be cut down and played again.
type scenario struct {
	seed   uint64
	f      features
	o      ingest.Options
	rules  rules
	local  bool
	most   int // records in a fetch
	key    []string
	events []*event // in order of arrival
	steps  []step
	feeds  int // the step, from 1 on, at which change data is configured; 0 for never
	stages stages
}

// stages is how a lane overlaps the writing of a batch with the taking of the next.
type stages int

const (
	serial     stages = iota // it does not
	inTurns                  // on one goroutine, at moments of a seed
	atLast                   // as late as it can
	goroutines               // as in a process that people run
)

func (s stages) set(o *ingest.Options, seed uint64) {
	switch s {
	case serial:
		o.Serially()
	case inTurns:
		r := rand.New(rand.NewPCG(seed, 47))
		o.InTurns(func() bool { return r.IntN(4) == 0 })
	case atLast:
		o.InTurns(func() bool { return false })
	}
}

// step is something that happens to the table.
type step struct {
	what  string // look, abandon (a look that a crash ends), rollback, or one of the operators
	n     int    // so many events have arrived
	clock int64
	wait  int64 // drift.wait
	seed  uint64
	to    int // rollback: which savepoint
	// faults hit one life of the program after the other.
	faults []fault
}

// fault hits a call of the store.
type fault struct {
	kind string // crash, lost, error, unknown, never, dead, stop, rollback, zombie, usurper, savepoint, optimize, vacuum, late, torn, throttle, slow
	call int64
}

// hits tells whether the fault is to come at a call, of a process that is making so many
// commits. Half of those that a commit is the place for come at one.
func (f fault) hits(c faulty.Call, commits int64) bool {
	atCommit := f.call%2 == 1
	switch f.kind {
	case "unknown", "never":
		if atCommit {
			return isCommit(c) && commits == 1+f.call/2%6
		}
	case "zombie", "usurper":
		if atCommit {
			return isCommit(c) && commits == 2+f.call/2%5 // it has the table
		}
	}
	return c.N == f.call
}

func isCommit(c faulty.Call) bool {
	return c.Op == faulty.PutIfAbsent && strings.HasPrefix(c.Key, "_delta_log/") && strings.HasSuffix(c.Key, ".json")
}

func (f fault) String() string { return fmt.Sprintf("%s@%d", f.kind, f.call) }

func (s step) String() string {
	switch {
	case s.what == "rollback":
		return fmt.Sprintf("rollback %d %v", s.to, s.faults)
	case operators[s.what] != nil:
		return fmt.Sprintf("%s (seed %d) wait %s %v", s.what, s.seed, time.Duration(s.wait)*time.Microsecond, s.faults)
	}
	return fmt.Sprintf("%s %d at %s wait %s faults %v", s.what, s.n, time.UnixMicro(s.clock).UTC().Format(time.RFC3339Nano), time.Duration(s.wait)*time.Microsecond, s.faults)
}

var zones = map[string][]string{
	"Asia/Shanghai": nil, "UTC": nil, "Asia/Kolkata": nil,
	"Europe/Berlin":     {"2022-03-26", "2022-10-29"},
	"America/New_York":  {"2022-03-12", "2022-11-05"},
	"America/Sao_Paulo": {"2018-11-03", "2018-02-17"},
	"Australia/Sydney":  {"2022-04-02", "2022-10-01"},
}

func newScenario(seed uint64) *scenario {
	r := rand.New(rand.NewPCG(seed, 7))
	yes := func(p float64) bool { return r.Float64() < p }
	sc := &scenario{seed: seed, f: draw(r), local: yes(.05), most: pick(r, 1, 2, 3, 10, 100)}
	beside := rand.New(rand.NewPCG(seed, 41))
	if beside.IntN(8) == 0 {
		sc.f.alone()
	}
	zone := pick(r, sorted(zones)...)
	granularity, cutover := pick(r, "day", "day", "day", "hour", "15m", "week"), ""
	if granularity == "day" && yes(.25) {
		cutover = "04:00"
	}
	cal, err := snapshotter.NewCalendar(granularity, zone, cutover)
	if err != nil {
		panic(err)
	}
	day := "2022-07-16"
	if len(zones[zone]) > 0 && yes(.5) {
		day = pick(r, zones[zone]...)
	}
	noon, err := time.ParseInLocation("2006-01-02 15", day+" 12", cal.Location())
	if err != nil {
		panic(err)
	}
	start := noon.UnixMicro()
	if granularity == "hour" {
		start += pick[int64](r, 0, 13*hour)
	}
	sc.rules = rules{
		cal: cal, idle: 5 * minute, skew: 5 * minute, late: pick(r, "fold", "fold", "fold", "fold", "dead_letter"),
		future: pick(r, "dead_letter", "dead_letter", "dead_letter", "clamp"),
	}
	if sc.f.tombstones {
		sc.rules.tombstones = "delete"
	}
	src := newSource(r, sc.f, cal, start)
	src.live(pick(r, 4, 10, 10, 20), sc.rules.skew)
	var at []int64
	sc.events, at = src.deliver()
	sc.key = src.key
	sc.steps = script(r, sc, at)
	if sc.f.foreign || beside.IntN(3) == 0 {
		sc.steps = withOperators(beside, sc.steps, &sc.f)
	}
	sc.o = ingest.Options{
		Name: "t", Calendar: cal, Key: src.key, DriftIdle: 5 * time.Minute, MaxClockSkew: 5 * time.Minute,
		Late: sc.rules.late, Future: sc.rules.future, Tombstones: sc.rules.tombstones, MaxDeleteFraction: 1, UntilEnd: true,
		BatchRows: pick(r, 1, 2, 3, 7, 20, 1000), PollRecords: pick(r, 1, 3, 20, 1000), Decoders: 1 + r.IntN(2),
		CheckpointEvery: pick(r, int64(1), 2, 5, 20), CopyOnWrite: yes(.2), Backup: yes(.1), SealChecksum: seed%4 == 1,
		Decode: decode.Options{KeyColumns: src.key, Tombstones: sc.rules.tombstones},
	}
	if yes(.2) {
		sc.o.PartitionBy = []string{pick(r, "note", "v")}
		sc.rules.partitionBy = sc.o.PartitionBy
	}
	sc.settings(rand.New(rand.NewPCG(seed, 43)))
	sc.o.Rewrites = rewritesOf(rand.New(rand.NewPCG(seed, 47)))
	if sc.f.filtered {
		sc.o.Decode.Source = "shop.t"
	}
	if sc.f.misfits || sc.o.PartitionBy != nil {
		sc.o.Columns = map[string]schema.Type{"v": schema.Of(schema.Long), "note": schema.Of(schema.StringType)}
	}
	if !sc.f.broken && !sc.f.truncates && yes(.2) {
		sc.o.Key, sc.o.Decode.KeyColumns = nil, nil // those of the records
	}
	sc.feeds = pick(r, 0, 0, 0, 1, 1, 2+r.IntN(4))
	sc.stages = pick(rand.New(rand.NewPCG(seed, 53)), serial, inTurns, inTurns, atLast, goroutines)
	return sc
}

// rewritesOf draws limits under which files of a few rows are joined, copied and cleaned
// all the time.
func rewritesOf(r *rand.Rand) ingest.Rewrites {
	return ingest.Rewrites{Inline: true, Limits: compact.Limits{
		JoinFiles: pick(r, 2, 2, 3, 5, 50), JoinAtSeal: pick(r, 2, 2, 4), DeadShare: pick(r, .01, .1, .3, .6), WorthShare: pick(r, .01, .3), WorthBytes: 1,
		WorstShare: pick(r, .01, .75), PinnedShare: pick(r, .01, .4, 1), CopyShare: pick(r, .001, .15, .9, .9), TinyRows: pick(r, int64(1), 1, 1, 4096),
		TargetBytes: pick(r, int64(8<<10), 64<<20), SmallBytes: pick(r, int64(12<<10), 32<<20),
	}}
}

// settings draws what else a contract leaves to choose.
func (sc *scenario) settings(r *rand.Rand) {
	rare := func() bool { return r.IntN(6) == 0 }
	if rare() {
		sc.rules.nullKeys, sc.o.NullKey = ingest.DeadLetter, ingest.DeadLetter
	}
	if rare() {
		sc.rules.noPartial, sc.o.PartialImage = true, ingest.DeadLetter
	}
	if rare() {
		sc.rules.asNull, sc.o.BadValue = true, ingest.AsNull
	}
	if rare() {
		sc.rules.merged, sc.o.Reload = true, ingest.Merge
	}
	sc.o.DeadLetterFloor = 1 << 30
}

// script decides when the table is looked at, by which clock, and what goes wrong.
func script(r *rand.Rand, sc *scenario, at []int64) []step {
	yes := func(p float64) bool { return r.Float64() < p }
	if len(sc.events) == 0 {
		return nil
	}
	rollbacks := yes(.25)
	var steps []step
	var clock int64
	wait := pick(r, 10*minute, 10*minute, 10*minute, 6*minute)
	cuts := []int{len(sc.events)}
	for range 1 + r.IntN(4) {
		cuts = append(cuts, 1+r.IntN(len(sc.events)))
	}
	faults := func(often float64, kinds ...string) (out []fault) {
		for yes(often) {
			out = append(out, fault{pick(r, kinds...), 1 + int64(r.IntN(pick(r, 8, 30, 150)))})
		}
		return out
	}
	slices.Sort(cuts)
	for _, n := range slices.Compact(cuts) {
		now := at[n-1]
		l := sc.rules.cal.Label(now)
		end, idle := sc.rules.cal.End(l), sc.rules.idle
		if sc.f.newWaits {
			wait = pick[int64](r, 10, 6, 30) * minute
		}
		clock = max(clock, pick(r, now, now+minute, now+20*minute, now-20*minute, now-2*hour, now-26*hour,
			sc.rules.cal.Start(l)+wait+idle, end-1, end, end+wait, end+wait+idle-1, end+wait+idle, end+wait+idle,
			sc.rules.cal.End(l+2)+wait+idle))
		s := step{what: "look", n: n, clock: clock, wait: wait, seed: r.Uint64()}
		if yes(.1) {
			s.what, s.faults = "abandon", []fault{{"crash", 1 + int64(r.IntN(40))}}
		} else {
			s.faults = faults(.35, "crash", "crash", "lost", "error", "unknown", "never", "dead", "stop", "zombie", "savepoint")
			if rollbacks && yes(.2) {
				s.faults = append(s.faults, fault{"rollback", 1 + int64(r.IntN(60))})
			}
		}
		steps = append(steps, s)
		if s.what == "look" && yes(.15) {
			s.seed, s.faults = r.Uint64(), nil
			steps = append(steps, s) // nothing is new
		}
		if rollbacks && yes(.4) {
			steps = append(steps, step{what: "rollback", to: r.IntN(5), faults: faults(.3, "crash", "lost", "error", "unknown", "never")})
		}
	}
	steps = append(steps, step{what: "look", n: len(sc.events), clock: clock, wait: wait, seed: r.Uint64()})
	return steps
}

// withOperators puts what people and schedulers do between the steps, and into some.
func withOperators(r *rand.Rand, steps []step, f *features) (out []step) {
	kinds := []string{"optimize", "vacuum", "vacuum", "name", "unpin", "force", "config", "column", "rollback"}
	if f.foreign {
		kinds = append(kinds, "foreign", "foreign", "foreign", "foreign", "foreign", "foreign")
	}
	for i, s := range steps {
		for s.what == "look" && r.IntN(3) == 0 {
			kind := pick(r, "optimize", "vacuum", "usurper", "late", "late", "torn", "torn", "throttle", "slow")
			s.faults = append(slices.Clone(s.faults), fault{kind, 1 + int64(r.IntN(pick(r, 8, 30, 150)))})
		}
		out = append(out, s)
		for i < len(steps)-1 && r.IntN(2) == 0 {
			o := step{what: pick(r, kinds...), wait: s.wait, seed: r.Uint64(), to: r.IntN(5)}
			if o.what == "column" && !f.mayLack() {
				o.what = "name"
			}
			for o.what != "column" && o.what != "foreign" && r.IntN(4) == 0 {
				o.faults = append(o.faults, fault{pick(r, "crash", "lost", "error", "unknown", "never"), 1 + int64(r.IntN(pick(r, 5, 20, 80)))})
			}
			out = append(out, o)
		}
	}
	return out
}

// minimise cuts a scenario that fails down to what still fails, and prints it.
func (sc *scenario) minimise(t *testing.T) string {
	budget := 300
	small := *sc
	fails := func(try scenario) bool {
		if budget--; budget < 0 || len(try.events) == 0 || len(try.steps) == 0 {
			return false
		}
		return try.play(t) != ""
	}
	for size := len(small.events) / 2; size > 0; size /= 2 {
		for i := 0; i < len(small.events); {
			if try := small.without(i, min(len(small.events), i+size)); fails(try) {
				small = try
			} else {
				i += size
			}
		}
	}
	for i := 0; i < len(small.steps); {
		try := small
		try.steps = append(append([]step{}, small.steps[:i]...), small.steps[i+1:]...)
		if fails(try) {
			small = try
			continue
		}
		try.steps = append([]step{}, small.steps...)
		if try.steps[i].faults = nil; len(small.steps[i].faults) > 0 && fails(try) {
			small = try
		}
		i++
	}
	return fmt.Sprintf("cut down to %d of %d records: %s\n%s", len(small.events), len(sc.events), small.play(t), small.print())
}

// print shows a scenario: settings, what is done, and the topic.
func (sc *scenario) print() string {
	var b strings.Builder
	o := sc.o
	fmt.Fprintf(&b, "calendar %s, features %+v\n", sc.rules.cal, sc.f)
	fmt.Fprintf(&b, "key %v late %s future %s tombstones %q batch %d poll %d fetch %d copy-on-write %v partition by %v checkpoint every %d local %v backup %v change data from step %d stages %d\nnull keys %s partial %s bad value %s reload %s seal checksum %v\n",
		o.Key, o.Late, o.Future, o.Tombstones, o.BatchRows, o.PollRecords, sc.most, o.CopyOnWrite, o.PartitionBy, o.CheckpointEvery, sc.local, o.Backup, sc.feeds, sc.stages, o.NullKey, o.PartialImage, o.BadValue, o.Reload, o.SealChecksum)
	for _, s := range sc.steps {
		fmt.Fprintf(&b, "  %s\n", s)
	}
	for i, e := range sc.events {
		fmt.Fprintf(&b, "  %d: %s\n", i+1, e)
	}
	return b.String()
}

// without leaves events out; offsets stay, so holes come in their place.
func (sc scenario) without(from, to int) scenario {
	out := sc
	out.events = append(append([]*event{}, sc.events[:from]...), sc.events[to:]...)
	out.steps = append([]step{}, sc.steps...)
	for i := range out.steps {
		n := out.steps[i].n
		out.steps[i].n -= max(0, min(n, to)-from)
	}
	return out
}
