package parquet_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/parquet"
	pq "github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"
)

// The rows of a checkpoint. The tags mean the same to parquet-go, which reads
// the files as an oracle.
type (
	action struct {
		Txn      *txn      `parquet:"txn"`
		Add      *add      `parquet:"add"`
		Remove   *remove   `parquet:"remove"`
		MetaData *metaData `parquet:"metaData"`
		Protocol *protocol `parquet:"protocol"`
	}
	txn struct {
		AppID       *string `parquet:"appId"`
		Version     *int64  `parquet:"version"`
		LastUpdated *int64  `parquet:"lastUpdated"`
	}
	add struct {
		Path             *string            `parquet:"path"`
		PartitionValues  map[string]*string `parquet:"partitionValues"`
		Size             *int64             `parquet:"size"`
		ModificationTime *int64             `parquet:"modificationTime"`
		DataChange       *bool              `parquet:"dataChange"`
		DeletionVector   *deletionVector    `parquet:"deletionVector"`
		Stats            *string            `parquet:"stats"`
	}
	remove struct {
		Path              *string         `parquet:"path"`
		DeletionTimestamp *int64          `parquet:"deletionTimestamp"`
		DataChange        *bool           `parquet:"dataChange"`
		DeletionVector    *deletionVector `parquet:"deletionVector"`
	}
	deletionVector struct {
		StorageType    *string `parquet:"storageType"`
		PathOrInlineDv *string `parquet:"pathOrInlineDv"`
		Offset         *int32  `parquet:"offset"`
		SizeInBytes    *int32  `parquet:"sizeInBytes"`
		Cardinality    *int64  `parquet:"cardinality"`
	}
	metaData struct {
		ID               *string            `parquet:"id"`
		SchemaString     *string            `parquet:"schemaString"`
		PartitionColumns []string           `parquet:"partitionColumns"`
		Configuration    map[string]*string `parquet:"configuration"`
	}
	protocol struct {
		MinReaderVersion *int32   `parquet:"minReaderVersion"`
		MinWriterVersion *int32   `parquet:"minWriterVersion"`
		ReaderFeatures   []string `parquet:"readerFeatures"`
	}
)

type fatal interface {
	Helper()
	Fatal(args ...any)
}

// flat reads every leaf of a checkpoint with parquet-go: path -> texts of the
// values that are not NULL, in order.
func flat(t fatal, data []byte) map[string][]string {
	t.Helper()
	f, err := pq.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]string{}
	paths := f.Schema().Columns()
	for _, g := range f.RowGroups() {
		for i, c := range g.ColumnChunks() {
			pages := c.Pages()
			for {
				p, err := pages.ReadPage()
				if err != nil {
					break
				}
				values := make([]pq.Value, p.NumValues())
				n, _ := p.Values().ReadValues(values)
				key := strings.Join(paths[i], ".")
				for _, v := range values[:n] {
					if !v.IsNull() {
						all[key] = append(all[key], v.String())
					}
				}
			}
			pages.Close()
		}
	}
	return all
}

// flatten does the same to decoded rows.
func flatten(all map[string][]string, path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			flatten(all, path, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("parquet"), ",")
			flatten(all, strings.TrimPrefix(path+"."+name, "."), v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			flatten(all, path+".list.element", v.Index(i))
		}
	case reflect.Map: // entries are compared by count only: the order is lost
		for range v.Len() {
			all[path+".key_value.key"] = append(all[path+".key_value.key"], "")
		}
	default:
		all[path] = append(all[path], fmt.Sprint(v.Interface()))
	}
}

