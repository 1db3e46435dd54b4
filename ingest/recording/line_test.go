package recording

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gscd-io/gscd/alloctest"
	"github.com/gscd-io/gscd/ingest/change"
)

// parseRecord does what the reader does with one line: check first, then
// decode a copy.
func parseRecord(b []byte) (*change.Record, error) {
	var l line
	if err := l.parse(b, false, false); err != nil {
		return nil, err
	}
	if err := l.check(); err != nil {
		return nil, err
	}
	own := bytes.Clone(b)
	if err := l.parse(own, true, l.valueEnds); err != nil {
		return nil, fmt.Errorf("second parse: %w", err)
	}
	r := &change.Record{Topic: string(l.topic), Partition: l.partition}
	if _, err := l.record(r, nil); err != nil {
		return nil, fmt.Errorf("record failed where check passed: %w", err)
	}
	return r, nil
}

func show(r *change.Record) string {
	s := fmt.Sprintf("%s/%d@%d ts=%d key=%s value=%s", r.Topic, r.Partition, r.Offset, r.Timestamp, quoted(r.Key), quoted(r.Value))
	for _, h := range r.Headers {
		s += fmt.Sprintf(" %q=%s", h.Key, quoted(h.Value))
	}
	return s
}

func quoted(b []byte) string {
	if b == nil {
		return "nil"
	}
	return fmt.Sprintf("%q", b)
}

