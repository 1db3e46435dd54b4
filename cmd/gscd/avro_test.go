package main

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

const avroSchema = `{"type":"record","name":"Envelope","fields":[
	{"name":"before","type":["null",{"type":"record","name":"Value","fields":[{"name":"id","type":"long"},{"name":"city","type":"string"}]}]},
	{"name":"after","type":["null","Value"]},
	{"name":"source","type":{"type":"record","name":"Source","fields":[{"name":"ts_ms","type":"long"},{"name":"file","type":"string"},{"name":"pos","type":"long"}]}},
	{"name":"op","type":"string"}]}`

// avroLine is a line of a recording: a change under a schema, in Confluent's frame.
func avroLine(offset int, schema uint32, op string, id int64) string {
	text := func(b []byte, s string) []byte { return append(binary.AppendVarint(b, int64(len(s))), s...) }
	b := append(binary.BigEndian.AppendUint32([]byte{0}, schema), 0, 2)
	b = text(binary.AppendVarint(b, id), "Zürich")
	b = binary.AppendVarint(text(binary.AppendVarint(b, 1657940400000), "bin.000001"), 1000+id)
	return fmt.Sprintf(`{"topic":"users","partition":0,"offset":%d,"ts":1657940400000,"payload_b64":%q}`+"\n", offset, base64.StdEncoding.EncodeToString(text(b, op)))
}

// The program reads Avro by the registry of its configuration: it logs in, waits while
// the registry fails, prints what a dead letter says, and stops where the login is refused.
func TestAvro(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		switch {
		case user != "gscd" || password != "s3cret":
			w.WriteHeader(http.StatusUnauthorized)
		case asked.Add(1) < 3:
			w.WriteHeader(http.StatusServiceUnavailable)
		case r.URL.Path == "/schemas/ids/1":
			_ = json.NewEncoder(w).Encode(map[string]string{"schema": avroSchema})
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"error_code":40403,"message":"Schema not found"}`)
		}
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	input := write("users.jsonl", avroLine(0, 1, "c", 1)+avroLine(1, 1, "?", 2)+avroLine(2, 7, "c", 3)+avroLine(3, 1, "c", 4))
	file := write("gscd.yaml", fmt.Sprintf("calendar: {timezone: UTC}\nschema_registry: {url: %q, username: gscd}\ntables: [{name: users, location: %q, key: [id]}]\n", server.URL, filepath.Join(dir, "users")))
	run := func(password string, args ...string) (string, error) {
		a, stdout, stderr := newTestApp("GSCD_SCHEMA_REGISTRY_PASSWORD=" + password)
		root := newRootCommand(a, commands)
		root.SetArgs(append([]string{"--config", file}, args...))
		err := root.ExecuteContext(t.Context())
		if text := stdout.String() + stderr.String() + fmt.Sprint(err); strings.Contains(text, password) {
			t.Errorf("%q: the password is printed: %s", args, text)
		}
		return stdout.String(), err
	}
	if _, err := run("wr0ng", "ingest", "--input", input); err == nil || !strings.Contains(err.Error(), "401 Unauthorized: the login of schema_registry does not suffice") {
		t.Fatalf("a login that is refused: %v", err)
	}
	if _, err := run("s3cret", "ingest", "--input", input); err != nil {
		t.Fatal(err)
	}
	if out, err := run("s3cret", "query", "--table", "users", "--format", "csv"); err != nil || out != "id,city\n1,Zürich\n4,Zürich\n" {
		t.Errorf("%s, %v", out, err)
	}
	out, err := run("s3cret", "dead-letter", "list", "--format", "csv")
	if err != nil || strings.Count(out, "\n") != 3 || !strings.Contains(out, "unknown op") || !strings.Contains(out, "schema,,schema: schema 7: there is no such schema: Schema not found") {
		t.Errorf("%s, %v", out, err)
	}
	out, err = run("s3cret", "dead-letter", "show", "users/0/1", "--format", "json")
	var shown struct {
		Value string `json:"value_avro"`
	}
	if err != nil || json.Unmarshal([]byte(out), &shown) != nil ||
		shown.Value != `{"before":null,"after":{"id":2,"city":"Zürich"},"source":{"ts_ms":1657940400000,"file":"bin.000001","pos":1002},"op":"?"}` {
		t.Errorf("%s, %v", out, err)
	}
	if out, err = run("s3cret", "dead-letter", "show", "users/0/2", "--format", "json"); err != nil || strings.Contains(out, "value_avro") {
		t.Errorf("of an unknown schema: %s, %v", out, err)
	}
}
