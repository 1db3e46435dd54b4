package schema

import (
	"encoding/binary"
	"iter"
)

// CompoundValue makes a cell of a struct, array or map of its parts.
func CompoundValue(parts ...Value) Value {
	var encoded []byte
	for _, p := range parts {
		encoded = p.AppendEncoded(encoded)
	}
	return Value{Kind: Compound, S: string(encoded)}
}

// Parts gives the parts of a Compound cell: the fields of a struct, the elements
// of an array, the keys and values of a map. They share memory with it. Of what is
// no encoding nothing is given.
func (v Value) Parts() iter.Seq[Value] {
	return func(yield func(Value) bool) {
		for rest := v.S; v.Kind == Compound && rest != ""; {
			n, _ := EncodedLen(rest)
			if n == 0 || !yield(decoded(rest[:n])) {
				return
			}
			rest = rest[n:]
		}
	}
}

// decoded reads one cell as AppendEncoded writes it; s is not cut off.
func decoded(s string) Value {
	v := Value{Kind: Kind(s[0])}
	switch v.Kind {
	case Null, Unavailable:
	case String, Binary, Number, Compound:
		_, w := binary.Uvarint([]byte(s[1:min(len(s), 11)]))
		v.S = s[1+w:]
	case Dec:
		if hi, lo := word(s[1:]), word(s[9:]); hi == lo>>63 {
			v.I = lo
		} else {
			v.S = s[1:]
		}
	default:
		v.I = word(s[1:])
	}
	return v
}

// word reads 8 bytes; 0 where they are cut off.
func word(s string) int64 {
	if len(s) < 8 {
		return 0
	}
	var b [8]byte
	copy(b[:], s)
	return int64(binary.BigEndian.Uint64(b[:]))
}

// Part gives one of Parts, by place; NULL where there is none, or the cell is NULL.
func (v Value) Part(i int) Value {
	if v.Kind != Compound {
		return Value{}
	}
	for rest := v.S; rest != ""; i-- {
		n, _ := EncodedLen(rest)
		if n == 0 {
			break
		}
		if i == 0 {
			return decoded(rest[:n])
		}
		rest = rest[n:]
	}
	return Value{}
}
