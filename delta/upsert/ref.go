package upsert

// Ref says where a key's row lies, and carries the caller's tag of it:
// segment (22 bits), row (32 bits), tag (10 bits). The zero Ref is none.
type Ref uint64

// Limits of a Ref.
const (
	MaxSegments = 1<<22 - 1
	TagBits     = 10
	maxTag      = 1<<TagBits - 1
)

func makeRef(segment uint32, row uint32, tag uint16) Ref {
	return Ref(segment)<<(32+TagBits) | Ref(row)<<TagBits | Ref(tag&maxTag)
}

// Segment is the number of the file, 1 or larger.
func (r Ref) Segment() uint32 { return uint32(r >> (32 + TagBits)) }

// Row is the 0-based position in the file.
func (r Ref) Row() uint32 { return uint32(r >> TagBits) }

// Tag is what the caller gave with the row.
func (r Ref) Tag() uint16 { return uint16(r) & maxTag }
