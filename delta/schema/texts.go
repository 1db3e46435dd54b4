package schema

import "strings"

// textBlock is the size of a block of texts, in bytes; the first ones are smaller.
const (
	textBlock      = 64 << 10
	firstTextBlock = 1 << 10
)

// Texts keeps copies of texts in blocks that many share: one allocation a
// block. A block lives as long as any of its texts. The zero Texts is empty.
type Texts struct{ block strings.Builder }

// Keep gives a copy of a text.
func (t *Texts) Keep(s string) string {
	if s == "" {
		return ""
	}
	if len(s) > textBlock/4 {
		return strings.Clone(s)
	}
	if t.block.Cap()-t.block.Len() < len(s) {
		size := max(firstTextBlock, min(2*t.block.Cap(), textBlock), len(s))
		t.block = strings.Builder{}
		t.block.Grow(size)
	}
	start := t.block.Len()
	t.block.WriteString(s)
	return t.block.String()[start:]
}

// KeepCell gives a copy of a cell that owns its text.
func (t *Texts) KeepCell(v Value) Value {
	v.S = t.Keep(v.S)
	return v
}
