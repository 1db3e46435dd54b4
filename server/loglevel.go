package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/gscd-io/gscd/query/output"
)

// longestChange bounds a temporary log level.
const longestChange = 24 * time.Hour

// logLevel is the level of the process's log, which may change for a time.
type logLevel struct {
	now zap.AtomicLevel
	log *zap.Logger

	mu    sync.Mutex
	usual zapcore.Level
	until time.Time
	back  *time.Timer
}

// set sets the usual level, which ends a temporary one.
func (l *logLevel) set(level zapcore.Level) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.usual = level
	l.change(level, time.Time{})
}

// change goes over to a level. The caller holds mu.
func (l *logLevel) change(level zapcore.Level, until time.Time) {
	if l.back != nil {
		l.back.Stop()
		l.back = nil
	}
	l.until = until
	l.now.SetLevel(level)
	if !until.IsZero() {
		var timer *time.Timer
		timer = time.AfterFunc(time.Until(until), func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.back == timer { // else it was changed in the same moment
				l.change(l.usual, time.Time{})
				l.log.Info("the log level is the usual one again", zap.Stringer("level", l.usual))
			}
		})
		l.back = timer
	}
}

// levelRequest is the body of PUT /loglevel. Without For the level stays.
type levelRequest struct {
	Level string `json:"level"`
	For   string `json:"for"`
}

// SetLogLevel sets the usual level, of the configuration.
func (s *Server) SetLogLevel(level zapcore.Level) {
	if s.level.now != (zap.AtomicLevel{}) {
		s.level.set(level)
	}
}

// showLevel answers GET /loglevel.
func (s *Server) showLevel(w http.ResponseWriter, _ *http.Request) {
	l := &s.level
	if l.now == (zap.AtomicLevel{}) {
		http.Error(w, "the log level can't be changed", http.StatusNotFound)
		return
	}
	l.mu.Lock()
	r := output.Record{{Name: "level", Value: l.now.Level().String()}, {Name: "usual", Value: l.usual.String()}, {Name: "until", Value: l.until}}
	l.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_ = output.WriteObject(output.JSON, w, r) // whoever asked has gone
}

// putLevel answers PUT /loglevel.
func (s *Server) putLevel(w http.ResponseWriter, r *http.Request) {
	l := &s.level
	if s.token.Load() == nil || l.now == (zap.AtomicLevel{}) {
		http.Error(w, "the log level changes by request only where http.token is set; else change log.level and send SIGHUP", http.StatusForbidden)
		return
	}
	level, until, err := readLevel(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	l.mu.Lock()
	l.change(level, until)
	l.mu.Unlock()
	s.o.Log.Info("the log level was changed by a request", zap.Stringer("level", level), zap.Time("until", until), zap.String("from", r.RemoteAddr))
	s.showLevel(w, r)
}

func readLevel(r *http.Request) (level zapcore.Level, until time.Time, err error) {
	var request levelRequest
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&request); err != nil || d.More() {
		return level, until, fmt.Errorf(`the body is not {"level": "debug", "for": "10m"}`)
	}
	switch request.Level {
	case "debug", "info", "warn", "error":
		_ = level.Set(request.Level) // it is one of zap's
	default:
		return level, until, fmt.Errorf("level %.40q is unknown: use debug, info, warn or error", request.Level)
	}
	if request.For == "" {
		return level, until, nil
	}
	d2, err := time.ParseDuration(request.For)
	if err != nil || d2 <= 0 || d2 > longestChange {
		return level, until, fmt.Errorf("for %.40q is no duration up to 24h: write 10m", request.For)
	}
	return level, time.Now().Add(d2), nil
}
