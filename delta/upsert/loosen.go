package upsert

import (
	"fmt"

	"github.com/gscd-io/gscd/delta/stats"
)

// loosen gives the statistics of a file that has got a deletion vector.
func loosen(text string, rows int64) (string, error) {
	loose, err := stats.Loosen(text, rows)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrInconsistent, err)
	}
	return loose, nil
}
