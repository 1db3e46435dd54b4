package binlog

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/gscd-io/gscd/capture/event"
)

// jsonNode is a value of a JSON text: a scalar as its text, or an object or array. Keys
// are unquoted.
type jsonNode struct {
	kind byte // '{', '[' or 0
	text []byte
	keys []string
	kids []*jsonNode
}

// jsonChange applies what PARTIAL_UPDATE_ROWS has of a column: changes one behind the
// other, each an operation, a path and, but for a removal, a binary value.
func (s *slot) jsonChange(b []byte, before, out *event.Cell) error {
	if before.Kind != event.Text {
		return fmt.Errorf("changes of a JSON value, and the value before %w: set binlog_row_image to FULL or binlog_row_value_options to '' at the source", ErrUnsupported)
	}
	root, rest, err := readJSON(before.Bytes, 0)
	if err != nil || len(rest) != 0 {
		return errJSON
	}
	c := cursor{b: b}
	for len(c.b) > 0 {
		op := replication.JsonDiffOperation(c.uint(1))
		path := string(c.text())
		var value *jsonNode
		if op != replication.JsonDiffOperationRemove {
			raw := c.text()
			if c.err != nil || len(raw) == 0 {
				return errJSON
			}
			text, err := s.jsonValue(nil, raw[0], raw[1:], 0)
			if err != nil {
				return err
			}
			if value, _, err = readJSON(text, 0); err != nil {
				return err
			}
		}
		if c.err != nil {
			return errJSON
		}
		if err := root.change(op, path, value); err != nil {
			return fmt.Errorf("the change of %.100q in a JSON value: %w", path, err)
		}
	}
	out.Kind, out.Bytes = event.Text, root.append(nil)
	return nil
}

// change carries out one operation at a path like $.a."b c"[0].
func (n *jsonNode) change(op replication.JsonDiffOperation, path string, value *jsonNode) error {
	path, ok := strings.CutPrefix(path, "$")
	if !ok || path == "" {
		return errJSON
	}
	for {
		key, index, rest, err := jsonLeg(path)
		if err != nil {
			return err
		}
		at := n.find(key, index)
		if rest != "" {
			if at < 0 {
				return errJSON
			}
			n, path = n.kids[at], rest
			continue
		}
		switch op {
		case replication.JsonDiffOperationReplace:
			if at < 0 {
				return errJSON
			}
			n.kids[at] = value
		case replication.JsonDiffOperationRemove:
			if at < 0 {
				return errJSON
			}
			n.kids = slices.Delete(n.kids, at, at+1)
			if n.kind == '{' {
				n.keys = slices.Delete(n.keys, at, at+1)
			}
		case replication.JsonDiffOperationInsert:
			return n.insert(key, index, value)
		default:
			return errJSON
		}
		return nil
	}
}

// insert puts a value into an array before an element, or behind its end; or into an
// object, whose keys the server has by length and then by bytes.
func (n *jsonNode) insert(key string, index int, value *jsonNode) error {
	switch {
	case n.kind == '[' && index >= 0:
		n.kids = slices.Insert(n.kids, min(index, len(n.kids)), value)
	case n.kind == '{' && index < 0:
		at, there := slices.BinarySearchFunc(n.keys, key, func(a, b string) int { return cmp.Or(len(a)-len(b), strings.Compare(a, b)) })
		if there {
			return errJSON
		}
		n.keys, n.kids = slices.Insert(n.keys, at, key), slices.Insert(n.kids, at, value)
	default:
		return errJSON
	}
	return nil
}

// find is the place of a key, or of an index from 0 on; -1 where there is none.
func (n *jsonNode) find(key string, index int) int {
	switch {
	case n.kind == '{' && index < 0:
		return slices.Index(n.keys, key)
	case n.kind == '[' && index >= 0 && index < len(n.kids):
		return index
	}
	return -1
}

// jsonLeg takes the first leg off a path: a key, or an index (else -1).
func jsonLeg(path string) (key string, index int, rest string, err error) {
	if inside, ok := strings.CutPrefix(path, "["); ok {
		digits, rest, ok := strings.Cut(inside, "]")
		index, err := strconv.Atoi(digits)
		if !ok || err != nil || index < 0 {
			return "", 0, "", errJSON
		}
		return "", index, rest, nil
	}
	path, ok := strings.CutPrefix(path, ".")
	if !ok || path == "" {
		return "", 0, "", errJSON
	}
	if path[0] != '"' {
		end := strings.IndexAny(path, ".[")
		if end < 0 {
			end = len(path)
		}
		return path[:end], -1, path[end:], nil
	}
	end := jsonStringEnd([]byte(path))
	if end < 0 || json.Unmarshal([]byte(path[:end]), &key) != nil {
		return "", 0, "", errJSON
	}
	return key, -1, path[end:], nil
}

// jsonStringEnd is the index behind the string that b begins with, -1 where it has no end.
func jsonStringEnd(b []byte) int {
	for i := 1; i < len(b); i++ {
		switch b[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return -1
}

// readJSON reads the value that a text of ours begins with.
func readJSON(b []byte, depth int) (n *jsonNode, rest []byte, err error) {
	if len(b) == 0 || depth > jsonDepth {
		return nil, nil, errJSON
	}
	n = &jsonNode{}
	switch b[0] {
	case '"':
		end := jsonStringEnd(b)
		if end < 0 {
			return nil, nil, errJSON
		}
		n.text = b[:end]
		return n, b[end:], nil
	case '{', '[':
	default:
		end := 0
		for end < len(b) && b[end] != ',' && b[end] != '}' && b[end] != ']' {
			end++
		}
		n.text = b[:end]
		return n, b[end:], nil
	}
	n.kind = b[0]
	shut := n.kind + 2 // } behind {, ] behind [
	for b = skipBlank(b[1:]); len(b) > 0 && b[0] != shut; {
		if n.kind == '{' {
			end := jsonStringEnd(b)
			var key string
			if b[0] != '"' || end < 0 || json.Unmarshal(b[:end], &key) != nil {
				return nil, nil, errJSON
			}
			n.keys = append(n.keys, key)
			if b = skipBlank(b[end:]); len(b) == 0 || b[0] != ':' {
				return nil, nil, errJSON
			}
			b = skipBlank(b[1:])
		}
		var kid *jsonNode
		if kid, b, err = readJSON(b, depth+1); err != nil {
			return nil, nil, err
		}
		n.kids = append(n.kids, kid)
		if b = skipBlank(b); len(b) > 0 && b[0] == ',' {
			b = skipBlank(b[1:])
		}
	}
	if len(b) == 0 {
		return nil, nil, errJSON
	}
	return n, b[1:], nil
}

func skipBlank(b []byte) []byte {
	for len(b) > 0 && b[0] == ' ' {
		b = b[1:]
	}
	return b
}

func (n *jsonNode) append(dst []byte) []byte {
	if n.kind == 0 {
		return append(dst, n.text...)
	}
	dst = append(dst, n.kind)
	for i, kid := range n.kids {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		if n.kind == '{' {
			dst = append(appendJSONString(dst, []byte(n.keys[i])), ": "...)
		}
		dst = kid.append(dst)
	}
	return append(dst, n.kind+2)
}
