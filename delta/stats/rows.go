package stats

import "github.com/gscd-io/gscd/delta/schema"

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
