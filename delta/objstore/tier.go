package objstore

import (
	"context"
	"iter"
)

// Tierer is a Store that keeps objects in classes of different prices. Only classes whose
// objects are read as any other are meant: none that wants an object to be restored first.
// A store that wraps another one implements it by AsTierer of that.
type Tierer interface {
	Store
	// Classes are those that SetClass takes, in the storage's own words.
	Classes() []string
	// ListClasses is List, with the class that each object is in, as Classes writes it.
	ListClasses(ctx context.Context, prefix string) iter.Seq2[Classed, error]
	// SetClass moves an object to a class, under the same key and with the same bytes.
	// Readers see it whole at every moment. Its time of modification may become that of
	// the move.
	SetClass(ctx context.Context, key, class string) error
}

// Classed is an object and the class that it is in.
type Classed struct {
	Object
	Class string
}
