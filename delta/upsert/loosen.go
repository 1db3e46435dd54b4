package upsert

import (
	"encoding/json"
	"fmt"
	"strings"
)

// loosen gives the statistics of a file that has got a deletion vector: their
// bounds are bounds only ("Per-file Statistics", tightBounds), and the number
// of rows is there.
func loosen(stats string, rows int64) (string, error) {
	if strings.Contains(stats, `"tightBounds":false`) {
		return stats, nil
	}
	if stats == "" {
		return fmt.Sprintf(`{"numRecords":%d,"tightBounds":false}`, rows), nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(stats), &members); err != nil {
		return "", fmt.Errorf("%w: statistics %.80q: %w", ErrInconsistent, stats, err)
	}
	members["tightBounds"] = json.RawMessage("false")
	if members["numRecords"] == nil {
		members["numRecords"] = fmt.Appendf(nil, "%d", rows)
	}
	raw, err := json.Marshal(members)
	return string(raw), err
}
