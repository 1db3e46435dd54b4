//go:build integration

package integration

import (
	"bytes"
	"context"
	enc "encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/sr"

	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/ingest/recording"
	"github.com/gscd-io/gscd/ingest/registry"
)

// startApicurio starts a schema registry of its own, in memory; it is skipped where it
// was not installed or there is no Java for it.
func startApicurio(t *testing.T) (url string, p *process) {
	t.Helper()
	why := ""
	if _, err := os.Stat(filepath.FromSlash("../build/integration/apicurio.installed")); err != nil {
		why = "the schema registry is not installed, so nothing was tried with it: integration/engines/install.sh says why"
	} else if trinoJava() == "" { // one for both
		why = "the schema registry was not tried: it needs Java 21, and there is none from 24 on (TRINO_JAVA_HOME)"
	}
	switch {
	case why != "" && os.Getenv("GSCD_ENGINES") == "all":
		t.Fatal(why)
	case why != "":
		t.Skip(why)
	}
	ports := freePorts(t, 2)
	_, port, _ := net.SplitHostPort(ports[0])
	_, management, _ := net.SplitHostPort(ports[1])
	p = startProcess(t, filepath.Join(trinoJava(), "bin", "java"), "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dquarkus.http.host=127.0.0.1", "-Dquarkus.http.port="+port, "-Dquarkus.management.host=127.0.0.1", "-Dquarkus.management.port="+management,
		"-jar", filepath.Join(component(t, "apicurio"), "quarkus-run.jar"))
	go io.Copy(io.Discard, p.stdout)
	url = "http://" + ports[0]
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
		resp, err := http.Get(url + "/apis/ccompat/v7/subjects")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return url, p
			}
		}
		select {
		case <-p.ended:
			t.Fatalf("the registry ended before it served:\n%s", p.errors)
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("the registry does not serve after two minutes: %v", err)
		}
	}
}

// registered are the recorded schemas as a registry has them: both of its ids by the
// id in the recording.
type registered struct{ content, global map[uint32]int64 }

// register has an independent client register the recorded schemas. Each is there under
// another name before, so that its two ids differ.
func register(t *testing.T, url string) (r registered) {
	t.Helper()
	client, err := sr.NewClient(sr.URLs(url + "/apis/ccompat/v7"))
	if err != nil {
		t.Fatal(err)
	}
	within, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	put := func(subject string, s sr.Schema) sr.SubjectSchema {
		done, err := client.CreateSchema(within, subject, s)
		if err != nil {
			t.Fatalf("register %s: %v", subject, err)
		}
		return done
	}
	var doc struct {
		Subjects map[string][]struct{ Version, ID int }
		IDs      map[int]struct{ Schema string }
	}
	if err := json.Unmarshal(readFile(t, sharedFile(t, "cdc/recorded/a1.schemas.json")), &doc); err != nil {
		t.Fatal(err)
	}
	for id, s := range doc.IDs {
		put(fmt.Sprint("copy-", id), sr.Schema{Schema: s.Schema})
	}
	r = registered{map[uint32]int64{}, map[uint32]int64{}}
	for subject, versions := range doc.Subjects {
		for _, v := range versions {
			done := put(subject, sr.Schema{Schema: doc.IDs[v.ID].Schema})
			r.content[uint32(v.ID)] = int64(done.ID)
			resp, err := http.Get(fmt.Sprintf("%s/apis/registry/v3/groups/default/artifacts/%s/versions/%d", url, subject, done.Version))
			if err != nil {
				t.Fatal(err)
			}
			var meta struct{ GlobalID, ContentID int64 }
			if err = json.NewDecoder(resp.Body).Decode(&meta); err != nil || meta.ContentID != int64(done.ID) || meta.GlobalID == meta.ContentID {
				t.Fatalf("the registry says of %s version %d: %+v, %v; the client: %d", subject, done.Version, meta, err, done.ID)
			}
			resp.Body.Close()
			r.global[uint32(v.ID)] = meta.GlobalID
		}
	}
	return r
}

