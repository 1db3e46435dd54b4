package decode

import (
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/gscd-io/gscd/ingest/change"
)

// avroScalar is a value of the envelope or its source block, in the kinds of JSON;
// kindObject stands for all that is none of its scalars.
type avroScalar struct {
	kind kind
	s    string
	n    int64
}

func (v avroScalar) time() sourceTime { return sourceTime{v.n, v.kind == kindNumber} }

// scalar reads a value.
func (s *avroScanner) scalar(t *avroType, i int) (v avroScalar, end int) {
	if t.kind == avroUnion {
		if t, i = s.branch(t, i); i < 0 {
			return v, i
		}
	}
	switch t.kind {
	case avroNull:
		v.kind = kindNull
		return v, i
	case avroInt, avroLong:
		v.kind = kindNumber
		if t.kind == avroInt {
			v.n, end = s.int(i)
		} else {
			v.n, end = s.long(i)
		}
		return v, end
	case avroString:
		from, to := s.span(i)
		if to < 0 {
			return v, to
		}
		if v.kind, v.s = kindString, view(s.b[from:to]); !utf8.ValidString(v.s) {
			return v, s.fail(from, errAvroUTF8)
		}
		return v, to
	case avroEnum:
		v.kind = kindString
		v.s, end = s.symbol(t, i)
		return v, end
	case avroBoolean:
		if end = s.boolean(i); end > 0 {
			v.kind = kindFalse
			if s.b[i] == 1 {
				v.kind = kindTrue
			}
		}
		return v, end
	}
	v.kind = kindObject
	return v, s.skip(t, i, 2)
}

// fieldsOf passes over a record and appends where each field begins; at stays nil
// where the value is null.
func (s *avroScanner) fieldsOf(t *avroType, i int, room []int32) (at []int32, end int) {
	if t.kind == avroUnion {
		if t, i = s.branch(t, i); i < 0 || t.kind == avroNull {
			return nil, i
		}
	}
	at = room[:0]
	for f := 0; f < len(t.fields) && i >= 0; f++ {
		at = append(at, int32(i))
		i = s.skip(t.fields[f].typ, i, 2)
	}
	return at, i
}

// avroSource is the source block.
type avroSource struct {
	is bool // it is there
	at [slots]avroScalar
}

func (s *avroSource) str(at slot) string {
	if s.at[at].kind != kindString {
		return ""
	}
	return s.at[at].s
}

func (s *avroSource) int(at slot) (int64, error) {
	switch v := s.at[at]; v.kind {
	case kindNumber:
		return v.n, nil
	case kindNone, kindNull:
		return 0, nil
	default:
		return 0, wrongKind(v.kind, "an integer")
	}
}

// position gives the place in the binlog; ok is false where there is none.
func (s *avroSource) position() (p change.Position, ok bool, err error) {
	file := s.str(slotFile)
	if p.File, ok = fileNumber(file); !ok {
		return p, false, nil
	}
	if s.at[slotPos].kind == kindNone {
		return p, false, fmt.Errorf("source has the file %.40q but no pos", file)
	}
	if p.Pos, err = s.int(slotPos); err != nil {
		return p, false, fmt.Errorf("source.pos: %w", err)
	}
	row, err := s.int(slotRow)
	if err != nil || row < 0 || row > math.MaxInt32 {
		return p, false, fmt.Errorf("source.row is %d", row)
	}
	p.Row = int32(row)
	return p, true, nil
}

// load tells a read of a table from a change of it.
func (s *avroSource) load() (read bool, load change.Load) {
	if s.at[slotSnapshot].kind == kindTrue {
		return true, 0
	}
	return snapshotLoad(s.str(slotSnapshot))
}
