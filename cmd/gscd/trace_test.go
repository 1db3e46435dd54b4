package main

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// An ingest that is traced sends a tree for each batch, and one span for each seal.
func TestTracing(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var spans []*otlp.Span
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			body, _ = gzip.NewReader(r.Body)
		}
		data, err := io.ReadAll(body)
		var request collector.ExportTraceServiceRequest
		if err != nil || proto.Unmarshal(data, &request) != nil {
			t.Errorf("%d bytes that are no spans: %v", len(data), err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, of := range request.GetResourceSpans() {
			for _, scope := range of.GetScopeSpans() {
				spans = append(spans, scope.GetSpans()...)
			}
		}
	}))
	defer web.Close()
	c := newCluster(t, 1, "users")
	for day := 16; day <= 18; day++ {
		for id := range 3 {
			c.produce(c.upsert("users", 0, id, "secret name", fmt.Sprintf("2022-07-%dT10:00:00Z", day)))
		}
	}
	file := c.write("gscd.yaml", fmt.Sprintf("kafka: {brokers: [%q]}\ncalendar: {timezone: UTC}\ntables: [{location: %q, topics: [users]}]\ntracing: {endpoint: %q}\n",
		c.brokers(), filepath.Join(c.dir, "users"), web.URL))
	c.ok("ingest", "-c", file, "--until-end", "--now", "2022-07-18T12:00:00Z")
	mu.Lock()
	defer mu.Unlock()
	byID, children := map[string]*otlp.Span{}, map[string][]string{}
	for _, s := range spans {
		byID[string(s.GetSpanId())] = s
	}
	attribute := func(s *otlp.Span, key string) string {
		for _, a := range s.GetAttributes() {
			if a.GetKey() == key {
				return a.GetValue().GetStringValue()
			}
		}
		return ""
	}
	var batches, sealed []string
	for _, s := range spans {
		if s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() || attribute(s, "gscd.table") != "users" && s.GetName() != "upload" {
			t.Errorf("%s: %v", s.GetName(), s)
		}
		parent := byID[string(s.GetParentSpanId())]
		switch s.GetName() {
		case "batch":
			batches = append(batches, attribute(s, "gscd.label"))
		case "seal":
			sealed = append(sealed, attribute(s, "gscd.label"))
		}
		if parent != nil {
			children[parent.GetName()] = append(children[parent.GetName()], s.GetName())
		}
	}
	slices.Sort(batches)
	slices.Sort(sealed)
	if !slices.Equal(slices.Compact(batches), []string{"2022-07-16", "2022-07-17", "2022-07-18"}) || !slices.Equal(sealed, []string{"2022-07-16", "2022-07-17"}) {
		t.Errorf("batches of %q, seals of %q", batches, sealed)
	}
	for parent, want := range map[string][]string{"batch": {"poll", "decode", "fold", "encode", "commit"}, "encode": {"upload"}} {
		for _, name := range want {
			if !slices.Contains(children[parent], name) {
				t.Errorf("no %s below %s: %q", name, parent, children[parent])
			}
		}
	}
}
