package savepoint

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/progress"
)

// Pin is a version that nothing may make unreadable, and what it is pinned for.
type Pin struct {
	Version int64
	// Names are labels, LABEL@VERSION of rolled-back savepoints that are still
	// kept, and names that people gave; sorted.
	Names []string
	// Sealed tells that it is a label's, so that its commit holds evidence.
	Sealed bool
}

// PinsOf gives what the txn actions of a snapshot pin, by rising version.
// Vacuum, log cleanup and check go by this list and by no other. It needs
// nothing but the snapshot, so that it holds where the rest is damaged.
func PinsOf(s *delta.Snapshot) []Pin {
	names, sealed := map[int64][]string{}, map[int64]bool{}
	for txn := range s.Txns() {
		name, isSeal := strings.CutPrefix(txn.AppID, sealPrefix)
		if !isSeal {
			var isNamed bool
			if name, isNamed = strings.CutPrefix(txn.AppID, namedPrefix); !isNamed {
				continue
			}
		}
		if txn.Version >= 0 {
			names[txn.Version] = append(names[txn.Version], name)
			sealed[txn.Version] = sealed[txn.Version] || isSeal
		}
	}
	pins := make([]Pin, 0, len(names))
	for version, list := range names {
		slices.Sort(list)
		pins = append(pins, Pin{version, list, sealed[version]})
	}
	slices.SortFunc(pins, func(a, b Pin) int { return cmp.Compare(a.Version, b.Version) })
	return pins
}

// versionsOf gives the versions of pins.
func versionsOf(pins []Pin) []int64 {
	versions := make([]int64, len(pins))
	for i, p := range pins {
		versions[i] = p.Version
	}
	return versions
}

// present makes sure that files, and the side files that a progress names, are
// still there: a version that refers to missing ones must not become the newest,
// nor be pinned. p may be nil.
func present(ctx context.Context, store objstore.Store, adds []*action.Add, p *progress.Progress) error {
	var keys []string
	err := referencesOf(adds, func(key string, _ int64) { keys = append(keys, key) })
	if err != nil {
		return err
	}
	if p != nil {
		for _, f := range p.Held {
			keys = append(keys, f.Key)
		}
		for _, f := range p.Markers {
			keys = append(keys, f.Key)
		}
		for _, f := range p.Settled {
			keys = append(keys, f.Key)
		}
	}
	slices.Sort(keys)
	var mu sync.Mutex
	var fault error
	sideBySide(slices.Compact(keys), func(key string) {
		if _, err := store.Head(ctx, key); err != nil {
			mu.Lock()
			defer mu.Unlock()
			fault = cmp.Or(fault, fmt.Errorf("a file that it needs: %w", err))
		}
	})
	return fault
}
