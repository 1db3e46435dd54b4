package bench

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/gscd-io/gscd/ingest/change"
)

// The shares of inserts, updates and deletes in ten thousand events. Of each mix at
// least half of all keys stay live.
var mixes = map[string][3]int{
	"standard":     {3000, 6000, 1000},
	"insert-heavy": {9000, 800, 200},
	"update-heavy": {600, 9200, 200},
}

// Mixes are the names of the mixes of operations.
func Mixes() []string { return []string{"standard", "insert-heavy", "update-heavy"} }

// KeyPatterns are the names of the ways to choose the key of an update.
func KeyPatterns() []string { return []string{"uniform", "zipf", "recent"} }

// What a Generator takes at most.
const (
	MaxRows    = 50_000_000
	MaxEvents  = 4_000_000_000 // event numbers are kept in 32 bits
	MaxDays    = 365
	MaxColumns = 2000
)

// Params say which events a Generator makes. The same Params give the same bytes: uniform
// keys on every machine, others on every machine of one architecture, whose logarithms agree.
type Params struct {
	// Seed tells workloads of the same shape apart.
	Seed uint64 `json:"seed"`
	// Columns of a row, 10 to MaxColumns.
	Columns int `json:"columns"`
	// Mix is one of Mixes, Keys one of KeyPatterns.
	Mix  string `json:"mix"`
	Keys string `json:"keys"`
	// Rows are the keys 1 to Rows that are there at first, 0 to MaxRows.
	Rows int64 `json:"rows"`
	// Events is how many there will be, which spreads them over Days (1 to MaxDays) days
	// from Begin on. On one day they follow one another Rate a second, 10,000 where it is 0.
	Events int64 `json:"events"`
	Days   int   `json:"days"`
	Rate   int   `json:"rate,omitempty"`
	// Begin is the time of the first event in milliseconds since 1970, 0 for 08:00 UTC on
	// 2022-07-16.
	Begin int64 `json:"begin,omitempty"`
}

// Check gives every fault of the Params.
func (p Params) Check() error {
	var faults []error
	if _, ok := mixes[p.Mix]; !ok {
		faults = append(faults, fmt.Errorf("mix %q is unknown: use %s", p.Mix, strings.Join(Mixes(), ", ")))
	}
	if !slices.Contains(KeyPatterns(), p.Keys) {
		faults = append(faults, fmt.Errorf("keys %q is unknown: use %s", p.Keys, strings.Join(KeyPatterns(), ", ")))
	}
	for _, limit := range []struct {
		what         string
		n, low, high int64
	}{{"columns", int64(p.Columns), int64(len(names)), MaxColumns}, {"rows", p.Rows, 0, MaxRows}, {"events", p.Events, 0, MaxEvents}, {"days", int64(p.Days), 1, MaxDays}} {
		if limit.n < limit.low || limit.n > limit.high {
			faults = append(faults, fmt.Errorf("%d %s: give %d to %d", limit.n, limit.what, limit.low, limit.high))
		}
	}
	return errors.Join(faults...)
}

// Start is the time of the first event in milliseconds since 1970.
func (p Params) Start() int64 {
	if p.Begin > 0 {
		return p.Begin
	}
	return start
}

const dayMillis = 24 * 60 * 60 * 1000

// Time is the time of event n, counted from 0, in milliseconds since 1970. It never goes back.
func (p Params) Time(n int64) int64 {
	switch {
	case p.Days > 1 && p.Events > 0:
		span := int64(p.Days-1) * dayMillis
		return p.Start() + n/p.Events*span + n%p.Events*span/p.Events
	case p.Rate > 0:
		return p.Start() + n*1000/int64(p.Rate)
	}
	return p.Start() + n/10
}

// Event is one change: Op is c, u or d, N counts from 0, Time is in milliseconds since 1970.
type Event struct {
	Op    byte
	ID, N int64
	Time  int64
}

// Version is the version of the row that the event leaves, see Row.
func (e Event) Version() int64 { return e.N + 1 }

// Generator makes the events of Params in order, one after the other. It takes a bit a key.
// What it updates or deletes is there; a deleted key never comes back. The row before a
// change is one of its key, but not its last one. It is meant for one goroutine.
type Generator struct {
	p    Params
	mix  [3]int
	rng  *rand.Rand
	zipf *rand.Zipf
	span uint64 // the keys that zipf draws from
	// gone has a bit for each key that was deleted; next is the next new one, live how many live.
	gone       []uint64
	next, live int64
	n          int64
	rows       *renderer
	slab       []byte
}