// avroForm is a way to name schemas in records.
type avroForm struct {
	name, path string // the path of the registry's API
	avro       decode.Avro
	part       func(ids registered, id uint32, kind string, body []byte) ([]byte, []change.Header)
}

var avroForms = []avroForm{
	{"content ids of 4 bytes, Confluent's API", "/apis/ccompat/v7", decode.Avro{}, func(ids registered, id uint32, _ string, body []byte) ([]byte, []change.Header) {
		return append(enc.BigEndian.AppendUint32([]byte{0}, uint32(ids.content[id])), body...), nil
	}},
	{"global ids of 8 bytes, Apicurio's API", "/apis/registry/v3", decode.Avro{}, func(ids registered, id uint32, _ string, body []byte) ([]byte, []change.Header) {
		return append(enc.BigEndian.AppendUint64([]byte{0}, uint64(ids.global[id])), body...), nil
	}},
	{"global ids of 8 bytes, Apicurio's API before", "/apis/registry/v2", decode.Avro{Frame: decode.FrameApicurio}, func(ids registered, id uint32, _ string, body []byte) ([]byte, []change.Header) {
		return append(enc.BigEndian.AppendUint64([]byte{0}, uint64(ids.global[id])), body...), nil
	}},
	{"content ids of 8 bytes, Confluent's API", "/apis/ccompat/v7", decode.Avro{Frame: decode.FrameApicurio, ID: "content"}, func(ids registered, id uint32, _ string, body []byte) ([]byte, []change.Header) {
		return append(enc.BigEndian.AppendUint64([]byte{0}, uint64(ids.content[id])), body...), nil
	}},
	{"ids in headers", "/apis/registry/v3", decode.Avro{}, func(ids registered, id uint32, kind string, body []byte) ([]byte, []change.Header) {
		return body, []change.Header{{Key: "apicurio." + kind + ".globalId", Value: enc.BigEndian.AppendUint64(nil, uint64(ids.global[id]))}}
	}},
}

// reframed gives the recorded orders with the ids of this registry, in a form.
func (f avroForm) reframed(t *testing.T, ids registered) (out []*change.Record) {
	t.Helper()
	for _, line := range linesOf(t, sharedFile(t, "cdc/recorded/a1.shop.orders.avro.jsonl")) {
		var r struct {
			Offset, TS int64
			Key        []byte `json:"key_b64"`
			Value      []byte `json:"payload_b64"`
		}
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		rec := &change.Record{Topic: topicName, Offset: r.Offset, Timestamp: r.TS}
		for kind, from := range map[string][]byte{"key": r.Key, "value": r.Value} {
			if from == nil {
				continue
			}
			bytes, headers := f.part(ids, enc.BigEndian.Uint32(from[1:]), kind, from[5:])
			rec.Headers = append(rec.Headers, headers...)
			if kind == "key" {
				rec.Key = bytes
			} else {
				rec.Value = bytes
			}
		}
		out = append(out, rec)
	}
	return out
}

