package tracing

import (
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/progress"
)

// collected is a collector: it decodes what is sent to it.
type collected struct {
	t      *testing.T
	mu     sync.Mutex
	spans  []*otlp.Span
	header string
}

func (c *collected) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(r.Body); err != nil {
			c.t.Error(err)
			return
		}
	}
	data, err := io.ReadAll(body)
	var request collector.ExportTraceServiceRequest
	if err != nil || r.URL.Path != "/v1/traces" || proto.Unmarshal(data, &request) != nil {
		c.t.Errorf("%s: %d bytes, %v", r.URL, len(data), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.header = r.Header.Get("Authorization")
	for _, of := range request.GetResourceSpans() {
		for _, scope := range of.GetScopeSpans() {
			c.spans = append(c.spans, scope.GetSpans()...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// value is an attribute as text; "" where there is none.
func value(s *otlp.Span, key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			if text := a.GetValue().GetStringValue(); text != "" {
				return text
			}
			return time.Duration(a.GetValue().GetIntValue()).String()
		}
	}
	return ""
}

// A batch is one tree: its stages below it, uploads below the writing of its rows; a seal
// is a trace of its own.
func TestSpans(t *testing.T) {
	t.Parallel()
	c := &collected{t: t}
	web := httptest.NewServer(c)
	defer web.Close()
	headers := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(headers, []byte("# of the collector\nAuthorization: Bearer hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tracer, err := New(t.Context(), Options{Endpoint: web.URL, HeadersFile: headers, Sample: 1, Version: "v1"})
	if err != nil {
		t.Fatal(err)
	}
	table := tracer.Table("users", nil)
	store := table.Store(mem.New())
	at := time.Now().Add(-time.Minute)
	stretch := func(stage ingest.Stage, from, took time.Duration, records int) {
		table.Stage(ingest.Stretch{Stage: stage, Began: at.Add(from), Took: took, Records: records, Bytes: int64(10 * records), Version: -1})
	}
	stretch(ingest.PollStage, 0, time.Second, 6)
	stretch(ingest.DecodeStage, time.Second, time.Second, 6)
	stretch(ingest.FoldStage, 2*time.Second, time.Second, 4)
	stretch(ingest.FoldStage, 5*time.Second, time.Second, 2)
	table.Cut(at.Add(7 * time.Second))
	stretch(ingest.FoldStage, 8*time.Second, time.Second, 1) // of the next batch
	if err := store.Put(t.Context(), "part-1.parquet", []byte("12345")); err != nil {
		t.Fatal(err)
	}
	if err := store.PutIfAbsent(t.Context(), "_delta_log/00000000000000000003.json", []byte("x")); err != nil {
		t.Fatal(err)
	}
	stretch(ingest.EncodeStage, 7*time.Second, 2*time.Second, 0)
	table.Stage(ingest.Stretch{Stage: ingest.CommitStage, Began: at.Add(9 * time.Second), Took: time.Second, Version: 3})
	p := &progress.Progress{Label: "2022-07-16", Rows: 9}
	table.Committed(ingest.Commit{Kind: progress.Batch, Version: 3, Records: 6, Open: 7 * time.Second}, ingest.View{Progress: p})
	table.Stage(ingest.Stretch{Stage: ingest.SealStage, Began: at, Took: time.Second, Label: "2022-07-16", Version: 4, Err: errors.New("no")})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tracer.Close(ctx)

	byName, byID := map[string]*otlp.Span{}, map[string]*otlp.Span{}
	var names []string
	for _, s := range c.spans {
		names = append(names, s.GetName())
		byName[s.GetName()], byID[string(s.GetSpanId())] = s, s
	}
	slices.Sort(names)
	if want := []string{"batch", "commit", "decode", "encode", "fold", "poll", "seal", "upload"}; !slices.Equal(names, want) {
		t.Fatalf("spans %q", names)
	}
	for name, parent := range map[string]string{"poll": "batch", "decode": "batch", "fold": "batch", "encode": "batch", "commit": "batch", "upload": "encode", "batch": "", "seal": ""} {
		s := byName[name]
		if got := byID[string(s.GetParentSpanId())].GetName(); got != parent {
			t.Errorf("%s is below %q", name, got)
		}
		if parent != "" && string(s.GetTraceId()) != string(byName["batch"].GetTraceId()) {
			t.Errorf("%s is of another trace", name)
		}
		if value(s, "gscd.table") != "users" {
			t.Errorf("%s: %v", name, s.GetAttributes())
		}
	}
	batch, fold := byName["batch"], byName["fold"]
	if value(batch, "gscd.label") != "2022-07-16" || value(batch, "gscd.version") != "3ns" || value(batch, "gscd.records") != "6ns" || value(batch, "gscd.rows") != "9ns" {
		t.Errorf("batch: %v", batch.GetAttributes())
	}
	if took := fold.GetEndTimeUnixNano() - fold.GetStartTimeUnixNano(); took != uint64(4*time.Second) || value(fold, "gscd.records") != "6ns" || value(fold, "gscd.bytes") != "60ns" {
		t.Errorf("fold took %d: %v", took, fold.GetAttributes())
	}
	if up := byName["upload"]; value(up, "gscd.object") != "data" || value(up, "gscd.bytes") != "5ns" {
		t.Errorf("upload: %v", up.GetAttributes())
	}
	if s := byName["seal"]; s.GetStatus().GetCode() != otlp.Status_STATUS_CODE_ERROR || value(s, "gscd.version") != "4ns" {
		t.Errorf("seal: %v", s)
	}
	if c.header != "Bearer hush" {
		t.Errorf("the collector was sent the header %q", c.header)
	}
}

// What can't be is said at the start, without what is secret.
func TestOptions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("Bearer hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for says, o := range map[string]Options{
		"is no URL":           {Endpoint: "collector:4318"},
		"line 1 is no header": {Endpoint: "http://c:4318", HeadersFile: bad},
		"no certificate":      {Endpoint: "https://c:4318", CAFile: bad},
		"no such file":        {Endpoint: "https://c:4318", CAFile: filepath.Join(dir, "none")},
	} {
		if _, err := New(t.Context(), o); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", says, err)
		}
	}
}
