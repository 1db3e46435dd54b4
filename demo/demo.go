package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/ingest/deadletter"
)

// What a demo leaves in its folder: the table (and its dead letters beside it),
// and everything that was in the topic.
const (
	TableName     = "user_dim"
	RecordingName = "user_dim.jsonl"
)

// ErrExists: the folder has a table or a recording already.
var ErrExists = errors.New("exists already")

// Options of a demo.
type Options struct {
	// Dir is where table and recorded topic are left; it is made where it is
	// missing. Empty: a temporary folder that is gone at the end, unless Keep.
	Dir  string
	Keep bool
	// Out is printed to, with colours where it is a terminal that wants them.
	Out io.Writer
	// Log is the ingester's. Default: none.
	Log *zap.Logger
}

// Run plays the demo; it takes some seconds. When ctx ends, it stops at once.
// The error wraps ErrExists where Dir is in use, or is what went wrong; then
// nothing that Run made is left.
func Run(ctx context.Context, o Options) (err error) {
	begun := time.Now()
	f, err := openFolder(o)
	if err != nil {
		return err
	}
	done := false
	defer func() {
		if !done || !f.keep {
			err = errors.Join(err, f.discard())
		}
	}()
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	s, err := openStage(ctx, f, o.Log)
	if err != nil {
		return err
	}
	t := &story{stage: s, page: newPage(o.Out), folder: f}
	err = errors.Join(t.tell(ctx), s.close())
	if ctx.Err() != nil {
		return ctx.Err() // whatever it made of the rest
	}
	if err != nil {
		return err
	}
	t.goOn(time.Since(begun))
	if err := t.page.err; err != nil {
		return err
	}
	done = true
	return nil
}

// folder is where the demo's files are.
type folder struct {
	path string
	keep bool
	// made tells that the folder itself is the demo's.
	made bool
}

func (f *folder) table() string       { return filepath.Join(f.path, TableName) }
func (f *folder) deadLetters() string { return f.table() + deadletter.Suffix }
func (f *folder) recording() string   { return filepath.Join(f.path, RecordingName) }

func openFolder(o Options) (*folder, error) {
	if o.Dir == "" {
		path, err := os.MkdirTemp("", "gscd-demo-")
		if err != nil {
			return nil, fmt.Errorf("make a folder for the demo: %w", err)
		}
		return &folder{path: path, keep: o.Keep, made: true}, nil
	}
	f := &folder{path: filepath.Clean(o.Dir), keep: true}
	for _, path := range f.contents() {
		if _, err := os.Lstat(path); err == nil {
			return nil, fmt.Errorf("%s %w: remove it, or give --dir another folder", path, ErrExists)
		}
	}
	_, err := os.Stat(f.path)
	f.made = errors.Is(err, os.ErrNotExist)
	if err := os.MkdirAll(f.path, 0o755); err != nil {
		return nil, fmt.Errorf("make the demo's folder: %w", err)
	}
	return f, nil
}

func (f *folder) contents() []string {
	return []string{f.table(), f.deadLetters(), f.recording()}
}

// discard removes what the demo made, and nothing else.
func (f *folder) discard() error {
	var errs []error
	for _, path := range f.contents() {
		errs = append(errs, os.RemoveAll(path))
	}
	if f.made {
		if err := os.Remove(f.path); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
