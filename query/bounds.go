package query

import (
	"encoding/json"
	"fmt"

	"github.com/gscd-io/gscd/delta/action"
)

// rowsOf gives the physical rows of a file by its statistics; known is false
// where they don't say.
func rowsOf(add *action.Add) (rows int64, known bool, err error) {
	if add.Stats == "" {
		return 0, false, nil
	}
	var stats struct {
		NumRecords *int64 `json:"numRecords"`
	}
	if err := json.Unmarshal([]byte(add.Stats), &stats); err != nil {
		return 0, false, fmt.Errorf("statistics of file %s: %w", add.Path, err)
	}
	if stats.NumRecords == nil {
		return 0, false, nil
	}
	return *stats.NumRecords, true, nil
}

func (s *Scan) planFiles() error {
	s.files = s.snapshot.Files()
	return nil
}
