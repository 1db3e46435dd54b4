package decode

import (
	"encoding/json"
	"fmt"
)

// connectSchema is a parsed schema part.
type connectSchema struct {
	raw           string
	before, after *rowSchema
}

// connectCache knows the schema parts that came before. Comparing one's bytes
// with the last one's is much cheaper than scanning it.
type connectCache struct {
	opts  *Options
	parse func(*connectCache, []byte) (*connectSchema, error)
	last  *connectSchema
	known cache[*connectSchema]
	rows  cache[*rowSchema] // by the text of the fields
}

// find makes the schema at i the last one and gives the index behind it.
func (c *connectCache) find(s *scanner, i, depth int) (int, error) {
	if c.last != nil {
		// An object can't be the beginning of another one.
		if n := len(c.last.raw); len(s.b)-i >= n && string(s.b[i:i+n]) == c.last.raw {
			return i + n, nil
		}
	}
	_, end := s.value(i, depth)
	if end < 0 {
		return end, nil
	}
	raw := s.b[i:end]
	found, ok := c.known.get(raw)
	if !ok {
		var err error
		if found, err = c.parse(c, raw); err != nil {
			return -1, fmt.Errorf("the schema part: %w", err)
		}
		found.raw = string(raw)
		c.known.put(found.raw, found)
	}
	c.last = found
	return end, nil
}

// row gives the schema of a row; equal texts share one, and with it the shapes.
func (c *connectCache) row(fields json.RawMessage) (*rowSchema, error) {
	if r, ok := c.rows.get(fields); ok {
		return r, nil
	}
	r, err := parseRowSchema(c.opts, fields)
	if err != nil {
		return nil, err
	}
	c.rows.put(string(fields), r)
	return r, nil
}

// parseEnvelopeSchema reads the schema of an envelope. One that does not
// describe before and after leaves their columns untyped.
func parseEnvelopeSchema(c *connectCache, raw []byte) (*connectSchema, error) {
	fields, err := schemaFields(raw)
	if err != nil {
		return nil, err
	}
	out := &connectSchema{}
	for i := range fields {
		f := &fields[i]
		switch {
		case f.Type != "struct":
		case f.Field == "before":
			out.before, err = c.row(f.Fields)
		case f.Field == "after":
			out.after, err = c.row(f.Fields)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.Field, err)
		}
	}
	if out.after == nil {
		out.after = out.before
	}
	if out.after == nil {
		out.after = newRowSchema(c.opts, nil)
	}
	if out.before == nil {
		out.before = out.after
	}
	return out, nil
}

func schemaFields(raw []byte) ([]connectField, error) {
	var top connectField
	if err := json.Unmarshal(raw, &top); err != nil {
		return nil, err
	}
	return connectFields(top.Fields)
}

// parseKeySchema reads the schema of a key, whose struct is the row itself.
func parseKeySchema(c *connectCache, raw []byte) (*connectSchema, error) {
	var top connectField
	if err := json.Unmarshal(raw, &top); err != nil {
		return nil, err
	}
	row, err := c.row(top.Fields)
	return &connectSchema{before: row, after: row}, err
}