// TestSchemaRegistry reads the recorded Avro stream by a real registry, in each way that
// records name their schemas; the rows are what the server had.
func TestSchemaRegistry(t *testing.T) {
	t.Parallel()
	url, server := startApicurio(t)
	ids := register(t, url)
	unsigned, err := decode.ParseColumnType("bigint unsigned")
	if err != nil {
		t.Fatal(err)
	}
	client := func(path string) *registry.Client {
		c, err := registry.New(registry.Options{URLs: []string{url + path}, Timeout: time.Second, Patience: 2 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	read := func(t *testing.T, form avroForm, format string, meanwhile func()) {
		r := rigOn(t, mem.New(), mem.New(), nil, func(o *ingest.Options) {
			o.Calendar, o.Key, o.Format = calendar(t, "day", "UTC"), []string{"id"}, format
			o.Decode = decode.Options{KeyColumns: o.Key, Schemas: client(form.path), Avro: form.avro, Columns: map[string]decode.ColumnSpec{"id": unsigned, "big_u": unsigned}}
			o.Columns = map[string]schema.Type{"id": unsigned.Type, "big_u": unsigned.Type}
		})
		if meanwhile != nil {
			go meanwhile()
		}
		r.readOn(t, time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC), writeRecording(t, recording.Kcat, form.reframed(t, ids)))
		for _, d := range r.deadLetters() {
			t.Errorf("dead letter: offset %d: %s: %s", d.Offset, d.Reason, d.Detail)
		}
		rows := r.typedRows(-1)
		for _, row := range rows { // what two ALTERs did to rows that no record told of
			delete(row, "tags")
			if row["extra"].v.IsNull() {
				row["extra"] = typed{schema.StringValue("x"), schema.Of(schema.StringType)}
			}
		}
		recordedStream{key: []string{"id"}}.checkTable(t, "2022-07-18-later/orders.csv", rows)
	}
	for _, form := range avroForms {
		t.Run(form.name, func(t *testing.T) { read(t, form, decode.DebeziumAvro, nil) })
	}
	t.Run("auto", func(t *testing.T) { read(t, avroForms[1], decode.Auto, nil) })
	t.Run("a registry that stands still", func(t *testing.T) {
		signal := func(s syscall.Signal) {
			if err := server.cmd.Process.Signal(s); err != nil {
				t.Error(err)
			}
		}
		signal(syscall.SIGSTOP)
		read(t, avroForms[0], decode.DebeziumAvro, func() {
			time.Sleep(4 * time.Second)
			signal(syscall.SIGCONT)
		})
	})
	t.Run("references", func(t *testing.T) { testReferences(t, url, client) })
	t.Run("unknown", func(t *testing.T) {
		for _, path := range []string{"/apis/ccompat/v7", "/apis/registry/v3", "/apis/registry/v2"} {
			if _, err := client(path).Schema(decode.SchemaID{ID: 9999}); !errors.Is(err, decode.ErrNoSchema) {
				t.Errorf("%s: %v", path, err)
			}
		}
		var wait *decode.SchemaError
		for _, path := range []string{"/apis/ccompat", "/apis/registry/v3/api", ""} {
			if _, err := client(path).Schema(decode.SchemaID{ID: 1}); !errors.As(err, &wait) || wait.Retryable {
				t.Errorf("%s: %v", path, err)
			}
		}
	})
	t.Run("converter", func(t *testing.T) { testConverter(t, url, client) })
	t.Run("program", func(t *testing.T) { testAvroProgram(t, url, ids) })
}

// testReferences has a schema that refers to another one come with it.
func testReferences(t *testing.T, url string, client func(string) *registry.Client) {
	c, err := sr.NewClient(sr.URLs(url + "/apis/ccompat/v7"))
	if err != nil {
		t.Fatal(err)
	}
	value := `{"type":"record","name":"Value","namespace":"ref","fields":[{"name":"id","type":"long"}]}`
	if _, err := c.CreateSchema(ctx, "ref.Value", sr.Schema{Schema: value}); err != nil {
		t.Fatal(err)
	}
	done, err := c.CreateSchema(ctx, "ref-value", sr.Schema{
		Schema:     `{"type":"record","name":"Envelope","namespace":"ref","fields":[{"name":"after","type":["null","ref.Value"]}]}`,
		References: []sr.SchemaReference{{Name: "ref.Value", Subject: "ref.Value", Version: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/apis/ccompat/v7", "/apis/registry/v3", "/apis/registry/v2"} {
		texts, err := client(path).Schema(decode.SchemaID{ID: int64(done.ID)})
		if err != nil || !strings.Contains(texts[len(texts)-1], "Envelope") || !slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, `"Value"`) && strings.Contains(s, "long") }) {
			t.Errorf("%s: %q, %v", path, texts, err)
		}
	}
}

// testConverter reads what Apicurio's own converter writes, in each way that it can name
// schemas; the values are those of engines/AvroWrite.java.
func testConverter(t *testing.T, url string, client func(string) *registry.Client) {
	p := startProcess(t, "java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", filepath.Join(component(t, "avro-converter"), "*"), engineFile(t, "AvroWrite.java"), url)
	out, err := io.ReadAll(p.stdout)
	if err != nil {
		t.Fatal(err)
	}
	forms := map[string]struct {
		path string
		avro decode.Avro
	}{
		"default":          {"/apis/registry/v3", decode.Avro{}}, // global ids in headers
		"8 bytes":          {"/apis/registry/v3", decode.Avro{}},
		"8 bytes, content": {"/apis/ccompat/v7", decode.Avro{ID: "content"}},
		"confluent":        {"/apis/ccompat/v7", decode.Avro{}},
		"headers, content": {"/apis/ccompat/v7", decode.Avro{Frame: decode.FrameHeaders}},
	}
	lines := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
	equal(t, "records", len(lines), len(forms))
	want := []string{
		"id long 42", "tiny byte -8", "small short 300", "flag boolean true", "amount decimal(18,4) -12345678901234.5678", "single float 5.17", "dbl double 0.1",
		"day date 2022-07-15", "at timestamp_ntz 2022-07-15 00:00:00.123456", "connect_at timestamp_ntz 2022-07-15 00:00:00.123", "zoned timestamp 2022-07-15T00:00:00.5Z",
		"span long -3600000000", "state string paid", "bits long 2561", "raw binary 0x00ff", `list string ["x",null]`, `by_name string {"a":1}`, `by_number string [[5,"five"]]`,
		"place binary 0x0102", "number string 0.123", `gone string \N`,
	}
	for _, line := range lines {
		var rec struct {
			Way        string
			Key, Value []byte
			Headers    []change.Header
		}
		if err := json.Unmarshal(line, &rec); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, p.errors)
		}
		form, known := forms[rec.Way]
		if !known {
			t.Fatalf("an unknown way %q", rec.Way)
		}
		d, err := decode.New(decode.DebeziumAvro, decode.Options{Avro: form.avro, Schemas: client(form.path), Source: "shop-2.odd-name"})
		if err != nil {
			t.Fatal(err)
		}
		var c change.Change
		if err := d.Decode(&change.Record{Key: rec.Key, Value: rec.Value, Headers: rec.Headers}, &change.Arena{}, &c); err != nil {
			t.Errorf("%s: %v", rec.Way, err)
			continue
		}
		var got []string
		for i, column := range c.Columns.List {
			got = append(got, fmt.Sprint(column.Name, " ", column.Type, " ", typed{c.After[i], column.Type}))
		}
		sameList(t, rec.Way, got, want)
		if c.Op != change.Insert || c.Position != (change.Position{File: 3, Pos: 99, Row: 1}) || c.Server.Name != "a-1" || c.EventTime != 1657843200000000 || c.Key[0] != schema.IntValue(42) {
			t.Errorf("%s: %+v", rec.Way, c)
		}
	}
}

// testAvroProgram has the program read a recording by the settings of a file.
func testAvroProgram(t *testing.T, url string, ids registered) {
	dir := t.TempDir()
	file := filepath.Join(dir, "gscd.yaml")
	text := fmt.Sprintf("calendar: {timezone: UTC}\nschema_registry: {url: %q}\ntables:\n  - {name: orders, location: %q, format: debezium-avro, key: [id], columns: {id: bigint unsigned}, avro: {frame: apicurio}}\n",
		url+"/apis/registry/v3", filepath.Join(dir, "orders"))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	path := writeRecording(t, recording.Kcat, avroForms[1].reframed(t, ids))
	gscd(t, "--config", file, "ingest", "--input", path)
	out := gscd(t, "--config", file, "query", "--table", "orders", "--columns", "id", "--format", "csv")
	want, err := csv.NewReader(bytes.NewReader(readFile(t, sharedFile(t, "cdc/recorded/expected/2022-07-18-later/orders.csv")))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "lines", bytes.Count(out, []byte("\n")), len(want))
	if !bytes.Contains(out, []byte("9223372036854775808")) {
		t.Errorf("the largest key is not there: %s", out)
	}
}
