package slice_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/spill"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/slice"
	"github.com/gscd-io/gscd/snapshotter"
)

var ctx = context.Background()

func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func local(t testing.TB, path string) slice.Place {
	t.Helper()
	at, err := slice.Local(path)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// read gives the rows of a file as texts, NULL as <null>, or the error.
func read(t testing.TB, path string, o slice.FileOptions, columns *schema.Schema) (string, error) {
	t.Helper()
	s, err := slice.OpenFile(local(t, path), o)
	if err != nil {
		return "", err
	}
	return readSource(s, columns)
}

func readSource(s slice.Source, columns *schema.Schema) (string, error) {
	in, err := s.Open(ctx, columns)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, f := range in.Columns {
		fmt.Fprintf(&b, "%s %s;", f.Name, f.Type)
	}
	for row, err := range in.Rows {
		if err != nil {
			return "", err
		}
		b.WriteByte('\n')
		for i, f := range in.Columns {
			if row[i].IsNull() {
				b.WriteString("<null>,")
			} else {
				fmt.Fprintf(&b, "%q,", schema.AppendText(nil, f.Type, row[i]))
			}
		}
	}
	return b.String(), nil
}

func columnsOf(t testing.TB, fields ...schema.Field) *schema.Schema {
	t.Helper()
	s, err := schema.New(fields...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestCSV(t *testing.T) {
	table := columnsOf(t, schema.Field{Name: "id", Type: schema.Of(schema.Long)}, schema.Field{Name: "amt", Type: schema.Decimal(10, 2)}, schema.Field{Name: "name", Type: schema.Of(schema.StringType)})
	for _, tt := range []struct {
		name, text string
		o          slice.FileOptions
		want       string
	}{
		{name: "NULL and the empty text", text: "id,amt,name\n1,,\"\"\n2,1.5,\n", want: "id long;amt decimal(10,2);name string;\n\"1\",<null>,\"\",\n\"2\",\"1.50\",<null>,"},
		{name: "quotes, commas, line ends", text: "id,name\r\n1,\"a,\"\"b\"\"\nc\"\r\n2,x\r\n", want: "id long;name string;\n\"1\",\"a,\\\"b\\\"\\nc\",\n\"2\",\"x\","},
		{name: "a mark of byte order, empty lines", text: "\xef\xbb\xbfid,name\n\n1,x\n\n", want: "id long;name string;\n\"1\",\"x\","},
		{name: "unended", text: "id,name\n1,x", o: slice.FileOptions{Unended: true}, want: "id long;name string;\n\"1\",\"x\","},
		{name: "a delimiter", text: "id;name\n1;a,b\n", o: slice.FileOptions{Delimiter: ';'}, want: "id long;name string;\n\"1\",\"a,b\","},
		{name: "a new column", text: "id,code\n1,007\n", want: "id long;code string;\n\"1\",\"007\","},
		{name: "header alone", text: "id,name\n", want: "id long;name string;"},
	} {
		got, err := read(t, write(t, "a.csv", tt.text), tt.o, table)
		if err != nil || got != tt.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", tt.name, err, got, tt.want)
		}
	}
	for _, tt := range []struct {
		name, text string
		is         error
		says       string
	}{
		{"cut off in a row", "id,name\n1,x\n2,", ingest.ErrIncompleteSlice, "3, has no line end"},
		{"cut off in a quote", "id,name\n1,\"x\n2,y\n", ingest.ErrIncompleteSlice, "line 2"},
		{"cut off in the header", "id,na", nil, ""},
		{"empty", "", ingest.ErrIncompleteSlice, "not even a header"},
		{"a field too many", "id,name\n1,x,y\n", ingest.ErrSlice, "line 2: 3 fields"},
		{"a value of another type", "id,name\n1,x\none,y\n", ingest.ErrSlice, "line 3 (row 2)"},
		{"a quote inside", "id,name\n1,x\"y\n", ingest.ErrSlice, "line 2"},
		{"no UTF-8", "id,name\n1,\xff\n", ingest.ErrSlice, "UTF-8"},
	} {
		_, err := read(t, write(t, "a.csv", tt.text), slice.FileOptions{}, table)
		if tt.is == nil {
			continue // a header alone can't tell; its columns do not fit the table
		}
		if !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestJSONLines(t *testing.T) {
	table := columnsOf(t, schema.Field{Name: "id", Type: schema.Of(schema.Long)}, schema.Field{Name: "amt", Type: schema.Decimal(10, 2)}, schema.Field{Name: "d", Type: schema.Of(schema.Date)},
		schema.Field{Name: "tags", Type: schema.Type{Primitive: schema.Array, Nested: &schema.Nested{Element: schema.Of(schema.StringType), ContainsNull: true}}})
	for _, tt := range []struct {
		name, text string
		columns    *schema.Schema
		want       string
	}{
		{"typed by the table", `{"id":1,"amt":"12.5","d":"2022-07-16"}` + "\n" + `{"amt":3,"id":2,"d":null}` + "\n", table, "id long;amt decimal(10,2);d date;\n\"1\",\"12.50\",\"2022-07-16\",\n\"2\",\"3.00\",<null>,"},
		{"a new table", `{"id":1,"n":18446744073709551615,"f":1,"t":"x","b":true,"z":null}` + "\n" + `{"id":2,"f":1.5}`, nil, "id long;n decimal(20,0);f double;t string;b boolean;z void;\n\"1\",\"18446744073709551615\",\"1\",\"x\",\"true\",<null>,\n\"2\",<null>,\"1.5\",<null>,<null>,<null>,"},
		{"a list", `{"id":1,"tags":["a",null]}`, table, "id long;tags array<string>;\n\"1\",\"[\\\"a\\\",null]\","},
		{"no line, and a table", "", table, "id long;amt decimal(10,2);d date;tags array<string>;"},
	} {
		got, err := read(t, write(t, "a.jsonl", tt.text), slice.FileOptions{}, tt.columns)
		if err != nil || got != tt.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", tt.name, err, got, tt.want)
		}
	}
	for _, tt := range []struct {
		name, text string
		is         error
		says       string
	}{
		{"cut off", `{"id":1}` + "\n" + `{"id":2,"a`, ingest.ErrIncompleteSlice, "last line, 2"},
		{"no JSON", "id=1\n{\"id\":2}\n", ingest.ErrSlice, "line 1"},
		{"no object", "[1]\n", ingest.ErrSlice, "line 1 is no object"},
		{"text in a number", `{"id":"1"}`, ingest.ErrSlice, "can't hold \"1\""},
		{"two sorts", `{"x":1}` + "\n" + `{"x":"a"}`, ingest.ErrSlice, "column x is text here and an integer before"},
		{"an object in a new column", `{"x":{"a":1}}`, ingest.ErrSlice, "objects or lists"},
		{"more digits than fit", `{"amt":1.001}`, ingest.ErrSlice, "1.001"},
	} {
		if _, err := read(t, write(t, "a.jsonl", tt.text), slice.FileOptions{}, table); !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// Packed files are read, and one that was cut off anywhere is never taken for a whole one.
func TestPacked(t *testing.T) {
	var text strings.Builder
	text.WriteString("id,name\n")
	for i := range 3000 {
		fmt.Fprintf(&text, "%d,name %d\n", i, i*7919%1000)
	}
	var gz, zst bytes.Buffer
	g := gzip.NewWriter(&gz)
	g.Write([]byte(text.String()))
	g.Close()
	z, err := zstd.NewWriter(&zst)
	if err != nil {
		t.Fatal(err)
	}
	z.Write([]byte(text.String()))
	z.Close()
	want, err := read(t, write(t, "a.csv", text.String()), slice.FileOptions{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, packed := range map[string][]byte{"a.csv.gz": gz.Bytes(), "a.csv.zst": zst.Bytes()} {
		if got, err := read(t, write(t, name, string(packed)), slice.FileOptions{}, nil); err != nil || got != want {
			t.Errorf("%s: %v", name, err)
		}
		for n := 0; n < len(packed); n += 1 + len(packed)/60 {
			if _, err := read(t, write(t, name, string(packed[:n])), slice.FileOptions{}, nil); !errors.Is(err, ingest.ErrIncompleteSlice) {
				t.Errorf("%s, %d of %d bytes: %v", name, n, len(packed), err)
			}
		}
	}
}

func TestParquet(t *testing.T) {
	e, err := parquet.NewEncoder([]parquet.Column{{Name: "id", Type: schema.Of(schema.Integer)}, {Name: "name", Type: schema.Of(schema.StringType)}}, parquet.EncoderOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	s := e.Stream(&file)
	if err := s.AppendGroup([][]schema.Value{{schema.IntValue(1), schema.StringValue("a")}, {schema.IntValue(2), {}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Finish(nil); err != nil {
		t.Fatal(err)
	}
	got, err := read(t, write(t, "a.parquet", file.String()), slice.FileOptions{}, nil)
	if want := "id integer;name string;\n\"1\",\"a\",\n\"2\",<null>,"; err != nil || got != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
	for n := range file.Len() {
		if _, err := read(t, write(t, "a.parquet", file.String()[:n]), slice.FileOptions{}, nil); !errors.Is(err, ingest.ErrIncompleteSlice) {
			t.Fatalf("%d of %d bytes: %v", n, file.Len(), err)
		}
	}
	if _, err := read(t, write(t, "a.txt", "x"), slice.FileOptions{}, nil); !errors.Is(err, slice.ErrFormat) {
		t.Error(err)
	}
}

func parse(t testing.TB) slice.ParseLabel {
	t.Helper()
	c, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		t.Fatal(err)
	}
	return func(text string) (int64, bool) {
		l, err := c.Parse(text)
		return int64(l), err == nil
	}
}

func TestLabelOfName(t *testing.T) {
	for name, want := range map[string]string{
		"2022-07-16.csv": "2022-07-16", "users-2022-07-16.csv.gz": "2022-07-16", "dt=2022-07-16": "2022-07-16", "shop.users_2022-07-16_v2.parquet": "2022-07-16",
		"users.csv": "", "12022-07-16.csv": "", "2022-07-161.csv": "", "2022-07-16_2022-07-17.csv": "", "2022-13-16.csv": "",
	} {
		got, _, err := slice.LabelOfName(name, parse(t))
		if got != want || (err == nil) != (want != "") || err != nil && !errors.Is(err, slice.ErrLabel) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
}

// A folder's slices come in the order of their labels; those without their mark wait.
// A folder of slices on this machine, and the same in a storage.
func TestFolder(t *testing.T) {
	dir := t.TempDir()
	store := mem.New()
	for name, at := range map[string]slice.Place{"local": local(t, dir), "storage": {In: objstore.FS(ctx, store), Path: "exports/users", Name: "s3://lake/exports/users/"}} {
		t.Run(name, func(t *testing.T) {
			put := func(name, text string) {
				t.Helper()
				path := filepath.Join(dir, name)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600), store.Put(ctx, "exports/users/"+name, []byte(text))); err != nil {
					t.Fatal(err)
				}
			}
			for name, text := range map[string]string{
				"b-2022-07-15.csv": "id\n1\n", "b-2022-07-15.csv.done": "", "a-2022-07-16.csv": "id\n1\n", "dt=2022-07-14/part-2.csv": "id\n2\n", "dt=2022-07-14/part-1.csv": "id\n1\n",
				"dt=2022-07-14/.done": "", "_temporary": "x", ".hidden-2022-07-13.csv": "id\n",
			} {
				put(name, text)
			}
			list, waiting, err := slice.Folder(at, ".done", parse(t), slice.FileOptions{})
			if err != nil || len(list) != 2 || len(waiting) != 1 || waiting[0] != strings.TrimRight(at.Name, "/")+"/a-2022-07-16.csv" {
				t.Fatal(list, waiting, err)
			}
			if list[0].Label != "2022-07-14" || list[1].Label != "2022-07-15" {
				t.Error(list)
			}
			if rows, err := readSource(list[0].Source, nil); err != nil || rows != "id string;\n\"1\",\n\"2\"," {
				t.Error(rows, err)
			}
			put("c-2022-07-16.csv", "")
			if err := errors.Join(os.Remove(filepath.Join(dir, "b-2022-07-15.csv.done")), store.Delete(ctx, "exports/users/b-2022-07-15.csv.done")); err != nil {
				t.Fatal(err)
			}
			if _, _, err := slice.Folder(at, "", parse(t), slice.FileOptions{}); !errors.Is(err, slice.ErrLabel) || !strings.Contains(err.Error(), "both of 2022-07-16") {
				t.Error(err)
			}
			if err := errors.Join(os.Remove(filepath.Join(dir, "c-2022-07-16.csv")), store.Delete(ctx, "exports/users/c-2022-07-16.csv")); err != nil {
				t.Fatal(err)
			}
			none := at
			none.Path, none.Name = at.Path+"-none", "none.csv"
			if _, err := slice.OpenFile(none, slice.FileOptions{}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "none.csv") {
				t.Error(err)
			}
		})
	}
}

func TestSplit(t *testing.T) {
	path := write(t, "all.csv", "id,dt,v\n1,2022-07-16,a\n1,2022-07-15,b\n2,2022-07-16,\n")
	s, err := slice.OpenFile(local(t, path), slice.FileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir := spill.Dir{Parent: t.TempDir()}
	defer dir.Close()
	list, err := slice.Split(ctx, s, nil, "DT", parse(t), &dir)
	if err != nil || len(list) != 2 || list[0].Label != "2022-07-15" {
		t.Fatal(list, err)
	}
	for range 2 { // a source can be read again
		if rows, err := readSource(list[1].Source, nil); err != nil || rows != "id string;v string;\n\"1\",\"a\",\n\"2\",<null>," {
			t.Error(rows, err)
		}
	}
	bad, err := slice.OpenFile(local(t, write(t, "bad.csv", "id,dt\n1,yesterday\n")), slice.FileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := slice.Split(ctx, bad, nil, "dt", parse(t), &dir); !errors.Is(err, slice.ErrLabel) || !strings.Contains(err.Error(), `row 1 of`) {
		t.Error(err)
	}
	if _, err := slice.Split(ctx, bad, nil, "day", parse(t), &dir); !errors.Is(err, ingest.ErrSlice) {
		t.Error(err)
	}
}

// Whatever bytes a CSV file has, its rows have as many cells as its header, or there is an error.
func FuzzCSV(f *testing.F) {
	for _, text := range []string{"a,b\n1,2\n", "a\n\"x\ny\"\n", "a,b\r\n\"\",\r\n", "\"a\",b\n1,\"2\"\"\"\n", "a"} {
		f.Add(text, true)
	}
	f.Fuzz(func(t *testing.T, text string, unended bool) {
		s, err := slice.OpenFile(local(t, write(t, "a.csv", text)), slice.FileOptions{Unended: unended})
		if err != nil {
			t.Fatal(err)
		}
		in, err := s.Open(ctx, nil)
		if err != nil {
			return
		}
		for row, err := range in.Rows {
			if err == nil && len(row) != len(in.Columns) {
				t.Fatalf("%d cells for %d columns", len(row), len(in.Columns))
			}
		}
	})
}
