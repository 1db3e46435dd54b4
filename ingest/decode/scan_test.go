package decode

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
)

// scanAll reads a text as one object of untyped cells, as a row is read.
func scanAll(b []byte) (names []string, values []schema.Value, err error) {
	s := scanner{b: b}
	at := s.space(0)
	if at >= len(b) || b[at] != '{' {
		return nil, nil, s.err
	}
	members, end := s.members(at+1, 1, nil)
	if end < 0 {
		return nil, nil, s.err
	}
	if s.space(end) != len(b) {
		return nil, nil, decodeError("tail")
	}
	r := cells{b: b, arena: &change.Arena{}, placeholder: "?", placeholder64: "?"}
	for _, m := range members {
		name, err := text(b, m.name, r.arena)
		if err != nil {
			return nil, nil, err
		}
		v, err := r.cell(&codec{}, m.value)
		if err != nil {
			return nil, nil, err
		}
		names, values = append(names, name), append(values, v)
	}
	return names, values, nil
}

// checkScan compares the scanner with encoding/json: what one takes the other
// takes, and the cells are the same.
func checkScan(t *testing.T, b []byte) {
	t.Helper()
	names, values, err := scanAll(b)
	if !bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte("{")) {
		return
	}
	if err != nil {
		if json.Valid(b) && utf8.Valid(b) && !strings.Contains(err.Error(), errSurrogate.Error()) && !strings.Contains(err.Error(), "too deep") {
			t.Fatalf("%q refused: %v", b, err)
		}
		return
	}
	var want map[string]json.RawMessage
	if err := json.Unmarshal(b, &want); err != nil {
		t.Fatalf("%q taken, but it is not JSON: %v", b, err)
	}
	seen := map[string]schema.Value{}
	for i, name := range names {
		seen[name] = values[i] // the last one counts for encoding/json
	}
	if len(seen) != len(want) {
		t.Fatalf("%q: members %q, want %d", b, names, len(want))
	}
	for name, raw := range want {
		if got, w := plainJSON(t, seen[name], raw); !reflect.DeepEqual(got, w) {
			t.Fatalf("%q: member %q is %#v, want %#v", b, name, got, w)
		}
	}
}

// plainJSON gives an untyped cell and its JSON text as encoding/json reads it,
// for comparison: nested values as their compact text.
func plainJSON(t *testing.T, v schema.Value, raw json.RawMessage) (got, want any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&want); err != nil {
		t.Fatal(err)
	}
	if want == json.Number("-0") {
		want = json.Number("0")
	}
	switch v.Kind {
	case schema.Bool:
		got = v.I == 1
	case schema.Int, schema.Number:
		got = json.Number(show(typed{v, schema.Type{}}))
	case schema.String:
		got = v.S
		if _, isText := want.(string); !isText {
			var buf bytes.Buffer
			if err := json.Compact(&buf, raw); err != nil {
				t.Fatal(err)
			}
			want = buf.String()
		}
	}
	return got, want
}

var scanSeeds = []string{
	`{}`, ` { } `, `{"a":1}`, `{"a":1,"a":2}`, `{"a":1,}`, `{,"a":1}`, `{"a" : [ 1 , "x y" , { } ] }`, `{"a":01}`, `{"a":1.}`, `{"a":.5}`,
	`{"a":-}`, `{"a":-0}`, `{"a":-01}`, `{"a":1e5,"b":1E+05,"c":1e}`, `{"a":NaN}`, `{"a":nul}`, `{"a":null}x`, `{"a":true,"b":false,"c":null}`,
	`{"a":9223372036854775807,"b":9223372036854775808,"c":-9223372036854775808,"d":-9223372036854775809,"e":18446744073709551616}`,
	`{"a":"\u0041\n\"\\\/\b\f\r\t"}`, `{"a":"\uD83D\uDE00"}`, `{"a":"\uD83D"}`, `{"a":"\uDE00\uD83D"}`, `{"a":"\uD83Dx"}`, `{"a":"\u12"}`, `{"a":"\x41"}`,
	"{\"a\":\"\x01\"}", "{\"a\":\"\xff\"}", "{\"a\":\"äöü€😀 and a longer text behind it\"}", "{\"a\":\"12345678\x1f\"}", "{\"\xc3\":1}", `{"äö\u00fc":1}`,
	`{"a":"unfinished`, `{"a":"1234567`, `{"a":"12345678`, `{"a"`, `{"a":`, `{"a":[1,2`, `{"a":[}`, `{"a":[1 2]}`, `{"a":{"b":[[[]]]},"c":"x"}`,
	`{"a":{"b" : "q \" , } ] \\" , "c":[ ] }}`, `{"a":"` + strings.Repeat(`\u0000`, 40) + `"}`, `{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`,
}

func TestScan(t *testing.T) {
	for _, s := range scanSeeds {
		checkScan(t, []byte(s))
	}
}

func FuzzScan(f *testing.F) {
	for _, s := range scanSeeds {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) { checkScan(t, b) })
}

func TestScanFaults(t *testing.T) {
	for _, c := range []struct{ text, fault string }{
		{`{"op":"u","bef`, "json at byte 14: the text ends early"},
		{`{"a":01}`, "json at byte 5: no number"},
		{`{"a" 1}`, "json at byte 5: no colon behind a member name"},
		{`{"a":1 "b":2}`, "json at byte 7: no comma between members"},
		{`{"a":tru}`, "json at byte 5: no value"},
		{"{\"a\":\"\xc3(\"}", "json at byte 6: a string is not UTF-8"},
		{"{\"a\":\"x\ny\"}", "json at byte 7: a control character in a string"},
		{`{"a":"\q"}`, "json at byte 7: no such escape"},
		{`{"a":"\ud800 "}`, "half of a surrogate pair is no character"},
		{`{"a":` + strings.Repeat("[", 128) + strings.Repeat("]", 128) + `}`, "json at byte 132: nested too deep"},
	} {
		if _, _, err := scanAll([]byte(c.text)); err == nil || err.Error() != c.fault {
			t.Errorf("%.40q: %v, want %s", c.text, err, c.fault)
		}
	}
	if _, _, err := scanAll([]byte(`{"a":` + strings.Repeat("[", 127) + strings.Repeat("]", 127) + `}`)); err != nil {
		t.Errorf("128 levels: %v", err)
	}
}