// NewGenerator makes a Generator of Params that Check takes.
func NewGenerator(p Params) (*Generator, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	return &Generator{
		p: p, mix: mixes[p.Mix], rng: rand.New(rand.NewPCG(p.Seed, uint64(p.Rows))), next: p.Rows + 1, live: p.Rows,
		rows: newRenderer(p.Columns),
	}, nil
}

// Params are those that the Generator was made of.
func (g *Generator) Params() Params { return g.p }

// fewest is how many keys must live before one is changed.
const fewest = 10

// Next gives the next event. There is no end.
func (g *Generator) Next() Event {
	e := Event{Op: 'c', N: g.n, Time: g.p.Time(g.n)}
	g.n++
	p := g.rng.IntN(10_000)
	switch {
	case p < g.mix[0] || g.live < fewest:
		e.ID = g.next
		g.next++
		g.live++
	case p < g.mix[0]+g.mix[1]:
		e.Op, e.ID = 'u', g.pick(g.p.Keys)
	default: // rows end wherever they are
		e.Op, e.ID = 'd', g.pick("uniform")
		g.live--
		word := int(e.ID >> 6)
		if word >= len(g.gone) {
			g.gone = append(g.gone, make([]uint64, word+1+len(g.gone)/4-len(g.gone))...)
		}
		g.gone[word] |= 1 << (e.ID & 63)
	}
	return e
}

func (g *Generator) isGone(id int64) bool {
	word := int(id >> 6)
	return word < len(g.gone) && g.gone[word]>>(id&63)&1 == 1
}

// tries is how often a pattern is asked for a live key before a uniform one is taken.
const tries = 8

// pick gives a live key.
func (g *Generator) pick(pattern string) int64 {
	for range tries {
		id := int64(0)
		switch pattern {
		case "zipf":
			id = g.hot()
		case "recent":
			// Nine of ten lie among the newest keys: exponentially, with a mean of a three
			// hundredth of all, so that nearly all of them are in the newest hundredth.
			if g.rng.IntN(10) < 9 {
				id = g.next - 1 - int64(g.rng.ExpFloat64()*float64(g.next)/300)
			}
		}
		if pattern == "uniform" {
			break
		}
		if id <= 0 {
			id = 1 + g.rng.Int64N(g.next-1)
		}
		if !g.isGone(id) {
			return id
		}
	}
	for {
		if id := 1 + g.rng.Int64N(g.next-1); !g.isGone(id) {
			return id
		}
	}
}

// hot draws by Zipf's law with an exponent of 1.1: the k-th hottest of the keys gets
// 1/k^1.1. Hot keys lie all over the table. New keys take part whenever they have doubled.
func (g *Generator) hot() int64 {
	keys := uint64(g.next - 1)
	if g.zipf == nil || keys >= 2*g.span {
		g.span = keys
		for g.span%spread == 0 {
			g.span--
		}
		g.zipf = rand.NewZipf(g.rng, 1.1, 1, g.span-1)
	}
	return 1 + int64(g.zipf.Uint64()*spread%g.span)
}

// spread is a prime that is larger than most tables: its multiples visit all keys.
const spread = 2_654_435_761

// Keys is how many keys there have ever been, Live how many of them live.
func (g *Generator) Keys() int64 { return g.next - 1 }

// Live is how many keys live.
func (g *Generator) Live() int64 { return g.live }

// AppendValue writes the Debezium envelope of an event.
func (g *Generator) AppendValue(b []byte, e Event) []byte {
	return g.rows.appendEvent(b, e.Op, e.ID, e.N, e.N, e.Version(), e.Time)
}

// AppendKey writes the key of an event's record.
func (g *Generator) AppendKey(b []byte, e Event) []byte {
	return append(strconv.AppendInt(append(b, `{"id":`...), e.ID, 10), '}')
}

// slabBytes is how much memory records share.
const slabBytes = 256 << 10

// Record gives an event as a record of partition 0, at the offset of its number.
func (g *Generator) Record(e Event) *change.Record {
	if cap(g.slab)-len(g.slab) < 1<<10*(1+g.p.Columns/8) {
		g.slab = make([]byte, 0, max(slabBytes, 1<<12*g.p.Columns/8))
	}
	at := len(g.slab)
	g.slab = g.AppendKey(g.slab, e)
	end := len(g.slab)
	g.slab = g.AppendValue(g.slab, e)
	return &change.Record{
		Topic: Topic, Offset: e.N, Timestamp: e.Time + 200,
		Key: g.slab[at:end:end], Value: g.slab[end:len(g.slab):len(g.slab)],
	}
}