func TestLine(t *testing.T) {
	for _, c := range []struct{ name, line, want string }{
		{"kcat", `{"topic":"t","partition":3,"offset":7,"tstype":"create","ts":1657936800400,"broker":1,"headers":["a","1","b",null],"key":"{\"id\":1}","payload":"{\"n\":\"\\u00e9\\n\"}"}`,
			`t/3@7 ts=1657936800400 key="{\"id\":1}" value="{\"n\":\"\\u00e9\\n\"}" "a"="1" "b"=nil`},
		{"kcat tombstone without key", `{"topic":"t","partition":0,"offset":0,"tstype":"create","ts":5,"key":null,"payload":null}`, `t/0@0 ts=5 key=nil value=nil`},
		{"kcat empty bytes", `{"partition":0,"offset":0,"key":"","payload":""}`, `/0@0 ts=-1 key="" value=""`},
		{"kcat without a time", `{"partition":0,"offset":0,"tstype":"unknown","ts":0,"key":null,"payload":"x"}`, `/0@0 ts=-1 key=nil value="x"`},
		{"kcat -s value=avro prints JSON", `{"partition":0,"offset":0,"key":5,"payload":{"a": 1}}`, `/0@0 ts=-1 key="5" value="{\"a\": 1}"`},
		{"kcat base64", `{"partition":0,"offset":0,"key_b64":"AAE=","payload_b64":"/w=="}`, `/0@0 ts=-1 key="\x00\x01" value="\xff"`},
		{"readable", ` { "partition" : 0 , "offset" : 2 , "ts" : 9 , "key" : {"id":18446744073709551615} , "value" : {"op":"c", "n":1.10} } `,
			`/0@2 ts=9 key="{\"id\":18446744073709551615}" value="{\"op\":\"c\", \"n\":1.10}"`},
		{"a string as JSON keeps its quotes", `{"partition":0,"offset":0,"key":"a","value":"b\n"}`, `/0@0 ts=-1 key="\"a\"" value="\"b\\n\""`},
		{"raw text", `{"partition":0,"offset":1,"key":{"id":2},"raw_value":"{\"op\":\"u\",\"bef"}`, `/0@1 ts=-1 key="{\"id\":2}" value="{\"op\":\"u\",\"bef"`},
		{"raw and base64", `{"partition":0,"offset":1,"raw_key":"k\u0000","value_b64":"/v8="}`, `/0@1 ts=-1 key="k\x00" value="\xfe\xff"`},
		{"tombstone", `{"partition":0,"offset":1,"key":[1,"a"],"value":null,"ts":null}`, `/0@1 ts=-1 key="[1,\"a\"]" value=nil`},
		{"header object", `{"partition":0,"offset":1,"headers":{"a":"x\t","b":null,"c":[1, 2]},"value":true}`, `/0@1 ts=-1 key=nil value="true" "a"="x\t" "b"=nil "c"="[1, 2]"`},
		{"headers base64", `{"partition":0,"offset":1,"headers_b64":["/w==","AA==","YQ==",null],"value":1}`, `/0@1 ts=-1 key=nil value="1" "\xff"="\x00" "a"=nil`},
		{"no headers", `{"partition":0,"offset":1,"headers":[],"value":1}`, `/0@1 ts=-1 key=nil value="1"`},
		{"surrogates", `{"partition":0,"offset":1,"raw_value":"\ud83d\ude00 \ud83d \ud83d\u0041 \ude00 \\u0041"}`, `/0@1 ts=-1 key=nil value="😀 � �A � \\u0041"`},
		{"bytes that are no UTF-8 stay", "{\"partition\":0,\"offset\":1,\"raw_value\":\"a\xffb\\n\"}", `/0@1 ts=-1 key=nil value="a\xffb\n"`},
		{"escaped names", `{"part\u0069tion":0,"offset":1,"v\u0061lue":1,"topic":"\u0074"}`, `t/0@1 ts=-1 key=nil value="1"`},
		{"unknown members", `{"x":{"partition":[{}]},"partition":2147483647,"offset":9223372036854775806,"value":{}}`, `/2147483647@9223372036854775806 ts=-1 key=nil value="{}"`},
	} {
		r, err := parseRecord([]byte(c.line))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if got := show(r); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
}

func TestBadLine(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{`{"partition":0,"offset":0,"value":{"op":"c"`, "no valid JSON at byte 44: cut off"},
		{`{"partition":0,"offset":0,"value":"a`, "a string without an end"},
		{`{"partition":0,"offset":0,"value":1}}`, "something behind the object"},
		{`{"partition":0,"offset":0,"value":1,}`, "a member name must stand here"},
		{`{"partition":0,"offset":0,"value":01}`, "not a number"},
		{`{"partition":0,"offset":0,"value":1.}`, "not a number"},
		{`{"partition":0,"offset":0,"value":-}`, "not a number"},
		{`{"partition":0,"offset":0,"value":nul}`, "not the begin of a value"},
		{`{"partition":0,"offset":0,"value":"\x"}`, "unknown escape"},
		{`{"partition":0,"offset":0,"value":"\u12g4"}`, "four hex digits"},
		{"{\"partition\":0,\"offset\":0,\"value\":\"\x01\"}", "control character"},
		{`{"partition":0,"offset":0,"value":` + strings.Repeat("[", 20000), "nested too deeply"},
		{`[]`, "must be one JSON object"},
		{`{}`, `no "partition"`},
		{`{"partition":0,"value":1}`, `no "offset"`},
		{`{"partition":-1,"offset":0,"value":1}`, "partition -1"},
		{`{"partition":2147483648,"offset":0,"value":1}`, "partition 2147483648"},
		{`{"partition":"0","offset":0,"value":1}`, "whole number"},
		{`{"partition":0,"offset":1.5,"value":1}`, "whole number"},
		{`{"partition":0,"offset":9223372036854775808,"value":1}`, "whole number"},
		{`{"partition":0,"offset":9223372036854775807,"value":1}`, "offset 9223372036854775807"},
		{`{"partition":0,"offset":99999999999999999999999,"value":1}`, "whole number"},
		{`{"partition":0,"offset":-5,"value":1}`, "offset -5"},
		{`{"partition":0,"offset":0,"ts":"x","value":1}`, `"ts" must be a whole number`},
		{`{"partition":0,"offset":0}`, "one of payload"},
		{`{"partition":0,"offset":0,"value":1,"payload":"x"}`, "one of payload"},
		{`{"partition":0,"offset":0,"value":1,"value":2}`, `"value" stands there twice`},
		{`{"partition":0,"offset":0,"key":1,"key_b64":"","value":2}`, "at most one of key"},
		{`{"partition":0,"offset":0,"raw_value":1}`, `"raw_value" must be a string or null`},
		{`{"partition":0,"offset":0,"value_b64":"?"}`, "no valid base64"},
		{`{"partition":0,"offset":0,"topic":5,"value":1}`, `"topic" must be a text`},
		{`{"partition":0,"offset":0,"headers":["a"],"value":1}`, "a name without a value"},
		{`{"partition":0,"offset":0,"headers":["a",1],"value":1}`, "headers, value 1: not a string"},
		{`{"partition":0,"offset":0,"headers":[[],"a"],"value":1}`, "headers, name 1: not a string"},
		{`{"partition":0,"offset":0,"headers":"a","value":1}`, `"headers" must be a list`},
		{`{"partition":0,"offset":0,"headers":[],"headers_b64":[],"value":1}`, "at most one of headers"},
	} {
		if r, err := parseRecord([]byte(c.line)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.80s: got %v, %v; want an error with %q", c.line, r, err, c.want)
		}
	}
}

