package recording

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/gscd-io/gscd/ingest/change"
)

// headers appends the line's headers to slab: a flat list k,v,k,v of strings
// (kcat), or an object. A value may be null; in an object a value that is no
// string is its JSON text. The keys refer to the line's bytes.
func (l *line) headers(slab []change.Header, str func([]byte) ([]byte, error)) ([]change.Header, error) {
	t, coded := l.text[mHeaders], false
	if t == nil {
		t, coded = l.text[mHeaders64], true
	}
	if t == nil || isNull(t) {
		return slab, nil
	}
	object := t[0] == '{'
	if !object && t[0] != '[' || object && coded {
		return slab, errors.New(`"headers" must be a list of key and value by turns, or an object`)
	}
	var h change.Header
	n := 0
	for i := skipSpace(t, 1); i < len(t)-1; n++ {
		end, err := skipValue(t, i, 1)
		if err != nil {
			return slab, err
		}
		item := t[i:end:end]
		if n%2 == 0 {
			b, err := headerText(item, coded, false, str)
			if err != nil {
				return slab, fmt.Errorf("headers, name %d: %w", n/2+1, err)
			}
			h = change.Header{Key: unsafe.String(unsafe.SliceData(b), len(b))}
		} else if !isNull(item) {
			if h.Value, err = headerText(item, coded, object, str); err != nil {
				return slab, fmt.Errorf("headers, value %d: %w", n/2+1, err)
			}
		}
		if n%2 == 1 {
			slab = append(slab, h)
		}
		i = skipSpace(t, end)
		if t[i] == ',' || t[i] == ':' {
			i++
		}
		i = skipSpace(t, i)
	}
	if n%2 != 0 {
		return slab, errors.New("headers: a name without a value")
	}
	return slab, nil
}

func headerText(item []byte, coded, anyValue bool, str func([]byte) ([]byte, error)) ([]byte, error) {
	if anyValue && item[0] != '"' {
		return item, nil
	}
	b, err := str(item)
	if err == nil && coded {
		b, err = fromBase64(b)
	}
	if err != nil {
		return nil, err
	}
	return b[:len(b):len(b)], nil
}
