package tracing

import (
	"context"
	"path"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta/objstore"
)

// upload is an object that was stored for a batch.
type upload struct {
	kind  string
	began time.Time
	took  time.Duration
	bytes int64
	err   error
}

// uploads takes the objects that are stored while a batch is.
type uploads struct{ t *Table }

func (u *uploads) add(key string, began time.Time, bytes int, err error) {
	kind := kindOf(key)
	if kind == "" {
		return
	}
	u.t.mu.Lock()
	defer u.t.mu.Unlock()
	if len(u.t.cut) == 0 {
		return
	}
	p := u.t.cut[0]
	if len(p.uploads) >= u.t.maxParts {
		p.dropped++
		return
	}
	p.uploads = append(p.uploads, upload{kind, began, time.Since(began), int64(bytes), err})
}

// kindOf names what an object is, "" for what is no upload of a batch.
func kindOf(key string) string {
	dir, name := path.Split(key)
	switch {
	case strings.HasPrefix(key, "_delta_log/_gscd/"):
		return strings.TrimSuffix(strings.TrimPrefix(dir, "_delta_log/_gscd/"), "/")
	case strings.HasPrefix(key, "_delta_log/"):
		return ""
	case strings.HasSuffix(name, ".parquet"):
		return "data"
	case strings.HasPrefix(name, "deletion_vector"):
		return "deletion_vector"
	}
	return "other"
}

// Store gives a store whose puts are traced as uploads of the table's batches.
func (t *Table) Store(s objstore.Store) objstore.Store { return store{s, t.uploads} }

type store struct {
	objstore.Store
	uploads *uploads
}

var _ objstore.Streamer = store{}

// Put is Store.Put.
func (s store) Put(ctx context.Context, key string, data []byte) error {
	began := time.Now()
	err := s.Store.Put(ctx, key, data)
	s.uploads.add(key, began, len(data), err)
	return err
}

// PutIfAbsent is Store.PutIfAbsent.
func (s store) PutIfAbsent(ctx context.Context, key string, data []byte) error {
	began := time.Now()
	err := s.Store.PutIfAbsent(ctx, key, data)
	s.uploads.add(key, began, len(data), err)
	return err
}

// Create is Streamer.Create.
func (s store) Create(ctx context.Context, key string) (objstore.Writer, error) {
	w, err := objstore.Begin(ctx, s.Store, key)
	if err != nil {
		return nil, err
	}
	return &writer{Writer: w, uploads: s.uploads, key: key, began: time.Now()}, nil
}

// writer is an object on its way.
type writer struct {
	objstore.Writer
	uploads *uploads
	key     string
	began   time.Time
	size    int
}

// Write is Writer.Write.
func (w *writer) Write(data []byte) (int, error) {
	n, err := w.Writer.Write(data)
	w.size += n
	return n, err
}

// Commit is Writer.Commit.
func (w *writer) Commit() error {
	err := w.Writer.Commit()
	w.uploads.add(w.key, w.began, w.size, err)
	return err
}
