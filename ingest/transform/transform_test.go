package transform

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/ddl"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
)

const secret = "sixteen bytes or more"

func hashed(text string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

func constants(texts map[string]string) map[string]Mask {
	out := map[string]Mask{}
	for name, text := range texts {
		out[name] = Mask{Method: Constant, Text: text}
	}
	return out
}

// run decodes a record of Maxwell under rules and prints what becomes of it.
func run(t *testing.T, s Settings, value string) (string, error) {
	t.Helper()
	if s.Secret == nil {
		s.Plain = true
	}
	rules, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]decode.ColumnSpec{}
	for name, text := range map[string]string{"id": "int", "n": "int", "price": "decimal(10,2)", "name": "string", "at": "datetime"} {
		if types[name], err = decode.ParseColumnType(text); err != nil {
			t.Fatal(err)
		}
	}
	inner, err := decode.New("maxwell", decode.Options{Columns: types})
	if err != nil {
		t.Fatal(err)
	}
	d := rules.Wrap(inner)
	var c change.Change
	for range 2 { // the second time by the plans that are known
		if err := d.Decode(&change.Record{Value: []byte(value)}, &change.Arena{}, &c); err != nil {
			return "", err
		}
	}
	print := func(cols *change.Columns, cells []schema.Value) string {
		if cols == nil {
			return "-"
		}
		var out []string
		for i, col := range cols.List {
			text := textOf(cells[i], col.Type)
			if cells[i].IsNull() {
				text = "NULL"
			}
			out = append(out, fmt.Sprintf("%s %s=%s", col.Name, col.Type, text))
		}
		return strings.Join(out, " ")
	}
	text := fmt.Sprintf("%s: %s | %s | %s", c.Op, print(c.Columns, c.After), print(c.BeforeColumns, c.Before), print(c.KeyColumns, c.Key))
	if c.IfThere {
		text += " if there"
	}
	return text, nil
}

func maxwell(kind, data, old string) string {
	return `{"database":"d","table":"t","type":"` + kind + `","ts":1657936800,"primary_key_columns":["id"],"data":` + data + `,"old":` + old + `}`
}

func TestColumns(t *testing.T) {
	row := `{"id":7,"name":"ü","price":"1.5","n":null,"at":"2022-07-16 08:00:00"}`
	for _, c := range []struct {
		what, want string
		s          Settings
	}{
		{"include", "insert: id integer=7 name string=ü | - | id integer=7", Settings{Include: []string{"ID", "name"}}},
		{"exclude", "insert: id integer=7 n integer=NULL | - | id integer=7", Settings{Exclude: []string{"name", "price", "at"}}},
		{"rename", "insert: key integer=7 name string=ü Preis decimal(10,2)=1.50 n integer=NULL | - | key integer=7", Settings{Exclude: []string{"at"}, Rename: map[string]string{"id": "key", "PRICE": "Preis"}, Key: []string{"key"}}},
		{"swap", "insert: name integer=7 id string=ü | - | name integer=7", Settings{Include: []string{"id", "name"}, Rename: map[string]string{"id": "name", "name": "id"}}},
		{"mask", "insert: id integer=7 name string=*** price string=x n string=NULL | - | id integer=7", Settings{Exclude: []string{"at"}, Mask: constants(map[string]string{"name": "***", "price": "x", "n": "x"})}},
		{"hash", "insert: id string=" + hashed("7") + " name string=" + hashed("ü") + " price string=" + hashed("1.50") + " n string=NULL at string=" + hashed("1657958400000000") + " | - | id string=" + hashed("7"),
			Settings{Hash: []string{"id", "Name", "price", "n", "at"}, Secret: []byte(secret), Key: []string{"id"}}},
	} {
		if got, err := run(t, c.s, maxwell("insert", row, "null")); err != nil || got != c.want {
			t.Errorf("%s: %s, %v\nwant %s", c.what, got, err, c.want)
		}
	}
	for _, s := range []Settings{{Exclude: []string{"id"}}, {Mask: constants(map[string]string{"id": "x"})}} {
		if _, err := run(t, s, maxwell("insert", row, "null")); err == nil || !strings.Contains(err.Error(), "rows would become one") {
			t.Errorf("the record's key left out: %v", err)
		}
		s.Key = []string{"name"} // then it is no matter
		if _, err := run(t, s, maxwell("insert", row, "null")); err != nil {
			t.Errorf("another key: %v", err)
		}
	}
	if _, err := run(t, Settings{Rename: map[string]string{"id": "name"}}, maxwell("insert", row, "null")); err == nil || !strings.Contains(err.Error(), `both called "name"`) {
		t.Errorf("a name that is taken: %v", err)
	}
}