func TestDecodesCheckpointsOfOtherWriters(t *testing.T) {
	root, files := sharedFiles(t, ".parquet")
	n, adds := 0, 0
	for _, file := range files {
		name := filepath.Base(file)
		if !strings.Contains(name, "checkpoint") && !strings.Contains(file, "_sidecars") {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		rel, _ := filepath.Rel(root, file)
		rows, err := parquet.DecodeStructs[action](data)
		if err != nil {
			if len(data) == 0 || strings.Contains(rel, "corrupt") {
				continue
			}
			t.Errorf("%s: %v", rel, err)
			continue
		}
		want := flat(t, data)
		got := map[string][]string{}
		for _, r := range rows {
			flatten(got, "", reflect.ValueOf(r))
			if r.Add != nil {
				adds++
			}
		}
		for path, values := range got {
			// Old writers name the parts of lists and maps otherwise.
			w := want[path]
			for _, alias := range [][2]string{{".list.element", ".list.item"}, {".list.element", ".bag.array"}, {".list.element", ".array"}, {".list.element", ".list.array"}, {".key_value.", ".map."}, {".key_value.", ".entries."}} {
				if w == nil {
					w = want[strings.Replace(path, alias[0], alias[1], 1)]
				}
			}
			if len(w) != len(values) {
				t.Errorf("%s: %s has %d values, want %d", rel, path, len(values), len(w))
				continue
			}
			for i := range values {
				if !strings.HasSuffix(path, ".key") && values[i] != w[i] {
					t.Errorf("%s: %s[%d] = %.60q, want %.60q", rel, path, i, values[i], w[i])
					break
				}
			}
		}
		for path, values := range want {
			known := got[path] != nil || strings.Contains(path, "key_value") || strings.Contains(path, "list") || strings.Contains(path, "array") || strings.Contains(path, "map")
			if !known && strings.Count(path, ".") == 1 && hasField(path) {
				t.Errorf("%s: %d values of %s were not read", rel, len(values), path)
			}
		}
		n++
	}
	if n < 60 || adds < 800 {
		t.Errorf("read %d checkpoints with %d adds: too few, is the test data whole?", n, adds)
	}
}

func hasField(path string) bool {
	group, field, _ := strings.Cut(path, ".")
	for i := range reflect.TypeFor[action]().NumField() {
		f := reflect.TypeFor[action]().Field(i)
		if f.Tag.Get("parquet") != group {
			continue
		}
		for j := range f.Type.Elem().NumField() {
			if f.Type.Elem().Field(j).Tag.Get("parquet") == field {
				return true
			}
		}
	}
	return false
}

type everything struct {
	S     string             `parquet:"s"`
	O     string             `parquet:"o,optional"`
	P     *string            `parquet:"p"`
	I     int64              `parquet:"i"`
	I32   *int32             `parquet:"i32"`
	B     bool               `parquet:"b"`
	F     *float64           `parquet:"f"`
	Raw   []byte             `parquet:"raw"`
	M     map[string]string  `parquet:"m"`
	MP    map[string]*string `parquet:"mp"`
	L     []string           `parquet:"l"`
	In    inner              `parquet:"in"`
	InP   *inner             `parquet:"inp"`
	Deep  []deep             `parquet:"deep"`
	Skip  int
	Other string `parquet:"-"`
}

type inner struct {
	A *int64  `parquet:"a"`
	L []int64 `parquet:"l"`
}

type deep struct {
	Name string              `parquet:"name"`
	LL   [][]string          `parquet:"ll"`
	M    map[string][]string `parquet:"m"`
	P    *inner              `parquet:"p"`
}

func ptr[T any](v T) *T { return &v }

func TestStructsRoundTrip(t *testing.T) {
	rows := []everything{
		{},
		{S: "a", O: "b", P: ptr("c"), I: -1, I32: ptr(int32(7)), B: true, F: ptr(1.5), Raw: []byte{0, 0xff},
			M: map[string]string{"k": "v", "j": ""}, MP: map[string]*string{"n": nil, "v": ptr("x")}, L: []string{"x", "", "y"},
			In: inner{A: ptr(int64(5))}, InP: &inner{L: []int64{1, 2, 3}},
			Deep: []deep{
				{Name: "d1", LL: [][]string{{"a", "b"}, nil, {}, {"c"}}, M: map[string][]string{"z": {"1"}, "y": nil, "x": {}}},
				{}, {P: &inner{A: ptr(int64(9)), L: []int64{}}},
			}},
		{M: map[string]string{}, MP: map[string]*string{}, L: []string{}, Raw: []byte{}, InP: &inner{}, Deep: []deep{}},
		{P: ptr(""), I32: ptr(int32(0)), F: ptr(0.0)},
	}
	for _, codec := range []parquet.Codec{parquet.Zstd, parquet.Snappy, parquet.Uncompressed} {
		for _, group := range []int{0, 1, 3} {
			data, err := parquet.EncodeStructs(rows, parquet.StructOptions{Codec: codec, RowGroupRows: group})
			if err != nil {
				t.Fatal(err)
			}
			got, err := parquet.DecodeStructs[everything](data)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, rows) {
				t.Errorf("codec %d, %d rows a group:\n got %s\nwant %s", codec, group, dump(got), dump(rows))
			}
		}
	}
	if got, err := parquet.DecodeStructs[everything](encode(t, []everything{})); err != nil || len(got) != 0 {
		t.Errorf("no rows: %v, %v", got, err)
	}
}

