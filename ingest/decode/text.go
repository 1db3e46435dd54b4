package decode

import (
	"errors"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
)

var errSurrogate = errors.New("half of a surrogate pair is no character")

// view gives b as a string without copying. The bytes of a Record are not
// changed by anyone, so the string may live as long as they do.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

// unescape resolves the escapes of a JSON string that the scanner has passed.
// dst has room for len(src) bytes: no escape is shorter than what it stands for.
func unescape(dst, src []byte) ([]byte, error) {
	dst = dst[:0]
	for i := 0; i < len(src); i++ {
		if src[i] != '\\' {
			dst = append(dst, src[i])
			continue
		}
		i++
		switch c := src[i]; c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, _ := hex4(src[i+1:])
			i += 4
			if utf16.IsSurrogate(r) {
				if i+6 >= len(src) || src[i+1] != '\\' || src[i+2] != 'u' {
					return nil, errSurrogate
				}
				low, _ := hex4(src[i+3:])
				if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
					return nil, errSurrogate
				}
				i += 6
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, c)
		}
	}
	return dst, nil
}

// compact copies JSON without the white space between its tokens.
func compact(dst, src []byte) []byte {
	dst = dst[:0]
	quoted := false
	for i := 0; i < len(src); i++ {
		c := src[i]
		switch {
		case quoted && c == '\\':
			dst = append(dst, c)
			i++
			c = src[i]
		case c == '"':
			quoted = !quoted
		case !quoted && c <= ' ':
			continue
		}
		dst = append(dst, c)
	}
	return dst
}

// text gives the characters of a string token: a view of b, or in the arena.
func text(b []byte, t token, arena *change.Arena) (string, error) {
	raw := b[t.start:t.end]
	if t.flags&flagEscaped == 0 {
		return view(raw), nil
	}
	out, err := unescape(arena.Bytes(len(raw)), raw)
	return view(out), err
}

// jsonText gives the compact JSON text of any token.
func jsonText(b []byte, t token, arena *change.Arena) string {
	raw := b[t.start:t.end]
	switch {
	case t.kind == kindString:
		return view(b[t.start-1 : t.end+1])
	case t.flags&flagSpaced != 0:
		return view(compact(arena.Bytes(len(raw)), raw))
	}
	return view(raw)
}

// integer reads the text of an integer token; past 64 bits it is 0 and not ok.
func integer(b []byte) (n int64, ok bool) {
	neg := len(b) > 0 && b[0] == '-'
	if neg {
		b = b[1:]
	}
	if len(b) > 19 {
		return 0, false
	}
	var u uint64
	for _, c := range b {
		u = u*10 + uint64(c-'0') // 19 digits can't pass 2^64
	}
	switch {
	case neg && u <= 1<<63:
		return -int64(u), true
	case !neg && u < 1<<63:
		return int64(u), true
	}
	return 0, false
}

// number gives a number token whose column has no type.
func number(b []byte, t token) schema.Value {
	raw := b[t.start:t.end]
	if t.flags&flagInteger != 0 {
		if n, ok := integer(raw); ok {
			return schema.IntValue(n)
		}
	}
	return schema.Value{Kind: schema.Number, S: view(raw)}
}
