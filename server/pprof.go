package server

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"go.uber.org/zap"
)

// profileTime is how long the answer of a profile may take: ?seconds= and what
// it takes to write it.
const profileTime = 5 * time.Minute

// servePprof answers the profiles of Go's runtime at an address of their own,
// where one is set: they slow the process down, and show what it works on.
func (s *Server) servePprof() (*http.Server, error) {
	if s.o.Pprof == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", s.o.Pprof)
	if err != nil {
		return nil, fmt.Errorf("http.pprof %s: %w", s.o.Pprof, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/cmdline", http.NotFound) // flags may be nobody's business
	server := &http.Server{Handler: s.guarded(mux), WriteTimeout: profileTime, TLSConfig: nil}
	s.o.Log.Info("answering pprof", zap.Stringer("address", listener.Addr()))
	listener = s.secured(listener)
	s.serveOn(listener, server)
	return server, nil
}
