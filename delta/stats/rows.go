package stats

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
)

// noColumns reads of statistics only how many rows there are.
var noColumns = new(schema.Schema)

// NumRecords gives the physical rows of a file by its statistics; known is
// false where they don't say, or can't be read.
func NumRecords(text string) (rows int64, known bool) {
	f, err := Parse(text, noColumns)
	if err != nil || f.NumRecords < 0 {
		return 0, false
	}
	return f.NumRecords, true
}

// Loosen gives the statistics of a file that has got a deletion vector: their
// bounds are bounds only ("Per-file Statistics", tightBounds), and the number
// of rows is there. The error says that text is no statistics.
func Loosen(text string, rows int64) (string, error) {
	if strings.Contains(text, `"tightBounds":false`) {
		return text, nil
	}
	if text == "" {
		return fmt.Sprintf(`{"numRecords":%d,"tightBounds":false}`, rows), nil
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &members); err != nil {
		return "", fmt.Errorf("statistics %.80q: %w", text, err)
	}
	members["tightBounds"] = json.RawMessage("false")
	if members["numRecords"] == nil {
		members["numRecords"] = fmt.Appendf(nil, "%d", rows)
	}
	raw, err := json.Marshal(members)
	return string(raw), err
}