// TestFilter: what an event is for the rows that are taken.
func TestFilter(t *testing.T) {
	yes, no := `{"id":1,"n":5,"name":"a"}`, `{"id":1,"n":50,"name":"a"}`
	for _, c := range []struct{ what, kind, data, old, want string }{
		{"an insert that is taken", "insert", yes, "null", "insert: id integer=1 n integer=5 name string=a | - | id integer=1"},
		{"an insert that is not", "insert", no, "null", "delete: - | id integer=1 n integer=50 name string=a | id integer=1 if there"},
		{"a row that stays", "update", yes, `{"name":"b"}`, "update: id integer=1 n integer=5 name string=a | id integer=1 n integer=5 name string=b | id integer=1"},
		{"a row that leaves", "update", no, `{"n":5}`, "delete: - | id integer=1 n integer=5 name string=a | id integer=1"},
		{"a row that leaves under another key", "update", no, `{"n":5,"id":9}`, "delete: - | id integer=9 n integer=5 name string=a | id integer=1"},
		{"a row that comes in", "update", yes, `{"n":50}`, "update: id integer=1 n integer=5 name string=a | id integer=1 n integer=50 name string=a | id integer=1"},
		{"a row that stays out", "update", no, `{"n":51}`, "filtered: - | - | -"},
		{"a delete of a row that was taken", "delete", yes, "null", "delete: - | id integer=1 n integer=5 name string=a | id integer=1"},
		{"a delete of another", "delete", no, "null", "filtered: - | - | -"},
		{"a read that is not taken", "bootstrap-insert", no, "null", "filtered: - | - | -"},
		{"NULL is not true", "insert", `{"id":1,"n":null,"name":"a"}`, "null", "delete: - | id integer=1 n integer=NULL name string=a | id integer=1 if there"},
	} {
		if got, err := run(t, Settings{Where: "n < 10"}, maxwell(c.kind, c.data, c.old)); err != nil || got != c.want {
			t.Errorf("%s: %s, %v\nwant %s", c.what, got, err, c.want)
		}
	}
	for _, c := range []struct{ where, data, fault string }{
		{"n < 10", `{"id":1,"name":"a"}`, "there is no column n"},
		{"other = 'x'", `{"id":1,"name":"a","other":"x"}`, "no types of the columns other"},
		{"n = 'x'", yes, "row_filter"},
	} {
		_, err := run(t, Settings{Where: c.where}, maxwell("insert", c.data, "null"))
		if e, ok := err.(*decode.Error); !ok || e.Reason != ReasonFilter || !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v, want %q", c.where, err, c.fault)
		}
	}
	if _, err := run(t, Settings{Where: "n < 10"}, maxwell("delete", `{"id":1}`, "null")); err != nil {
		t.Errorf("a delete by its key alone: %v", err)
	}
	for text, ok := range map[string]bool{"a < 1 AND b = 'x'": true, "(": false, "'x": false, "TRUE": true, "a b c": true} {
		if err := CheckCondition(text); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestSchema: a statement for the columns that are taken, by their names in the table.
func TestSchema(t *testing.T) {
	r, err := New(Settings{Exclude: []string{"x", "y"}, Hash: []string{"h", "h2"}, Secret: []byte(secret), Rename: map[string]string{"a": "b"}})
	if err != nil {
		t.Fatal(err)
	}
	in := &change.SchemaChange{Statement: "s", Columns: []ddl.ColumnChange{
		{Old: "A", New: "c", OldType: "int", NewType: "int"}, {Old: "x", New: "y"}, {New: "x"}, {Old: "x"}, {Old: "k", New: "x", OldType: "int"}, {Old: "h", New: "h2"}, {New: "new", NewType: "int"},
	}}
	got, err := r.schema(in)
	want := []ddl.ColumnChange{{Old: "b", New: "c", OldType: "int", NewType: "int"}, {Old: "k", OldType: "int"}, {Old: "h", New: "h2"}, {New: "new", NewType: "int"}}
	if err != nil || got.Statement != "s" || !reflect.DeepEqual(got.Columns, want) || len(in.Columns) != 7 {
		t.Errorf("%+v, %v", got, err)
	}
	for _, c := range []ddl.ColumnChange{{Old: "h", New: "seen"}, {Old: "x", New: "seen"}, {Old: "x", New: "h"}} {
		if _, err := r.schema(&change.SchemaChange{Columns: []ddl.ColumnChange{c}}); err == nil || !strings.Contains(err.Error(), "name it in the settings too") {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestFaults(t *testing.T) {
	_, err := New(Settings{
		Include: []string{"a", "k", "r"}, Exclude: []string{"a"}, Hash: []string{"b", "k"}, Mask: constants(map[string]string{"k": "x"}),
		Rename: map[string]string{"r": "z", "a": "Z"}, Key: []string{"K", "gone", "r"},
	})
	for _, want := range []string{
		"a is both included and excluded", "b is left out, and hashed", "k is both hashed and masked", "a is left out, and renamed",
		"columns a and r both become z", "at least 16 bytes", "key column K is masked", "key column gone is left out", "key column r is renamed: name it z",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
	if r, err := New(Settings{Secret: []byte(secret), Key: []string{"id"}}); r != nil || err != nil || r.Fingerprint() != "" || r.TableName("x") != "x" {
		t.Errorf("no rules: %v, %v", r, err)
	}
}

func TestFingerprint(t *testing.T) {
	of := func(s Settings) string {
		r, err := New(s)
		if err != nil {
			t.Fatal(err)
		}
		return r.Fingerprint()
	}
	a := of(Settings{Hash: []string{"B", "a"}, Secret: []byte(secret), Where: " n > 1 "})
	if b := of(Settings{Hash: []string{"a", "b"}, Secret: []byte(secret), Where: "n > 1"}); a != b {
		t.Errorf("%s and %s", a, b)
	}
	if b := of(Settings{Hash: []string{"a", "b"}, Secret: []byte(secret + "."), Where: "n > 1"}); a == b || strings.Contains(b, secret) {
		t.Errorf("another secret: %s", b)
	}
}

// TestMasks: what each method leaves of a value, and of which type the column is then.
func TestMasks(t *testing.T) {
	row := `{"id":7,"name":"Mü\u0308ller","price":"1234.5","n":12,"at":"2022-07-16 08:00:00"}`
	sum := func(text string) string { s := sha256.Sum256([]byte(text)); return hex.EncodeToString(s[:]) }
	for _, c := range []struct {
		mask   Mask
		column string
		want   string
	}{
		{Mask{Method: Constant, Text: "x"}, "price", "price string=x"},
		{Mask{Method: HMAC}, "name", "name string=" + hashed("Mü\u0308ller")},
		{Mask{Method: SHA256}, "price", "price string=" + sum("1234.50")},
		{Mask{Method: Null}, "price", "price decimal(10,2)=NULL"},
		{Mask{Method: Null}, "at", "at timestamp=NULL"},
		{Mask{Method: KeepLast, Keep: 3}, "name", "name string=****ler"},
		{Mask{Method: KeepLast, Keep: 2}, "price", "price string=*****50"},
		{Mask{Method: KeepLast, Keep: 2}, "n", "n string=**"},
		{Mask{Method: KeepLast, Keep: 9}, "n", "n string=**"},
	} {
		s := Settings{Include: []string{"id", c.column}, Mask: map[string]Mask{c.column: c.mask}, Secret: []byte(secret)}
		got, err := run(t, s, maxwell("insert", row, "null"))
		want := "insert: id integer=7 " + c.want + " | - | id integer=7"
		if c.column == "at" {
			got = strings.Replace(got, "timestamp_ntz", "timestamp", 1)
		}
		if err != nil || got != want {
			t.Errorf("%+v: %s, %v\nwant %s", c.mask, got, err, want)
		}
	}
	// A key is hashed by a mask too, and by nothing else.
	s := Settings{Include: []string{"id"}, Key: []string{"id"}, Secret: []byte(secret), Mask: map[string]Mask{"ID": {Method: HMAC}}}
	if got, err := run(t, s, maxwell("insert", row, "null")); err != nil || got != "insert: id string="+hashed("7")+" | - | id string="+hashed("7") {
		t.Errorf("a key: %s, %v", got, err)
	}
	for _, c := range []struct {
		want string
		s    Settings
	}{
		{"key column id is masked", Settings{Key: []string{"id"}, Mask: map[string]Mask{"id": {Method: SHA256}}, Secret: []byte(secret)}},
		{`method "rot13" is unknown`, Settings{Mask: map[string]Mask{"a": {Method: "rot13"}}, Secret: []byte(secret)}},
		{"keep_last needs keep", Settings{Mask: map[string]Mask{"a": {Method: KeepLast}}, Secret: []byte(secret)}},
		{"keep belongs to", Settings{Mask: map[string]Mask{"a": {Method: Null, Keep: 1}}, Secret: []byte(secret)}},
		{"set transform.hash_secret", Settings{Mask: map[string]Mask{"a": {Method: Null}}}},
		{"at least 16 bytes", Settings{Mask: map[string]Mask{"a": {Method: Null}}, Secret: []byte("short")}},
		{"(transform.hash_secret)", Settings{Mask: map[string]Mask{"a": {Method: HMAC}}, Plain: true}},
	} {
		if _, err := New(c.s); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.s.Mask, err, c.want)
		}
	}
}

// TestSealed: what is stored of a record says nothing without the secret, is bound to its
// place, and comes back whole.
func TestSealed(t *testing.T) {
	rules, err := New(Settings{Mask: map[string]Mask{"name": {Method: Null}}, Secret: []byte(secret)})
	if err != nil {
		t.Fatal(err)
	}
	inner, err := decode.New("maxwell", decode.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := rules.Wrap(inner)
	r := &change.Record{
		Topic: "t", Partition: 1, Offset: 7, Timestamp: 5, Key: []byte("k-planted"), Value: []byte(maxwell("insert", `{"id":7,"name":"v-planted"}`, "null")),
		Headers: []change.Header{{Key: "h-planted", Value: nil}, {Key: "x", Value: []byte("planted")}},
	}
	one, two := d.Alone(r), d.Alone(r)
	if text := fmt.Sprintf("%+v %s %s", one, one.Key, one.Value); strings.Contains(text, "planted") || !IsSealed(one) {
		t.Errorf("stored: %s", text)
	}
	if string(one.Value) == string(two.Value) {
		t.Error("the same record is stored as the same bytes")
	}
	if d.Alone(one) != one || d.Rows(one) != 1 {
		t.Error("it is sealed twice")
	}
	opened, err := rules.Open(one)
	if err != nil || !reflect.DeepEqual(opened, r) {
		t.Errorf("opened: %+v, %v", opened, err)
	}
	var c change.Change
	if err := d.Decode(one, &change.Arena{}, &c); err != nil || c.Op != change.Insert {
		t.Errorf("decoded: %v, %v", c.Op, err)
	}
	// Elsewhere, changed, cut off, under another secret: it is no fault of the record.
	var wait *decode.SchemaError
	bad := func(what string, d decode.Decoder, edit func(r *change.Record)) {
		t.Helper()
		copied := *one
		copied.Value = append([]byte(nil), one.Value...)
		edit(&copied)
		if err := d.Decode(&copied, &change.Arena{}, &c); !errors.As(err, &wait) || wait.Retryable || !strings.Contains(err.Error(), "transform.hash_secret") {
			t.Errorf("%s: %v", what, err)
		}
	}
	bad("another place", d, func(r *change.Record) { r.Offset++ })
	bad("a changed byte", d, func(r *change.Record) { r.Value[len(r.Value)-1] ^= 1 })
	bad("cut off", d, func(r *change.Record) { r.Value = r.Value[:20] })
	other, err := New(Settings{Mask: map[string]Mask{"name": {Method: Null}}, Secret: []byte("another one of sixteen")})
	if err != nil {
		t.Fatal(err)
	}
	bad("another secret", other.Wrap(inner), func(*change.Record) {})
	if _, err := other.Open(one); err == nil {
		t.Error("opened under another secret")
	}
	// A record of the topic that looks like a sealed one is a record like any other.
	forged := *one
	forged.Stored = false
	var fault *decode.Error
	if err := d.Decode(&forged, &change.Arena{}, &c); !errors.As(err, &fault) {
		t.Errorf("a forged one: %v", err)
	}
	// With raw_records: plain it is as it came.
	plain, err := New(Settings{Mask: map[string]Mask{"name": {Method: Null}}, Secret: []byte(secret), Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	if got := plain.Wrap(inner).Alone(r); got != r {
		t.Errorf("plain: %+v", got)
	}
	if err := plain.Wrap(inner).Decode(one, &change.Arena{}, &c); err != nil {
		t.Errorf("sealed before it was plain: %v", err)
	}
}
