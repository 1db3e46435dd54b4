package decode

import (
	"errors"
	"fmt"

	"github.com/gscd-io/gscd/ingest/change"
)

// needKey is for records whose key alone tells the row.
func needKey(out *change.Change, err error, what string) error {
	if out.Key != nil {
		return nil
	}
	return &Error{Reason: ReasonKey, Err: fmt.Errorf("%s needs a key: %w", what, err)}
}

var (
	errNullKey  = errors.New("the record has none")
	errPlainKey = errors.New("the record key is no JSON object")
	errKeyTail  = errors.New("the record key has text behind its object")
	errEmptyKey = errors.New("the record key has no columns")
)

// keyMembers appends the members of a record key that is an object.
func (s *scanner) keyMembers(key []byte, dst []member) ([]member, error) {
	s.reset(key)
	i := s.space(0)
	if i >= len(key) || key[i] != '{' {
		return dst, errPlainKey
	}
	dst, end := s.members(i+1, 1, dst)
	if end < 0 {
		return dst, s.err
	}
	if end = s.space(end); end != len(key) {
		return dst, errKeyTail
	}
	return dst, nil
}

// decodeKey fills in the record key's cells where it is an object of cells.
func (d *debezium) decodeKey(rec *change.Record, out *change.Change) error {
	if rec.Key == nil {
		return errNullKey
	}
	s := &d.keyScan
	members, err := s.keyMembers(rec.Key, d.keyMembers[:0])
	if err != nil {
		return err
	}
	d.keyMembers = members
	row := d.bare
	if schemaAt, payload := wrapped(rec.Key, members); payload != nil {
		if schemaAt != nil && schemaAt.kind == kindObject {
			if _, err := d.key.find(s, int(schemaAt.start), 1); err != nil {
				return err
			}
			row = d.key.last.after
		}
		var end int
		members, end = s.members(int(payload.start)+1, 2, members[:0])
		if end < 0 {
			return s.err
		}
		d.keyMembers = members
	}
	if len(members) == 0 {
		return errEmptyKey
	}
	d.cells.b = rec.Key
	shape, err := row.find(rec.Key, members)
	if err != nil {
		return err
	}
	key, err := shape.row(&d.cells, members)
	if err != nil {
		return err
	}
	out.KeyColumns, out.Key = shape.cols, key
	return nil
}

// wrapped tells a key in {"schema", "payload"} from a row with such columns: its
// payload is an object, which no key column's value is.
func wrapped(b []byte, members []member) (schemaAt, payload *token) {
	for i := range members {
		m := &members[i]
		switch view(b[m.name.start:m.name.end]) {
		case "schema":
			schemaAt = &m.value
		case "payload":
			payload = &m.value
		default:
			return nil, nil
		}
	}
	if payload == nil || payload.kind != kindObject || len(members) > 2 {
		return nil, nil
	}
	return schemaAt, payload
}