// FuzzLine holds the scanner to encoding/json: it refuses what that refuses,
// and what it takes means the same there.
func FuzzLine(f *testing.F) {
	for _, s := range []string{
		`{"topic":"t","partition":3,"offset":7,"tstype":"create","ts":1,"headers":["a","1","b",null],"key":"{\"id\":1}","payload":"\ud83d\ude00\ud83d"}`,
		`{"partition":0,"offset":1,"key":{"id":[1,-2.5e+3,true,false,null]},"value":{"a":"\\\/\b\f\n\r\t\u00e9"},"headers":{"a":"b","c":{}}}`,
		`{"partition":0,"offset":1,"raw_key":"k","raw_value":"v"}`,
		`{"partition":0,"offset":1,"key_b64":"AA==","value_b64":"AAE="}`,
		`{"partition":0,"offset":1,"value":{"op":`, `{"partition":0,"offset":1,"value":01}`, `{"v\u0061lue":null,"offset":0,"partition":0}`,
		`{"partition":0,"offset":1,"value":"` + "\x00\xff" + `"}`, `[]`, ` { } `,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		alloctest.Within(t, len(b), 64, 1<<20, func() { _, _ = parseRecord(b) })
		r, err := parseRecord(b)
		if !bytes.Equal(b, before) {
			t.Fatal("parse or check wrote to the line")
		}
		object := bytes.HasPrefix(bytes.TrimLeft(b, " \t\r\n"), []byte("{"))
		if wrong := errors.Is(err, errSyntax); wrong != !(object && json.Valid(b)) && !(err != nil && !wrong && !json.Valid(b)) {
			t.Fatalf("an object %v, json.Valid %v, got %v", object, json.Valid(b), err)
		}
		if err != nil || !utf8.Valid(b) {
			return
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		var offset, partition int64
		if json.Unmarshal(m["offset"], &offset) != nil || json.Unmarshal(m["partition"], &partition) != nil || offset != r.Offset || partition != int64(r.Partition) {
			t.Fatalf("offset %d partition %d of %s %s", r.Offset, r.Partition, m["offset"], m["partition"])
		}
		_, k1 := m["payload"]
		_, k2 := m["payload_b64"]
		compare(t, "key", r.Key, m, k1 || k2, "key", "raw_key", "key_b64")
		if k1 || k2 {
			compare(t, "payload", r.Value, m, true, "payload", "", "payload_b64")
		} else {
			compare(t, "value", r.Value, m, false, "value", "raw_value", "value_b64")
		}
	})
}

func compare(t *testing.T, what string, got []byte, m map[string]json.RawMessage, kcat bool, plain, raw, coded string) {
	var want []byte
	var s string
	if v, ok := m[plain]; ok && string(v) != "null" {
		want = v
		if kcat && json.Unmarshal(v, &s) == nil {
			want = []byte(s)
		}
	}
	if v, ok := m[raw]; ok && raw != "" && string(v) != "null" {
		if err := json.Unmarshal(v, &s); err != nil {
			t.Fatal(err)
		}
		want = []byte(s)
	}
	if v, ok := m[coded]; ok && string(v) != "null" {
		if err := json.Unmarshal(v, &s); err != nil {
			t.Fatal(err)
		}
		var err error
		if want, err = base64.StdEncoding.DecodeString(s); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(got, want) || (got == nil) != (want == nil) {
		t.Fatalf("%s: got %q, want %q", what, got, want)
	}
}
