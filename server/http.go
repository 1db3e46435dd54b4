package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/prometheus/client_golang/prometheus/promhttp"

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
	if s.o.HTTP == "" {
		return func() {}, nil
	}
	listener, err := net.Listen("tcp", s.o.HTTP)
	if err != nil {
		return nil, fmt.Errorf("http.address (--http) %s: %w", s.o.HTTP, err)
	}
	log, _ := zap.NewStdLogAt(s.o.Log, zap.DebugLevel) // the level is one that there is
	server := &http.Server{
		Handler: s.Handler(), ErrorLog: log,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
	}
	s.o.Log.Info("answering HTTP", zap.Stringer("address", listener.Addr()))
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.o.Log.Error("HTTP has stopped", zap.Error(err))
		}
	}()
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), shutdownWait)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			s.o.Log.Debug("HTTP was cut off", zap.Error(err))
		}
	}, nil
}

// Handler answers /healthz, /readyz, /metrics and /status.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.unhealthy(time.Now())) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { answer(w, s.unready()) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry(), promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		var body bytes.Buffer
		if err := output.WriteObject(output.JSON, &body, s.status()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(body.Bytes()) // whoever asked has gone
	})
	return mux
}

// answer says ok, or what is wrong, a line for each.
func answer(w http.ResponseWriter, wrong []string) {
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

// unready names the tables that don't run, and why.
func (s *Server) unready() (wrong []string) {
	for _, t := range s.all() {
		switch state, err, _ := t.now(); {
		case state == Failed:
			wrong = append(wrong, fmt.Sprintf("table %s: failed: %v", t.Name, err))
		case state == Waiting && err != nil:
			wrong = append(wrong, fmt.Sprintf("table %s: is started again after an error: %v", t.Name, err))
		case state == Waiting:
			wrong = append(wrong, fmt.Sprintf("table %s: its state is not loaded yet", t.Name))
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
