package action

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/alloctest"
)

func ptr[T any](v T) *T { return &v }

func TestDecodeReadsEveryAction(t *testing.T) {
	c, err := Decode([]byte(strings.Join([]string{
		`{"commitInfo":{"timestamp":17,"operation":"WRITE","operationParameters":{"mode":"Append","nested":[1,{"a":"}"}]},"txnId":"t-1"}}`,
		`{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["deletionVectors"],"writerFeatures":["deletionVectors","appendOnly"],"unknown":1}}`,
		`{"metaData":{"id":"m","name":null,"description":"d","format":{"provider":"parquet","options":{"a":"b"}},"schemaString":"{\"type\":\"struct\",\"fields\":[]}","partitionColumns":["p"],"configuration":{"delta.appendOnly":"false"},"createdTime":99}}`,
		`{"txn":{"appId":"a","version":-3,"lastUpdated":5}}`,
		`{"txn":{"appId":"b","version":9223372036854775807}}`,
		`{"domainMetadata":{"domain":"delta.rowTracking","configuration":"{\"rowIdHighWaterMark\":1}","removed":true}}`,
		` { "add" : { "path" : "p=%252F/a.parquet", "partitionValues" : { "p" : "/", "q" : null }, "size" : 10, "modificationTime":-1, "dataChange":true, "stats":"{\"numRecords\":3,\"minValues\":{\"s\":\"\\u00e9\\\"\"}}", "tags":{"k":"v"}, "deletionVector":{"storageType":"u","pathOrInlineDv":"ab^-aqEH.-t@S}K{vb[*k^","offset":4,"sizeInBytes":40,"cardinality":6}, "baseRowId":7,"defaultRowCommitVersion":8,"clusteringProvider":"liquid","later":{"x":[]}}} `,
		`{"add":{"path":"b","partitionValues":{},"size":1,"modificationTime":2,"dataChange":false,"stats":null,"deletionVector":null}}`,
		``,
		`{"remove":{"path":"c","deletionTimestamp":3,"dataChange":false,"extendedFileMetadata":true,"partitionValues":{"p":"1"},"size":4}}`,
		`{"remove":{"path":"old","deletionTimestamp":3}}`,
		`{"cdc":{"path":"_change_data/x","partitionValues":{},"size":6,"dataChange":false,"tags":{}}}`,
		`{"someday":{"add":{"path":"no"}}}`,
	}, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	want := &Commit{
		Info:     c.Info,
		Protocol: &Protocol{3, 7, []string{"deletionVectors"}, []string{"deletionVectors", "appendOnly"}},
		Metadata: &Metadata{
			ID: "m", Description: "d", Format: Format{"parquet", map[string]string{"a": "b"}},
			SchemaString: `{"type":"struct","fields":[]}`, PartitionColumns: []string{"p"},
			Configuration: map[string]string{"delta.appendOnly": "false"}, CreatedTime: ptr(int64(99)),
		},
		Txns:    []Txn{{"a", -3, ptr(int64(5))}, {"b", 9223372036854775807, nil}},
		Domains: []DomainMetadata{{"delta.rowTracking", `{"rowIdHighWaterMark":1}`, true}},
		Adds: []*Add{
			{
				Path: "p=%252F/a.parquet", PartitionValues: map[string]*string{"p": ptr("/"), "q": nil}, Size: 10, ModificationTime: -1,
				DataChange: true, Stats: `{"numRecords":3,"minValues":{"s":"\u00e9\""}}`, Tags: map[string]string{"k": "v"},
				DeletionVector: &DeletionVector{"u", "ab^-aqEH.-t@S}K{vb[*k^", ptr(int32(4)), 40, 6},
				BaseRowID:      ptr(int64(7)), DefaultRowCommitVersion: ptr(int64(8)), ClusteringProvider: ptr("liquid"),
			},
			{Path: "b", Size: 1, ModificationTime: 2},
		},
		Removes: []*Remove{
			{Path: "c", DeletionTimestamp: 3, ExtendedFileMetadata: true, PartitionValues: map[string]*string{"p": ptr("1")}, Size: ptr(int64(4))},
			{Path: "old", DeletionTimestamp: 3, DataChange: true},
		},
		CDC: []*CDC{{Path: "_change_data/x", Size: 6}},
	}
	if !reflect.DeepEqual(c, want) {
		t.Errorf("got  %s\nwant %s", c.Append(nil), want.Append(nil))
	}
	if id := c.Adds[0].DeletionVector.UniqueID(); id != "uab^-aqEH.-t@S}K{vb[*k^@4" {
		t.Errorf("unique id %q", id)
	}
	if info := ParseInfo(c.Info); !reflect.DeepEqual(info, Info{
		Timestamp: 17, Operation: "WRITE", TxnID: "t-1", Mode: "Append", Parameters: json.RawMessage(`{"mode":"Append","nested":[1,{"a":"}"}]}`),
	}) {
		t.Errorf("info %+v", info)
	}
}

func TestTrinoNamesItself(t *testing.T) {
	for info, want := range map[string]string{
		`{"clusterId":"trino-476-n1","operation":"MERGE"}`: "trino-476-n1",
		`{"clusterId":"0930-1200-abc"}`:                    "",
		`{"engineInfo":"gscd/1","clusterId":"trino-476"}`:  "gscd/1",
		`{"engineInfo":7,"clusterId":["trino-"]}`:          "",
	} {
		if got := ParseInfo(json.RawMessage(info)).EngineInfo; got != want {
			t.Errorf("%s: %q, want %q", info, got, want)
		}
	}
}

func TestDecodeRefusesWhatWasCutOff(t *testing.T) {
	c := &Commit{
		Info: json.RawMessage(`{"operation":"WRITE","gscd":{"p":[{"o":1},{"o":2}]}}`),
		Txns: []Txn{{"gscd", 4, ptr(int64(5))}},
		Adds: []*Add{{Path: "a", Stats: `{"numRecords":1}`, PartitionValues: map[string]*string{"p": nil}}},
	}
	whole := c.Append(nil)
	if _, err := Decode(whole); err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		_, err := Decode(whole[:n])
		// A cut between two lines can't be seen, nor one that only lost the line end.
		atLine := n > 0 && (whole[n-1] == '\n' || whole[n] == '\n')
		if atLine != (err == nil) {
			t.Errorf("cut at %d %q: %v", n, whole[:n], err)
		}
		if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Errorf("cut at %d: %v is no ErrCorrupt", n, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for name, line := range map[string]string{
		"no object":          `17`,
		"zero bytes":         "{\"add\":{\"path\":\"a\"}}\n\x00\x00\x00",
		"two values":         `{"add":{"path":"a"}} {}`,
		"no path":            `{"add":{"size":1}}`,
		"size too large":     `{"add":{"path":"a","size":9223372036854775808}}`,
		"size is a fraction": `{"add":{"path":"a","size":1.5}}`,
		"size is a text":     `{"add":{"path":"a","size":"1"}}`,
		"bad escape":         `{"add":{"path":"\x"}}`,
		"bad unicode":        `{"add":{"path":"\u12g4"}}`,
		"control":            "{\"add\":{\"path\":\"a\tb\"}}",
		"list for a map":     `{"add":{"path":"a","partitionValues":[]}}`,
		"mismatched":         `{"other":{"a":[}]}`,
		"deep":               `{"other":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + `}`,
		"blank":              " \n\n",
		"empty":              "",
	} {
		if _, err := Decode([]byte(line)); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// drawCommit makes any commit that can be written.
func drawCommit(t *rapid.T) *Commit {
	text := rapid.StringN(1, 12, -1)
	values := rapid.MapOfN(text, rapid.Ptr(text, true), 0, 3)
	tags := rapid.MapOfN(text, text, 0, 2)
	long := rapid.Ptr(rapid.Int64(), true)
	vector := rapid.Custom(func(t *rapid.T) *DeletionVector {
		if rapid.Bool().Draw(t, "none") {
			return nil
		}
		return &DeletionVector{
			rapid.SampledFrom([]string{"u", "i", "p"}).Draw(t, "storage"), text.Draw(t, "dv"),
			rapid.Ptr(rapid.Int32(), true).Draw(t, "offset"), rapid.Int32().Draw(t, "bytes"), rapid.Int64().Draw(t, "cardinality"),
		}
	})
	nonEmpty := func(m map[string]*string) map[string]*string {
		if len(m) == 0 {
			return nil
		}
		return m
	}
	nonEmptyTags := func(m map[string]string) map[string]string {
		if len(m) == 0 {
			return nil
		}
		return m
	}
	c := &Commit{Info: json.RawMessage(`{"operation":"X"}`)}
	for range rapid.IntRange(0, 3).Draw(t, "adds") {
		c.Adds = append(c.Adds, &Add{
			Path: text.Draw(t, "path"), PartitionValues: nonEmpty(values.Draw(t, "values")), Size: rapid.Int64().Draw(t, "size"),
			ModificationTime: rapid.Int64().Draw(t, "time"), DataChange: rapid.Bool().Draw(t, "change"), Stats: rapid.String().Draw(t, "stats"),
			Tags: nonEmptyTags(tags.Draw(t, "tags")), DeletionVector: vector.Draw(t, "vector"), BaseRowID: long.Draw(t, "row"),
			DefaultRowCommitVersion: long.Draw(t, "version"), ClusteringProvider: rapid.Ptr(text, true).Draw(t, "provider"),
		})
	}
	for range rapid.IntRange(0, 3).Draw(t, "removes") {
		c.Removes = append(c.Removes, &Remove{
			Path: text.Draw(t, "path"), DeletionTimestamp: rapid.Int64().Draw(t, "time"), DataChange: rapid.Bool().Draw(t, "change"),
			ExtendedFileMetadata: rapid.Bool().Draw(t, "extended"), PartitionValues: nonEmpty(values.Draw(t, "values")), Size: long.Draw(t, "size"),
			Stats: rapid.String().Draw(t, "stats"), Tags: nonEmptyTags(tags.Draw(t, "tags")), DeletionVector: vector.Draw(t, "vector"),
		})
	}
	for range rapid.IntRange(0, 2).Draw(t, "txns") {
		c.Txns = append(c.Txns, Txn{text.Draw(t, "app"), rapid.Int64().Draw(t, "version"), long.Draw(t, "updated")})
	}
	if rapid.Bool().Draw(t, "metadata") {
		c.Metadata = &Metadata{
			ID: text.Draw(t, "id"), Name: rapid.String().Draw(t, "name"), Format: Format{Provider: "parquet"},
			SchemaString: rapid.String().Draw(t, "schema"), PartitionColumns: append([]string{}, rapid.SliceOfN(text, 0, 2).Draw(t, "columns")...),
			Configuration: nonEmptyTags(tags.Draw(t, "configuration")), CreatedTime: long.Draw(t, "created"),
		}
	}
	return c
}

func TestEncodedCommitsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCommit(t)
		data := c.Append(nil)
		for line := range bytes.Lines(data) {
			if !json.Valid(line) {
				t.Fatalf("no JSON: %s", line)
			}
		}
		back, err := Decode(data)
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if !reflect.DeepEqual(c, back) {
			t.Fatalf("wrote\n%sread\n%s", data, back.Append(nil))
		}
	})
}

// FuzzDecode: whatever is no JSON or of another shape is refused, the rest is
// read as encoding/json reads it; nothing panics.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"add":{"path":"a","partitionValues":{"p":null,"q":"\ud83d\ude00"},"size":1,"modificationTime":2,"dataChange":true,"stats":"{\"numRecords\":3}"}}`,
		`{"remove":{"path":"a\\\/b","deletionTimestamp":3,"extendedFileMetadata":true,"size":1,"deletionVector":{"storageType":"u","pathOrInlineDv":"x","offset":1,"sizeInBytes":3,"cardinality":2}}}`,
		`{"txn":{"appId":"\ud800","version":-1}}` + "\n" + `{"commitInfo":{}}`,
		`{"metaData":{"id":"x","format":{"provider":"parquet"},"schemaString":"","partitionColumns":[],"configuration":{"a":"b"}}}`,
		`{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}`,
		`{"x":[[{}],1e5,null]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		alloctest.Within(t, len(data), 64, 1<<20, func() { _, _ = Decode(data) })
		c, err := Decode(data)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatalf("%v is no ErrCorrupt", err)
			}
			return
		}
		back, err := Decode(c.Append(nil))
		if err != nil && len(c.Adds)+len(c.Removes)+len(c.Txns)+len(c.Domains)+len(c.CDC) > 0 {
			t.Fatalf("written again: %v", err)
		}
		if err == nil && (len(back.Adds) != len(c.Adds) || len(back.Removes) != len(c.Removes)) {
			t.Fatalf("%d adds became %d", len(c.Adds), len(back.Adds))
		}
		if !bytes.ContainsRune(data, '\n') && json.Valid(data) {
			var oracle struct {
				Add *struct {
					Path string
					Size int64
				}
			}
			// encoding/json folds the case of names and mends bad UTF-8; compare where neither matters.
			if json.Unmarshal(data, &oracle) == nil && oracle.Add != nil && len(c.Adds) == 1 && bytes.Count(data, []byte(`"add"`)) == 1 &&
				strings.Count(strings.ToLower(string(data)), "path") == 1 && !strings.ContainsRune(oracle.Add.Path, 0xFFFD) && bytes.Contains(data, []byte(`"path"`)) {
				if c.Adds[0].Path != oracle.Add.Path {
					t.Fatalf("path %q, encoding/json says %q", c.Adds[0].Path, oracle.Add.Path)
				}
			}
		}
	})
}

func TestPaths(t *testing.T) {
	for _, c := range []struct {
		path, key string
		err       error
	}{
		{path: "part-0.parquet", key: "part-0.parquet"},
		{path: "x=A%252FA/f.parquet", key: "x=A%2FA/f.parquet"},
		{path: "a%20b%2Bc%25d/f%20%C3%A9.parquet", key: "a b+c%d/f é.parquet"},
		{path: "a+b", key: "a+b"},
		{path: "ts=2021-09-08 11:11:11/f", key: "ts=2021-09-08 11:11:11/f"},
		{path: "./a//b", key: "a/b"},
		{path: "..a/b", key: "..a/b"},
		{path: "/data/t/f", err: ErrAbsolutePath},
		{path: "file:/data/t/f", err: ErrAbsolutePath},
		{path: "s3a://b/f", err: ErrAbsolutePath},
		{path: "%2Fetc/passwd", err: ErrAbsolutePath},
		{path: "../other/f", err: ErrPathEscapes},
		{path: "a/%2e%2e/%2E./f", err: ErrPathEscapes},
		{path: "a%2", err: ErrBadPath},
		{path: "a%zz", err: ErrBadPath},
		{path: "a%00", err: ErrBadPath},
		{path: ".", err: ErrBadPath},
		{path: "", err: ErrBadPath},
	} {
		key, err := Key(c.path)
		if key != c.key || !errors.Is(err, c.err) {
			t.Errorf("%q: %q, %v", c.path, key, err)
		}
	}
}

func TestEncodedPathsDecodeToTheirKey(t *testing.T) {
	if got := EncodePath("p=a%2Fb/ä:1 #?"); got != "p=a%252Fb/%C3%A4:1%20%23%3F" {
		t.Error(got)
	}
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.StringMatching(`[^/\x00]+`), 1, 3).Draw(t, "parts")
		for _, p := range parts {
			if p == "." || p == ".." {
				t.Skip()
			}
		}
		key := strings.Join(parts, "/")
		back, err := Key(EncodePath(key))
		if err != nil || back != key {
			t.Fatalf("%q became %q: %v", key, back, err)
		}
	})
}

// commitFile makes a commit like gscd's: a commitInfo of about infoBytes and
// files re-added under a new deletion vector.
func commitFile(version, files, infoBytes int) []byte {
	c := &Commit{Info: json.RawMessage(`{"operation":"UPSERT","gscd":"` + strings.Repeat("x", infoBytes) + `"}`)}
	dv := func(v int) *DeletionVector {
		return &DeletionVector{"u", fmt.Sprintf("^-aqEH.-t@S}K{v%05d", v), ptr(int32(1)), 34, 2}
	}
	for i := range files {
		path := fmt.Sprintf("part-%05d-00000000-0000-4000-8000-000000000000.parquet", i)
		c.Removes = append(c.Removes, &Remove{Path: path, DeletionTimestamp: 1700000000000, DataChange: true, ExtendedFileMetadata: true, Size: ptr(int64(64 << 20)), DeletionVector: dv(version)})
		c.Adds = append(c.Adds, &Add{
			Path: path, Size: 64 << 20, ModificationTime: 1700000000000, DataChange: true, DeletionVector: dv(version + 1),
			Stats: `{"numRecords":100000,"minValues":{"id":1,"name":"aaaaaaaaaaaaaaaa","at":"2024-01-01T00:00:00.000Z"},"maxValues":{"id":900000,"name":"zzzzzzzzzzzzzzzz","at":"2024-01-02T00:00:00.000Z"},"nullCount":{"id":0,"name":0,"at":0},"tightBounds":false}`,
		})
	}
	return c.Append(nil)
}

func BenchmarkDecode(b *testing.B) {
	data := commitFile(7, 25, 10_000)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}
