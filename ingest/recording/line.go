package recording

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"math"

	"github.com/gscd-io/gscd/ingest/change"
)

// member is one member of a line that means something to us.
type member uint8

const (
	mTopic member = iota
	mPartition
	mOffset
	mTs
	mTsType
	mHeaders
	mHeaders64
	mKey
	mRawKey
	mKey64
	mPayload
	mPayload64
	mValue
	mRawValue
	mValue64
	members
	mOther
)

var memberNames = [members]string{
	"topic", "partition", "offset", "ts", "tstype", "headers", "headers_b64", "key", "raw_key", "key_b64",
	"payload", "payload_b64", "value", "raw_value", "value_b64",
}

func memberOf(name []byte) member {
	switch string(name) {
	case "topic":
		return mTopic
	case "partition":
		return mPartition
	case "offset":
		return mOffset
	case "ts":
		return mTs
	case "tstype":
		return mTsType
	case "headers":
		return mHeaders
	case "headers_b64":
		return mHeaders64
	case "key":
		return mKey
	case "raw_key":
		return mRawKey
	case "key_b64":
		return mKey64
	case "payload":
		return mPayload
	case "payload_b64":
		return mPayload64
	case "value":
		return mValue
	case "raw_value":
		return mRawValue
	case "value_b64":
		return mValue64
	}
	return mOther
}

// line is one line of a recording: the coordinates, and where its other
// members stand in the text. It refers to the bytes it was parsed from.
type line struct {
	topic     []byte // nil where the line has none
	partition int32
	offset    int64
	ts        int64 // -1 where there is none
	text      [members][]byte
	// spent tells that payload or raw_value is decoded already.
	spent bool
	// valueEnds tells that the line ends with its value, an object.
	valueEnds bool
}

func (l *line) has(m member) bool { return l.text[m] != nil }

// lastObject gives where an object that begins at i ends if it is the last
// thing in the line's own object, 0 where it can't be.
func lastObject(b []byte, i int) int {
	trimmed := bytes.TrimRight(b, " \t\r\n")
	if i >= len(b) || b[i] != '{' || !bytes.HasSuffix(trimmed, []byte("}")) {
		return 0
	}
	inner := bytes.TrimRight(trimmed[:len(trimmed)-1], " \t\r\n")
	if len(inner) <= i+1 || inner[len(inner)-1] != '}' {
		return 0
	}
	return len(inner)
}

// parse checks the line and takes its coordinates; after it, record can't fail
// but by bad base64 or bad headers, which check finds too. With spend it
// decodes the large texts in place on the way, else it does not write to b.
// With valueEnds, known from an earlier parse of the line, the value is what
// stands in front of the last brace: it was checked then, and who decodes it
// checks it again.
func (l *line) parse(b []byte, spend, valueEnds bool) error {
	*l = line{partition: -1, offset: -1, ts: -1}
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '{' {
		return syntaxError(i, "a line must be one JSON object")
	}
	i = skipSpace(b, i+1)
	for first := true; ; first = false {
		if i < len(b) && b[i] == '}' && first {
			break
		}
		if i >= len(b) || b[i] != '"' {
			return syntaxError(i, "a member name must stand here")
		}
		end, err := skipString(b, i+1)
		if err != nil {
			return err
		}
		name := b[i+1 : end-1]
		if bytes.IndexByte(name, '\\') >= 0 {
			if name, err = text(b[i:end]); err != nil {
				return err
			}
		}
		if i, err = skipColon(b, end); err != nil {
			return err
		}
		m := memberOf(name)
		if m < members && l.has(m) {
			return fmt.Errorf("%q stands there twice", memberNames[m])
		}
		if spend && (m == mPayload || m == mRawValue) && i < len(b) && b[i] == '"' {
			if l.text[m], end, err = decodeString(b, i+1); err != nil {
				return err
			}
			l.spent = true
		} else if last := lastObject(b, i); valueEnds && m == mValue && last > 0 {
			end = last
			l.text[m] = b[i:end:end]
		} else if end, err = skipValue(b, i, 1); err != nil {
			return err
		} else if m < members {
			l.text[m] = b[i:end:end]
		}
		l.valueEnds = m == mValue && b[i] == '{'
		if i = skipSpace(b, end); i >= len(b) {
			return syntaxError(i, "cut off")
		}
		if b[i] == '}' {
			break
		}
		if b[i] != ',' {
			return syntaxError(i, "a comma or the end must stand here")
		}
		i = skipSpace(b, i+1)
	}
	if i = skipSpace(b, i+1); i < len(b) {
		return syntaxError(i, "something behind the object")
	}
	return l.coordinates()
}

func (l *line) coordinates() error {
	p, err := l.integer(mPartition)
	if err != nil {
		return err
	}
	if p < 0 || p > math.MaxInt32 {
		return fmt.Errorf("partition %d: must be 0 to %d", p, math.MaxInt32)
	}
	l.partition = int32(p)
	if l.offset, err = l.integer(mOffset); err != nil {
		return err
	}
	if l.offset < 0 || l.offset == math.MaxInt64 {
		return fmt.Errorf("offset %d: must be 0 to %d", l.offset, int64(math.MaxInt64)-1)
	}
	if l.has(mTs) && !isNull(l.text[mTs]) && !l.tsUnknown() {
		if l.ts, err = l.integer(mTs); err != nil {
			return err
		}
		l.ts = max(l.ts, -1)
	}
	if l.has(mTopic) && !isNull(l.text[mTopic]) {
		if l.topic, err = text(l.text[mTopic]); err != nil || len(l.topic) == 0 {
			return errors.New(`"topic" must be a text that is not empty`)
		}
	}
	values := 0
	for m := mPayload; m <= mValue64; m++ {
		if l.has(m) {
			values++
		}
	}
	if values != 1 {
		return errors.New("a line has one of payload, payload_b64, value, raw_value, value_b64 (null for a tombstone)")
	}
	if l.has(mKey) && l.has(mRawKey) || l.has(mKey) && l.has(mKey64) || l.has(mRawKey) && l.has(mKey64) {
		return errors.New("a line has at most one of key, raw_key, key_b64")
	}
	if l.has(mHeaders) && l.has(mHeaders64) {
		return errors.New("a line has at most one of headers, headers_b64")
	}
	return l.bytesMembers()
}

