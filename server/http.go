package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/query/output"
)

// The bounds of an HTTP exchange.
const (
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	writeTimeout  = 30 * time.Second
	idleTimeout   = time.Minute
	maxHeader     = 16 << 10
	shutdownWait  = 3 * time.Second
)

// serve answers HTTP, where an address is set, until shutdown is called.
func (s *Server) serve() (shutdown func(), err error) {
	if s.o.TLS != (TLSFiles{}) {
		if s.certificates, err = loadCertificates(s.o.TLS, s.o.Log); err != nil {
			return nil, err
		}
	}
	profiles, err := s.servePprof()
	if err != nil {
		return nil, err
	}
	servers := []*http.Server{profiles}
	shutdown = func() {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownWait)
		defer cancel()
		for _, server := range servers {
			if server == nil {
				continue
			}
			if err := server.Shutdown(ctx); err != nil {
				s.o.Log.Debug("HTTP was cut off", zap.Error(err))
				_ = server.Close()
			}
		}
	}
	if s.o.HTTP == "" {
		return shutdown, nil
	}
	listener, err := net.Listen("tcp", s.o.HTTP)
	if err != nil {
		shutdown()
		return nil, fmt.Errorf("http.address (--http) %s: %w", s.o.HTTP, err)
	}
	s.o.Log.Info("answering HTTP", zap.Stringer("address", listener.Addr()), zap.Bool("tls", s.certificates != nil), zap.Bool("token", s.token.Load() != nil))
	server := &http.Server{Handler: s.Handler(), WriteTimeout: writeTimeout}
	s.serveOn(s.secured(listener), server)
	servers = append(servers, server)
	return shutdown, nil
}

// secured puts TLS around a listener, where it is configured.
func (s *Server) secured(listener net.Listener) net.Listener {
	if s.certificates == nil {
		return listener
	}
	return tls.NewListener(listener, &tls.Config{GetConfigForClient: s.certificates.forHello, MinVersion: tls.VersionTLS12})
}

// Handler answers all pages: see docs/operations.md.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, s.unhealthy(time.Now())) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { s.answer(w, r, s.unready(time.Now())) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry(), promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, req *http.Request) {
		var body bytes.Buffer
		status := s.status()
		if s.o.Group != nil {
			status = append(status, output.Item{Name: "group", Value: s.groupStatus(req.Context(), req.URL.RawQuery != podScope)})
		}
		if err := output.WriteObject(output.JSON, &body, status); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body.Bytes()) // whoever asked has gone
	})
	mux.HandleFunc("GET /openapi.yaml", file("application/yaml", openAPI))
	mux.HandleFunc("GET /style.css", file("text/css; charset=utf-8", pageStyle))
	mux.HandleFunc("GET /{$}", s.overview)
	mux.HandleFunc("GET /tables/{name}", s.tablePage)
	mux.HandleFunc("GET /loglevel", s.showLevel)
	mux.HandleFunc("PUT /loglevel", s.putLevel)
	return s.guarded(mux)
}

// file answers with what is built into the program.
func file(kind string, data []byte) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(data) // whoever asked has gone
	}
}

// answer says ok, or what is wrong, a line for each: to those alone who may know.
func (s *Server) answer(w http.ResponseWriter, r *http.Request, wrong []string) {
	if len(wrong) > 0 && !s.may(r) {
		wrong = []string{"not ok; the reasons are told to those who have the token"}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	if len(wrong) == 0 {
		fmt.Fprintln(w, "ok")
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	for _, line := range wrong {
		fmt.Fprintln(w, line)
	}
}

// unhealthy names the loops that nothing was heard of for too long.
func (s *Server) unhealthy(now time.Time) (wrong []string) {
	if beat := s.beat.Load(); beat != 0 && now.Sub(time.Unix(0, beat)) > s.o.stalledAfter {
		wrong = append(wrong, "the loop that starts and stops tables stands still")
	}
	for _, t := range s.all() {
		if silent := t.stalled(now); silent > s.o.stalledAfter {
			wrong = append(wrong, fmt.Sprintf("table %s: nothing was heard of it for %s", t.Name, silent.Round(time.Second)))
		}
	}
	return wrong
}

// outageFor is for how long brokers may be away until that is told: they come back
// from a restart within it.
const outageFor = 15 * time.Second

// unready names the tables that don't run, or whose brokers don't answer, and why.
func (s *Server) unready(now time.Time) (wrong []string) {
	wrong = s.ungrouped()
	for _, t := range s.all() {
		switch state, err, _ := t.now(); {
		case state == Failed:
			wrong = append(wrong, fmt.Sprintf("table %s: failed: %v", t.Name, err))
		case state == Waiting && err != nil:
			wrong = append(wrong, fmt.Sprintf("table %s: is started again after an error: %v", t.Name, err))
		case state == Waiting:
			wrong = append(wrong, fmt.Sprintf("table %s: its state is not loaded yet", t.Name))
		}
		for _, wait := range t.waits(now) {
			if wait.For == ingest.ForSource && now.Sub(wait.Since) > outageFor {
				wrong = append(wrong, fmt.Sprintf("table %s: the brokers have not answered since %s: %v", t.Name, rfc3339(wait.Since), wait.Err))
			}
		}
	}
	return wrong
}

// status is the process and all of its tables: a Status.
func (s *Server) status() output.Record {
	tables := []output.Record{}
	for _, t := range s.all() {
		tables = append(tables, s.tableRecord(t))
	}
	used, limit, _ := s.memory.use()
	gate := s.gate.use()
	running := 0
	for _, n := range gate.inside {
		running += n
	}
	return output.Record{
		{Name: "version", Value: s.o.Build["version"]},
		{Name: "started", Value: s.started},
		{Name: "batch_memory", Value: output.Record{{Name: "used_bytes", Value: used}, {Name: "limit_bytes", Value: limit}}},
		{Name: "heavy_tasks", Value: output.Record{{Name: "running", Value: running}, {Name: "waiting", Value: gate.waiting}, {Name: "limit", Value: gate.limit}}},
		{Name: "tables", Value: tables},
	}
}

// tableRecord is a TableStatus.
func (s *Server) tableRecord(t *table) output.Record {
	state, err, since := t.now()
	var fault, kind, why any
	if err != nil {
		fault, kind = err.Error(), string(FaultOf(err))
	}
	standing := t.standing()
	if w := s.why(t, standing); w != nil {
		why = w.Record()
	}
	r := output.Record{
		{Name: "table", Value: t.Name}, {Name: "state", Value: string(state)}, {Name: "since", Value: since},
		{Name: "error", Value: fault}, {Name: "error_kind", Value: kind}, {Name: "waits_for", Value: waitsFor(t.waits(time.Now()))}, {Name: "why", Value: why},
	}
	if standing != nil {
		return append(r, standing.Record()[1:]...)
	}
	return append(r, output.Item{Name: "address", Value: t.Address})
}
