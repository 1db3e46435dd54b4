package transform

import (
	"fmt"
	"strings"

	"github.com/gscd-io/gscd/ddl"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
)

// schema gives a statement of the source as it is for the columns that are taken, by
// their names in the table. A column that is hidden may not come under a name that is
// not: that is an error.
func (r *Rules) schema(c *change.SchemaChange) (*change.SchemaChange, error) {
	out := *c
	out.Columns = nil
	for _, col := range c.Columns {
		was, now := strings.ToLower(col.Old), strings.ToLower(col.New)
		hadIt, hasIt := was != "" && r.takes(was), now != "" && r.takes(now)
		if was != "" && now != "" && was != now && r.hides(was) != "" && r.hides(was) != r.hides(now) && hasIt {
			return nil, &decode.Error{Reason: ReasonFilter, Err: fmt.Errorf("the source renames column %q, which is %s, to %q, which is not: name it in the settings too", col.Old, r.hides(was), col.New)}
		}
		var next ddl.ColumnChange
		if hadIt {
			next.Old, next.OldType = r.TableName(col.Old), col.OldType
		}
		if hasIt {
			next.New, next.NewType = r.TableName(col.New), col.NewType
		}
		if next.Old != "" || next.New != "" {
			out.Columns = append(out.Columns, next)
		}
	}
	return &out, nil
}

// hides says how a column, in lower case, is kept out of sight; "" for not at all.
func (r *Rules) hides(name string) string {
	_, masked := r.mask[name]
	switch {
	case !r.takes(name):
		return "left out"
	case r.hash[name]:
		return "hashed"
	case masked:
		return "masked"
	}
	return ""
}
