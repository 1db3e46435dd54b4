package decode

import (
	"errors"
	"math"

	"github.com/gscd-io/gscd/delta/schema"
)

// Cells that are objects in JSON and have a type of their own.

var errWKB = errors.New("no wkb in the geometry")

// object gives the members of an object token by two names.
func (r *cells) object(t token, first, second string) (a, b token, err error) {
	if t.kind != kindObject {
		return a, b, wrongKind(t.kind, "an object")
	}
	s := scanner{b: r.b[:t.end]}
	at := int(t.start) + 1
	for begin := true; ; begin = false {
		name, i := s.next(at, begin)
		if i < 0 || name.kind == kindNone {
			return a, b, s.err
		}
		value, end := s.value(i, 0)
		if end < 0 {
			return a, b, s.err
		}
		switch view(r.raw(name)) {
		case first:
			a = value
		case second:
			b = value
		}
		at = end
	}
}

func (r *cells) geometry(t token) (schema.Value, error) {
	wkb, _, err := r.object(t, "wkb", "")
	if err != nil {
		return schema.Value{}, err
	}
	if wkb.kind != kindString {
		return schema.Value{}, errWKB
	}
	b, err := r.base64(wkb, 0)
	if err != nil {
		return schema.Value{}, err
	}
	return schema.BinaryValue(view(b)), nil
}

func (r *cells) variable(t token) (schema.Value, error) {
	scale, value, err := r.object(t, "scale", "value")
	if err != nil {
		return schema.Value{}, err
	}
	n, err := r.whole(scale)
	if err != nil || n < 0 || n > math.MaxInt16 || value.kind != kindString {
		return schema.Value{}, errNotDecimal
	}
	b, err := r.base64(value, 0)
	if err != nil {
		return schema.Value{}, err
	}
	s, err := longDecimalBytes(b, math.MaxInt16, int(n))
	return schema.StringValue(s), err
}