// bytesMembers checks that the members that hold bytes as text are strings.
func (l *line) bytesMembers() error {
	for _, m := range [...]member{mRawKey, mKey64, mPayload64, mRawValue, mValue64} {
		if t := l.text[m]; t != nil && !(l.spent && m == mRawValue) && !isNull(t) && t[0] != '"' {
			return fmt.Errorf("%q must be a string or null", memberNames[m])
		}
	}
	return nil
}

// tsUnknown: kcat prints a time of -1 or 0 where the record has none, and says so.
func (l *line) tsUnknown() bool { return string(l.text[mTsType]) == `"unknown"` }

func (l *line) integer(m member) (int64, error) {
	b := l.text[m]
	if b == nil {
		return 0, fmt.Errorf("the line has no %q", memberNames[m])
	}
	neg := b[0] == '-'
	digits := b
	if neg {
		digits = b[1:]
	}
	var n uint64
	for _, c := range digits {
		if c < '0' || c > '9' || n > math.MaxInt64/10 {
			return 0, fmt.Errorf("%q must be a whole number of 64 bits, not %.40s", memberNames[m], b)
		}
		n = n*10 + uint64(c-'0')
	}
	if n > math.MaxInt64 {
		return 0, fmt.Errorf("%q must be a whole number of 64 bits, not %.40s", memberNames[m], b)
	}
	if neg {
		return -int64(n), nil
	}
	return int64(n), nil
}

func isNull(t []byte) bool { return t[0] == 'n' }

// text gives the content of a JSON string without writing to it.
func text(t []byte) ([]byte, error) {
	if t[0] != '"' {
		return nil, errors.New("not a string")
	}
	if in := t[1 : len(t)-1]; bytes.IndexByte(in, '\\') < 0 {
		return in, nil
	}
	return textInPlace(bytes.Clone(t))
}

// check finds what only record would trip over, without writing to the line's bytes.
func (l *line) check() error {
	for _, m := range [...]member{mKey64, mPayload64, mValue64} {
		if l.has(m) && !isNull(l.text[m]) {
			in, err := text(l.text[m])
			if err == nil {
				_, err = fromBase64(in)
			}
			if err != nil {
				return fmt.Errorf("%q: %w", memberNames[m], err)
			}
		}
	}
	_, err := l.headers(nil, text)
	return err
}

// record fills r's timestamp, headers, key and value. It unescapes in place:
// the line's bytes are spent by it, and r refers to them. Headers are appended
// to slab, which is given back.
func (l *line) record(r *change.Record, slab []change.Header) ([]change.Header, error) {
	r.Offset, r.Timestamp = l.offset, l.ts
	var err error
	from := len(slab)
	if slab, err = l.headers(slab, textInPlace); err != nil {
		return slab, err
	}
	if len(slab) > from {
		r.Headers = slab[from:len(slab):len(slab)]
	}
	if r.Value, err = l.value(); err != nil {
		return slab, err
	}
	r.Key, err = l.key()
	return slab, err
}

func (l *line) value() ([]byte, error) {
	for m := mPayload; m <= mValue64; m++ {
		switch t := l.text[m]; {
		case t == nil:
		case l.spent && (m == mPayload || m == mRawValue):
			return t, nil
		case m == mPayload || m == mRawValue:
			return l.bytes(m, true)
		default:
			return l.bytes(m, false)
		}
	}
	return nil, nil
}

// key: in the kcat form a string holds the key's bytes, in the readable form
// it is itself JSON.
func (l *line) key() ([]byte, error) {
	switch {
	case l.has(mKey):
		return l.bytes(mKey, l.has(mPayload) || l.has(mPayload64))
	case l.has(mRawKey):
		return l.bytes(mRawKey, true)
	}
	return l.bytes(mKey64, false)
}

// bytes gives what a member stands for: nil for null and where there is none,
// what base64 codes, the text of a string where decode is set, else its JSON.
func (l *line) bytes(m member, decode bool) ([]byte, error) {
	t := l.text[m]
	if t == nil || isNull(t) {
		return nil, nil
	}
	coded := m == mKey64 || m == mPayload64 || m == mValue64
	if t[0] == '"' && (decode || coded) {
		var err error
		if t, err = textInPlace(t); err == nil && coded {
			t, err = fromBase64(t)
		}
		if err != nil {
			return nil, fmt.Errorf("%q: %w", memberNames[m], err)
		}
	}
	return t[:len(t):len(t)], nil
}

func textInPlace(t []byte) ([]byte, error) {
	if t[0] != '"' {
		return nil, errors.New("not a string")
	}
	b, _, err := decodeString(t, 1)
	return b, err
}

func fromBase64(in []byte) ([]byte, error) {
	out := make([]byte, base64.StdEncoding.DecodedLen(len(in)))
	n, err := base64.StdEncoding.Decode(out, in)
	if err != nil {
		return nil, fmt.Errorf("no valid base64: %w", err)
	}
	return out[:n], nil
}