func dump(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

func encode[T any](t testing.TB, rows []T) []byte {
	t.Helper()
	data, err := parquet.EncodeStructs(rows, parquet.StructOptions{Codec: parquet.Snappy})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestStructsAreShapedAsSparkDoes(t *testing.T) {
	data := encode(t, []action{{Txn: &txn{AppID: ptr("a")}}})
	f, err := pq.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	want := `message spark_schema {
	optional group txn {
		optional binary appId (STRING);
		optional int64 version;
		optional int64 lastUpdated;
	}
	optional group add {
		optional binary path (STRING);
		optional group partitionValues (MAP) {
			repeated group key_value {
				required binary key (STRING);
				optional binary value (STRING);
			}
		}
		optional int64 size;
		optional int64 modificationTime;
		optional boolean dataChange;
		optional group deletionVector {
			optional binary storageType (STRING);
			optional binary pathOrInlineDv (STRING);
			optional int32 offset;
			optional int32 sizeInBytes;
			optional int64 cardinality;
		}
		optional binary stats (STRING);
	}
	optional group remove {
		optional binary path (STRING);
		optional int64 deletionTimestamp;
		optional boolean dataChange;
		optional group deletionVector {
			optional binary storageType (STRING);
			optional binary pathOrInlineDv (STRING);
			optional int32 offset;
			optional int32 sizeInBytes;
			optional int64 cardinality;
		}
	}
	optional group metaData {
		optional binary id (STRING);
		optional binary schemaString (STRING);
		optional group partitionColumns (LIST) {
			repeated group list {
				optional binary element (STRING);
			}
		}
		optional group configuration (MAP) {
			repeated group key_value {
				required binary key (STRING);
				optional binary value (STRING);
			}
		}
	}
	optional group protocol {
		optional int32 minReaderVersion;
		optional int32 minWriterVersion;
		optional group readerFeatures (LIST) {
			repeated group list {
				optional binary element (STRING);
			}
		}
	}
}`
	// parquet-go prints plain integers as annotated ones.
	got := strings.NewReplacer(" (INT(64,true))", "", " (INT(32,true))", "").Replace(f.Schema().String())
	if got != want {
		t.Errorf("schema:\n%s", got)
	}
}

// What we write, parquet-go reads to the same.
func TestStructsAgainstParquetGo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.OneOf(rapid.Just(""), rapid.StringN(0, 3, 6), rapid.SampledFrom([]string{"x", "y"}))
		rows := []action{}
		for range rapid.IntRange(0, 60).Draw(t, "rows") {
			a := action{}
			if rapid.Bool().Draw(t, "add") {
				a.Add = &add{Path: ptr(text.Draw(t, "path")), Size: ptr(rapid.Int64().Draw(t, "size"))}
				for range rapid.IntRange(0, 3).Draw(t, "parts") {
					if a.Add.PartitionValues == nil {
						a.Add.PartitionValues = map[string]*string{}
					}
					a.Add.PartitionValues[text.Draw(t, "key")] = ptr(text.Draw(t, "value"))
				}
			}
			if rapid.Bool().Draw(t, "protocol") {
				a.Protocol = &protocol{MinReaderVersion: ptr(rapid.Int32().Draw(t, "reader"))}
				for range rapid.IntRange(0, 4).Draw(t, "features") {
					a.Protocol.ReaderFeatures = append(a.Protocol.ReaderFeatures, text.Draw(t, "feature"))
				}
			}
			rows = append(rows, a)
		}
		data, err := parquet.EncodeStructs(rows, parquet.StructOptions{RowGroupRows: rapid.IntRange(1, 50).Draw(t, "group")})
		if err != nil {
			t.Fatal(err)
		}
		got, err := parquet.DecodeStructs[action](data)
		if err != nil {
			t.Fatal(err)
		}
		if dump(got) != dump(rows) {
			t.Fatalf("read back:\n%s\nwant\n%s", dump(got), dump(rows))
		}
		oracle, want := flat(t, data), map[string][]string{}
		for _, r := range rows {
			flatten(want, "", reflect.ValueOf(r))
		}
		for path, values := range want {
			got := oracle[path]
			if strings.HasSuffix(path, ".key") {
				got = make([]string, len(got)) // entries are only counted
			}
			if strings.Join(got, "|") != strings.Join(values, "|") {
				t.Fatalf("parquet-go reads %s as %q, want %q", path, got, values)
			}
		}
	})
}

