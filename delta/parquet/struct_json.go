package parquet

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/parquet-go/parquet-go/format"
)

// jsonWriter collects the text of an object.
type jsonWriter struct{ text []byte }

func (w *jsonWriter) String() string { return string(w.text) }

// bindJSON binds a JSON field to a group: every leaf below it is read.
func (d *structDecoder) bindJSON(b *binding) (*binding, error) {
	if b.node.leaf {
		return nil, fmt.Errorf("%w: column %q is a %s, want a group", ErrColumnType, b.node.name, b.node)
	}
	tree, err := d.jsonTree(b.node)
	if err != nil {
		return nil, err
	}
	b.leaves = tree.leaves
	b.json = tree.object
	return b, nil
}

// jsonNode writes one node of a group.
type jsonNode struct {
	node   *node
	leaves []*levelReader
	fields []*jsonNode
}

func (d *structDecoder) jsonTree(n *node) (*jsonNode, error) {
	t := &jsonNode{node: n}
	if n.leaf {
		t.leaves = []*levelReader{d.open(n)}
		return t, nil
	}
	for _, c := range n.children {
		if c.firstLeaf() == nil || c.repeats() {
			continue // statistics have no lists; what looks like one is left out
		}
		child, err := d.jsonTree(c)
		if err != nil {
			return nil, err
		}
		t.fields = append(t.fields, child)
		t.leaves = append(t.leaves, child.leaves...)
	}
	return t, nil
}

// repeats tells of a list or map at any depth.
func (n *node) repeats() bool {
	return n.repetition == format.Repeated || slices.ContainsFunc(n.children, (*node).repeats)
}

// object writes the fields of a group that is there.
func (t *jsonNode) object(w *jsonWriter) error {
	w.text = append(w.text, '{')
	first := true
	for _, f := range t.fields {
		undo := len(w.text)
		if !first {
			w.text = append(w.text, ',')
		}
		name, err := json.Marshal(f.node.name)
		if err != nil {
			return err
		}
		w.text = append(append(w.text, name...), ':')
		wrote, err := f.value(w)
		if err != nil {
			return err
		}
		if wrote {
			first = false
		} else {
			w.text = w.text[:undo]
		}
	}
	w.text = append(w.text, '}')
	return nil
}

// value writes one value, or nothing where it is NULL or has no form.
func (t *jsonNode) value(w *jsonWriter) (wrote bool, err error) {
	_, def, err := t.leaves[0].current()
	if err != nil {
		return false, err
	}
	if t.node.repetition == format.Optional && def < t.node.maxDef {
		for _, l := range t.leaves {
			if _, _, err := l.current(); err != nil {
				return false, err
			}
			l.take()
		}
		return false, nil
	}
	if !t.node.leaf {
		return true, t.object(w)
	}
	l := t.leaves[0]
	place, present := l.take()
	if !present {
		return false, corrupt("column %q: a value is NULL and must not be", t.node.name)
	}
	text := jsonValue(w.text, l, place)
	wrote = len(text) > len(w.text)
	w.text = text
	return wrote, nil
}

// jsonValue appends a leaf's value; nothing where it has no form in statistics.
func jsonValue(dst []byte, l *levelReader, place int) []byte {
	n := l.leaf
	if n.physical >= format.ByteArray {
		s := l.str(place)
		if _, scale, ok := n.decimal(); ok {
			if v, fits := decimalOfBytes(s); fits && scale >= 0 && scale <= 38 {
				return append(dst, v.DecimalText(uint8(scale))...)
			}
			return dst
		}
		if !n.isText() || !utf8.ValidString(s) {
			return dst
		}
		text, err := json.Marshal(s)
		if err != nil {
			return dst
		}
		return append(dst, text...)
	}
	i := l.int(place)
	if _, scale, ok := n.decimal(); ok {
		if scale < 0 || scale > 38 {
			return dst
		}
		return append(dst, schema.Value{Kind: schema.Dec, I: i}.DecimalText(uint8(scale))...)
	}
	switch n.physical {
	case format.Boolean:
		return strconv.AppendBool(dst, i != 0)
	case format.Float, format.Double:
		f := floatOf(n.physical, i)
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return dst
		}
		size := 64
		if n.physical == format.Float {
			size = 32
		}
		return strconv.AppendFloat(dst, f, 'g', -1, size)
	case format.Int96:
		return appendTimestamp(dst, i, false)
	}
	if n.isDate() {
		return time.Unix(i*86400, 0).UTC().AppendFormat(dst, `"2006-01-02"`)
	}
	if perSecond, local, ok := n.timestampUnit(); ok {
		return appendTimestamp(dst, toMicros(i, perSecond), local)
	}
	return strconv.AppendInt(dst, i, 10)
}

func appendTimestamp(dst []byte, micros int64, local bool) []byte {
	layout := `"2006-01-02T15:04:05.000000Z"`
	if local {
		layout = `"2006-01-02T15:04:05.000000"`
	}
	return time.UnixMicro(micros).UTC().AppendFormat(dst, layout)
}
