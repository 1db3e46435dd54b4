package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/upsert"
)

// indexFile keeps the key index of the table in a file on local disk, so that the next
// start need not fetch all keys. It is never needed: see upsert.Writer.Save.
type indexFile struct {
	saving *upsert.Saving
	of     int64 // version that is, or is being, saved
	at     time.Time
}

const (
	// indexFileCommits is how many commits behind the table a saved index may be while
	// the lane goes on.
	indexFileCommits = 200
	// indexFilePause is from one saving to the next, however often labels are sealed.
	indexFilePause = 5 * time.Minute
	// indexFileAtStop is how long the end of the lane waits for it.
	indexFileAtStop = 30 * time.Second
)

// indexFileName is "" where the index is not saved. The id of a table may be anything.
func (l *Lane) indexFileName(base *delta.Snapshot) string {
	if l.o.IndexDir == "" || base == nil {
		return ""
	}
	sum := sha256.Sum256([]byte(base.Metadata().ID))
	return filepath.Join(l.o.IndexDir, hex.EncodeToString(sum[:16])+".gscdindex")
}

// saveIndex begins to save the index in the background, where it is time for that.
// Index and version must be those of the last commit.
func (l *Lane) saveIndex(sealed bool) {
	f := &l.indexFile
	pause := indexFilePause
	if l.o.indexEvery > 0 {
		pause = 0
	}
	if l.indexFileName(l.base) == "" || l.writer == nil || f.saving != nil && !l.savedIndex(false) || time.Since(f.at) < pause {
		return
	}
	if sealed || l.base.Version()-f.of >= orInt(l.o.indexEvery, indexFileCommits) {
		l.beginSaving()
	}
}

func (l *Lane) beginSaving() {
	f := &l.indexFile
	f.at, f.of = time.Now(), l.base.Version()
	var err error
	if f.saving, err = l.writer.Save(context.WithoutCancel(l.ctx), l.indexFileName(l.base), l.base); err != nil {
		l.indexNotSaved(err)
	}
}

// savedIndex ends a saving that is done, or, where now is set, one that is not. It
// reports whether none goes on.
func (l *Lane) savedIndex(now bool) bool {
	f := &l.indexFile
	if f.saving == nil {
		return true
	}
	if !now {
		select {
		case <-f.saving.Done():
		default:
			return false
		}
	}
	ended, cancel := context.WithCancel(l.ctx)
	cancel()
	err := f.saving.Wait(ended)
	f.saving = nil
	if err != nil && !errors.Is(err, context.Canceled) {
		l.indexNotSaved(err)
	} else if err != nil {
		f.of = -1
	}
	return true
}

func (l *Lane) indexNotSaved(err error) {
	l.indexFile.of = -1
	l.o.Log.Warn("the key index was not saved; the next start reads the keys from the table", zap.String("table", l.o.Name), zap.Error(err))
}

// endIndexFile saves the index of a lane that ends as it should.
func (l *Lane) endIndexFile(well bool) {
	if !well || l.writer == nil || l.indexFileName(l.base) == "" {
		l.savedIndex(true)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(l.ctx), indexFileAtStop)
	defer cancel()
	f := &l.indexFile
	if f.saving != nil {
		if err := f.saving.Wait(ctx); err != nil {
			l.indexNotSaved(err)
		}
		f.saving = nil
	}
	if f.of == l.base.Version() {
		return
	}
	if l.beginSaving(); f.saving == nil {
		return
	}
	if err := f.saving.Wait(ctx); err != nil {
		l.indexNotSaved(err)
	}
	f.saving = nil
}