func TestDecodeStructsRefuses(t *testing.T) {
	type other struct {
		Add *struct {
			Path int64 `parquet:"path"`
		} `parquet:"add"`
	}
	data := encode(t, []action{{Add: &add{Path: ptr("p")}}})
	if _, err := parquet.DecodeStructs[other](data); !errors.Is(err, parquet.ErrColumnType) || !strings.Contains(err.Error(), `"path"`) {
		t.Errorf("wrong type: %v", err)
	}
	for _, data := range [][]byte{nil, []byte("PAR1"), []byte("PAR1PAR1PAR1PAR1"), data[:len(data)-1], data[4:]} {
		if _, err := parquet.DecodeStructs[action](data); !errors.Is(err, parquet.ErrCorrupt) {
			t.Errorf("%d bytes: %v", len(data), err)
		}
	}
	type bad struct {
		C chan int `parquet:"c"`
	}
	if _, err := parquet.EncodeStructs([]bad{{}}, parquet.StructOptions{}); err == nil {
		t.Error("a channel was encoded")
	}
}

func TestJSONOfAGroup(t *testing.T) {
	_, files := sharedFiles(t, ".checkpoint.parquet")
	type row struct {
		Add *struct {
			Stats       *string      `parquet:"stats"`
			StatsParsed parquet.JSON `parquet:"stats_parsed"`
		} `parquet:"add"`
	}
	compared := 0
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := parquet.DecodeStructs[row](data)
		if err != nil {
			continue
		}
		for _, r := range rows {
			if r.Add == nil || r.Add.StatsParsed == "" || r.Add.Stats == nil {
				continue
			}
			var parsed, stats struct {
				NumRecords *int64          `json:"numRecords"`
				NullCount  json.RawMessage `json:"nullCount"`
			}
			if err := json.Unmarshal([]byte(r.Add.StatsParsed), &parsed); err != nil {
				t.Fatalf("%s: %s: %v", file, r.Add.StatsParsed, err)
			}
			if err := json.Unmarshal([]byte(*r.Add.Stats), &stats); err != nil {
				continue
			}
			if !reflect.DeepEqual(parsed.NumRecords, stats.NumRecords) {
				t.Errorf("%s: parsed %s, text %s", file, r.Add.StatsParsed, *r.Add.Stats)
			}
			compared++
		}
	}
	if compared == 0 {
		t.Error("no checkpoint with both forms of statistics was found")
	}
}
