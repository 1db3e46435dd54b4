package savepoint

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/gscd-io/gscd/delta"
)

// Digest is SHA-256 over the live files and deletion vectors of a version, in
// order of path, hex. A seal records it; the same version gives the same one
// from commits and from a checkpoint.
func Digest(s *delta.Snapshot) string {
	var names []string
	for _, add := range s.Files() {
		name := add.Path
		if add.DeletionVector != nil {
			name += " " + add.DeletionVector.UniqueID()
		}
		names = append(names, name)
	}
	slices.Sort(names)
	h := sha256.New()
	for _, n := range names {
		h.Write([]byte(n))
		h.Write([]byte{'\n'})
	}
	return hex.EncodeToString(h.Sum(nil))
}
