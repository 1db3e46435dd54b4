package variant_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/variant"
)

// dictionary encodes names as metadata of one-byte offsets.
func dictionary(names ...string) string {
	raw := []byte{0x01, byte(len(names)), 0}
	text := strings.Join(names, "")
	end := 0
	for _, n := range names {
		end += len(n)
		raw = append(raw, byte(end))
	}
	return string(raw) + text
}

// primitive encodes a value of a type by its number.
func primitive(kind int, body string) string { return string([]byte{byte(kind << 2)}) + body }

func le(n, width int64) string {
	return string(binary.LittleEndian.AppendUint64(nil, uint64(n))[:width])
}

// object and array encode with one-byte ids and offsets.
func object(fields map[int]string, order ...int) string {
	head, offsets, body := []byte{2, byte(len(order))}, []byte{0}, ""
	for _, id := range order {
		head = append(head, byte(id))
		body += fields[id]
		offsets = append(offsets, byte(len(body)))
	}
	return string(head) + string(offsets) + body
}

func array(elements ...string) string {
	offsets, body := []byte{0}, ""
	for _, e := range elements {
		body += e
		offsets = append(offsets, byte(len(body)))
	}
	return string([]byte{3, byte(len(elements))}) + string(offsets) + body
}

func short(s string) string { return string([]byte{byte(len(s)<<2 | 1)}) + s }

func TestValues(t *testing.T) {
	m, err := variant.ParseMetadata(dictionary("a", "b<c>"))
	if err != nil {
		t.Fatal(err)
	}
	large := string([]byte{2 | 1<<6}) + le(1, 4) + "\x00" + "\x00\x01" + primitive(1, "") // is_large: four bytes of count
	for want, value := range map[string]string{
		"null": primitive(0, ""), "true": primitive(1, ""), "false": primitive(2, ""),
		"-1": primitive(3, "\xff"), "-300": primitive(4, le(-300, 2)), "70000": primitive(5, le(70000, 4)), "-9007199254740993": primitive(6, le(-9007199254740993, 8)),
		"0.1": primitive(7, "\x9a\x99\x99\x99\x99\x99\xb9\x3f"), "1.5": primitive(14, "\x00\x00\xc0\x3f"), `"NaN"`: primitive(7, "\x00\x00\x00\x00\x00\x00\xf8\x7f"),
		"-12.34": primitive(8, "\x02"+le(-1234, 4)), "0.01": primitive(9, "\x02"+le(1, 8)),
		"-0.00000000000000000001": primitive(10, "\x14"+strings.Repeat("\xff", 16)),
		`"2022-07-16"`:            primitive(11, le(19189, 4)), `"1969-12-31"`: primitive(11, le(-1, 4)),
		`"1970-01-01T00:00:00.000001Z"`: primitive(12, le(1, 8)), `"1969-12-31T23:59:59.999999"`: primitive(13, le(-1, 8)),
		`"AP8="`: primitive(15, le(2, 4)+"\x00\xff"), `"é\n<"`: primitive(16, le(4, 4)+"é\n<"), `"12:00:00.000001"`: primitive(17, le(12*3600_000_000+1, 8)),
		`"1970-01-01T00:00:00.000000001Z"`: primitive(18, le(1, 8)), `"1970-01-01T00:00:00.000000001"`: primitive(19, le(1, 8)),
		`"00112233-4455-6677-8899-aabbccddeeff"`: primitive(20, "\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff"),
		`""`:                                     short(""), `"short"`: short("short"),
		`{"a":1,"b<c>":["x",null,{}]}`: object(map[int]string{0: primitive(3, "\x01"), 1: array(short("x"), primitive(0, ""), object(nil))}, 0, 1),
		`{"b<c>":true}`:                object(map[int]string{1: primitive(1, "")}, 1),
		`[]`:                           array(), `{"a":true}`: large,
	} {
		got, err := variant.AppendJSON(nil, &m, value)
		if err != nil || string(got) != want || !json.Valid(got) {
			t.Errorf("%q: %s, %v; want %s", value, got, err, want)
		}
	}
}

func TestFields(t *testing.T) {
	m, _ := variant.ParseMetadata(dictionary("a", "b"))
	var got []string
	isObject, err := variant.Fields(&m, object(map[int]string{0: short("x"), 1: array()}, 0, 1), func(name string, json []byte) { got = append(got, name+string(json)) })
	if !isObject || err != nil || fmt.Sprint(got) != `[a"x" b[]]` {
		t.Errorf("%t %v %v", isObject, got, err)
	}
	if isObject, err := variant.Fields(&m, short("x"), nil); isObject || err != nil {
		t.Errorf("%t %v", isObject, err)
	}
}

func TestDamage(t *testing.T) {
	m, _ := variant.ParseMetadata(dictionary("a"))
	deep := primitive(0, "")
	for range 60 { // an array that has itself twice as its parts, as far as the offsets tell
		deep = string([]byte{3 | 3<<2, 2}) + le(0, 4) + le(0, 4) + le(int64(len(deep)), 4) + deep
	}
	for name, value := range map[string]string{
		"nothing": "", "cut off": primitive(6, "\x00"), "an unknown type": primitive(40, ""), "a long text": primitive(16, le(9, 4)+"x"),
		"a short text": "\x15x", "an unknown field": object(map[int]string{7: short("")}, 7), "a field outside": string([]byte{2, 1, 0, 9, 9}),
		"a huge array": string([]byte{3 | 1<<4}) + le(-1, 4), "a bomb": deep, "a scale": primitive(8, "\x50"+le(1, 4)),
	} {
		if got, err := variant.AppendJSON(nil, &m, value); !errors.Is(err, variant.ErrCorrupt) {
			t.Errorf("%s: %.40s, %v", name, got, err)
		}
	}
	for _, raw := range []string{"", "\x00", "\x01", "\xc1\xff\xff\xff\xff", "\x01\x05\x00", "\x02\x00\x00"} {
		if _, err := variant.ParseMetadata(raw); !errors.Is(err, variant.ErrCorrupt) {
			t.Errorf("metadata %q: %v", raw, err)
		}
	}
}

func FuzzVariant(f *testing.F) {
	f.Add([]byte(dictionary("a", "b")), []byte(object(map[int]string{0: short("x"), 1: array(primitive(6, le(1, 8)))}, 0, 1)))
	f.Add([]byte(dictionary()), []byte(primitive(10, "\x02"+le(1, 8)+le(0, 8))))
	f.Fuzz(func(t *testing.T, metadata, value []byte) {
		m, err := variant.ParseMetadata(string(metadata))
		if err != nil {
			return
		}
		if len(value) > 1<<10 {
			return // parts that are named many times take their time
		}
		text, err := variant.AppendJSON(nil, &m, string(value))
		if err == nil && !json.Valid(text) {
			t.Fatalf("no JSON: %.200s", text)
		}
		if err != nil && !errors.Is(err, variant.ErrCorrupt) {
			t.Fatal(err)
		}
	})
}
