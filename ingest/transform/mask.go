package transform

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
)

// Method is how a mask hides a value.
type Method string

// The methods. All but Null make text of a column.
const (
	// Constant puts one text in place of every value.
	Constant Method = "constant"
	// HMAC is the keyed hash of hash_columns.
	HMAC Method = "hmac"
	// SHA256 hashes without a key: who knows what values there can be finds them by trying.
	SHA256 Method = "sha256"
	// Null leaves no value; the column keeps its type.
	Null Method = "null"
	// KeepLast leaves the last characters and puts * in place of the others; a value that
	// has no more than those is hidden whole.
	KeepLast Method = "keep_last"
)

// Methods are all of them.
var Methods = []Method{Constant, HMAC, SHA256, Null, KeepLast}

// Mask is what stands in place of a column's values.
type Mask struct {
	Method Method
	Text   string // of Constant
	Keep   int    // of KeepLast: characters, 1 or more
}

// MarshalJSON gives the text alone of a constant.
func (m Mask) MarshalJSON() ([]byte, error) {
	if m.Method == Constant {
		return json.Marshal(m.Text)
	}
	return json.Marshal(struct {
		Method Method `json:"method"`
		Keep   int    `json:"keep,omitempty"`
	}{m.Method, m.Keep})
}

// text tells that the column becomes text.
func (m Mask) text() bool { return m.Method != Null }

// of gives what stands in place of a value that is not NULL.
func (m Mask) of(arena *change.Arena, v schema.Value, t schema.Type) schema.Value {
	switch m.Method {
	case Null:
		return schema.Value{}
	case SHA256:
		sum := sha256.Sum256([]byte(textOf(v, t)))
		out := arena.Bytes(hex.EncodedLen(len(sum)))
		hex.Encode(out, sum[:])
		return schema.StringValue(arena.String(out))
	case KeepLast:
		return schema.StringValue(keepLast(textOf(v, t), m.Keep))
	}
	return schema.StringValue(m.Text)
}

// keepLast hides all but the last n characters of a text.
func keepLast(text string, n int) string {
	count := utf8.RuneCountInString(text)
	if count <= n {
		return strings.Repeat("*", count)
	}
	at := len(text)
	for range n {
		_, size := utf8.DecodeLastRuneInString(text[:at])
		at -= size
	}
	return strings.Repeat("*", count-n) + text[at:]
}

// check says what is wrong with a mask, "" for nothing.
func (m Mask) check(name string) string {
	switch m.Method {
	case Constant, HMAC, SHA256, Null:
		if m.Keep != 0 {
			return fmt.Sprintf("mask of column %s: keep belongs to the method keep_last", name)
		}
	case KeepLast:
		if m.Keep < 1 {
			return fmt.Sprintf("mask of column %s: keep_last needs keep, the number of characters to leave", name)
		}
	default:
		return fmt.Sprintf("mask of column %s: method %q is unknown: write constant, hmac, sha256, null or keep_last", name, m.Method)
	}
	return ""
}
