package attempt

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/gscd-io/gscd/delta/objstore"
)

// ErrNoConditionalPut is wrapped where a storage writes over an object under the
// condition that there is none: two writers could commit one version.
var ErrNoConditionalPut = errors.New("the storage does not keep conditional puts")

// ProbeKey is the key of what a Probe writes. Engines leave names with a dot alone.
const ProbeKey = ".gscd-conditional-put"

// Probe finds out, once, whether a store keeps PutIfAbsent. The zero value is ready; it is
// safe for concurrent use.
type Probe struct {
	mu   sync.Mutex
	kept bool
}

// Run puts an object under a key that is taken, which must be refused. The error wraps
// ErrNoConditionalPut where it is not; condition is what the storage did not keep. The
// object stays, and another process finds it.
func (p *Probe) Run(ctx context.Context, store objstore.Store, condition string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kept {
		return nil
	}
	// The first put may find the object of an earlier process; if not, it is what the
	// second one must find. No two have the same bytes: none is taken for the other.
	for range 2 {
		err := store.PutIfAbsent(ctx, ProbeKey, fmt.Appendf(nil, "gscd wrote this object to find out whether the storage keeps %s on it.\n"+
			"Without that two writers could commit one version. The object may be deleted.\n%s\n", condition, rand.Text()))
		if errors.Is(err, objstore.ErrExist) {
			p.kept = true
			return nil
		}
		if err != nil {
			return fmt.Errorf("try whether commits are safe: %w", err)
		}
	}
	return fmt.Errorf("%w (%s took two puts with %s for one key): two writers could commit one version, use a storage that has them", ErrNoConditionalPut, store, condition)
}
