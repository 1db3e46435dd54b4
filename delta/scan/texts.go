package scan

import (
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
)

// textBlock is the size of a block of texts, in bytes.
const textBlock = 64 << 10

// texts keeps copies of texts in blocks that many share: one allocation a
// block. A block lives as long as any of its texts.
type texts struct{ block strings.Builder }

func (t *texts) keep(s string) string {
	if s == "" {
		return ""
	}
	if len(s) > textBlock/4 {
		return strings.Clone(s)
	}
	if t.block.Cap()-t.block.Len() < len(s) {
		t.block = strings.Builder{}
		t.block.Grow(textBlock)
	}
	start := t.block.Len()
	t.block.WriteString(s)
	return t.block.String()[start:]
}

// keepCell gives a copy of a cell that owns its text.
func (t *texts) keepCell(v schema.Value) schema.Value {
	v.S = t.keep(v.S)
	return v
}
