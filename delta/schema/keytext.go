package schema

import (
	"encoding/binary"
	"encoding/json"
)

// DecodeKeyCell reads back one cell of a key made by AppendEncoded, for people:
// numbers as json.Number with every digit, text as string. The scale of a
// decimal is that of t.
func DecodeKeyCell(encoded string, t Type) any {
	if encoded == "" {
		return nil
	}
	body := encoded[1:]
	switch Kind(encoded[0]) {
	case Bool:
		return word(body) != 0
	case Int:
		return word(body)
	case Float:
		return Value{Kind: Float, I: word(body)}.Float32()
	case Double:
		return Value{Kind: Double, I: word(body)}.Float64()
	case Dec:
		return json.Number(Value{Kind: Dec, S: body}.DecimalText(t.Scale))
	case String, Binary, Number:
		_, w := binary.Uvarint([]byte(body[:min(len(body), 10)]))
		if w <= 0 {
			return nil
		}
		return body[w:]
	}
	return nil
}
