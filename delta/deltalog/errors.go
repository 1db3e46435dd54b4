package deltalog

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta/action"
)

// What callers decide on.
var (
	// ErrNotATable: there is no commit and no checkpoint below the root.
	ErrNotATable = errors.New("not a Delta table")
	// ErrVersionNotFound is what a *VersionNotFoundError wraps.
	ErrVersionNotFound = errors.New("version can't be read")
	// ErrCorrupt marks damage: a commit or checkpoint that can't be what the
	// protocol says, or a hole in the newest part of the log.
	ErrCorrupt = action.ErrCorrupt
)

// VersionNotFoundError says that a version is not, or no longer, readable, and
// which ones are.
type VersionNotFoundError struct {
	Version int64
	// Available are the readable versions, rising.
	Available []int64
}

// Error names the versions that are there as ranges.
func (e *VersionNotFoundError) Error() string {
	if len(e.Available) == 0 {
		return fmt.Sprintf("version %d can't be read, nor any other", e.Version)
	}
	return fmt.Sprintf("version %d can't be read; there are %s", e.Version, Ranges(e.Available))
}

// Unwrap gives ErrVersionNotFound.
func (e *VersionNotFoundError) Unwrap() error { return ErrVersionNotFound }

// Ranges writes rising versions shortly: "10, 20, 30-41". Of more than 20
// ranges those in the middle are left out.
func Ranges(versions []int64) string {
	var parts []string
	for i := 0; i < len(versions); {
		j := i
		for j+1 < len(versions) && versions[j+1] == versions[j]+1 {
			j++
		}
		part := fmt.Sprint(versions[i])
		if j > i {
			part += fmt.Sprintf("-%d", versions[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	if len(parts) > 20 {
		parts = slices.Concat(parts[:10], []string{"…"}, parts[len(parts)-10:])
	}
	return strings.Join(parts, ", ")
}
