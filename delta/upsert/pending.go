package upsert

// PendingRef is the Ref of a row that is not in the table yet, for whoever has taken its
// number n (below 1<<32 - 1) before the commit that brings it: it belongs to no segment,
// and must not be given to a Writer.
func PendingRef(n uint32) Ref { return makeRef(0, n+1, 0) }

// Pending gives the number of a PendingRef; ok is false for every other Ref.
func (r Ref) Pending() (n uint32, ok bool) {
	if r == 0 || r.Segment() != 0 {
		return 0, false
	}
	return r.Row() - 1, true
}
