package snapshotter

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// GTIDSet is the transactions that one partition has taken, by source
// ("uuid", "uuid:tag" or MariaDB's "domain-server").
//
// A partition sees a sparse part of a source's transactions, so the exact set
// would never stop growing: past maxIntervals the oldest gap is closed. A
// transaction that comes for the first time more than that many transactions
// of its partition out of order counts as taken.
type GTIDSet map[string][]interval

// interval is [From, To], both taken.
type interval struct{ From, To int64 }

const maxIntervals = 64

func (i interval) MarshalJSON() ([]byte, error) { return json.Marshal([2]int64{i.From, i.To}) }

func (i *interval) UnmarshalJSON(raw []byte) error {
	var pair [2]int64
	err := json.Unmarshal(raw, &pair)
	i.From, i.To = pair[0], pair[1]
	return err
}

// splitGTID cuts "source:n" (MySQL) or "domain-server-n" (MariaDB).
func splitGTID(gtid string) (source string, n int64, ok bool) {
	i := strings.LastIndexAny(gtid, ":-")
	if i < 0 {
		return "", 0, false
	}
	n, err := strconv.ParseInt(gtid[i+1:], 10, 64)
	return gtid[:i], n, err == nil && n >= 0
}

// Has reports whether the transaction was taken. A text that is no GTID never was.
func (g GTIDSet) Has(gtid string) bool {
	source, n, ok := splitGTID(gtid)
	if !ok {
		return false
	}
	list := g[source]
	i, found := slices.BinarySearchFunc(list, n, func(v interval, n int64) int { return int(sign64(v.To - n)) })
	return found || i < len(list) && list[i].From <= n
}

func sign64(d int64) int64 {
	switch {
	case d < 0:
		return -1
	case d > 0:
		return 1
	}
	return 0
}

// Add takes a transaction.
func (g *GTIDSet) Add(gtid string) {
	source, n, ok := splitGTID(gtid)
	if !ok || g.Has(gtid) {
		return
	}
	if *g == nil {
		*g = GTIDSet{}
	}
	list := (*g)[source]
	i, _ := slices.BinarySearchFunc(list, n, func(v interval, n int64) int { return int(sign64(v.To - n)) })
	switch {
	case i > 0 && list[i-1].To == n-1 && i < len(list) && list[i].From == n+1:
		list[i-1].To = list[i].To
		list = slices.Delete(list, i, i+1)
	case i > 0 && list[i-1].To == n-1:
		list[i-1].To = n
	case i < len(list) && list[i].From == n+1:
		list[i].From = n
	default:
		list = slices.Insert(list, i, interval{n, n})
	}
	if len(list) > maxIntervals {
		list[1].From = list[0].From
		list = list[1:]
	}
	(*g)[source] = list
}
