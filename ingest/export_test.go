package ingest

import "github.com/gscd-io/gscd/delta/upsert"

// Indexes gives the key index of a lane that has ended, and one built anew from
// the version that it stands at; nil before the first version.
func (l *Lane) Indexes() (now, anew *upsert.Writer, err error) {
	if l.base == nil {
		return nil, nil, nil
	}
	l.o.IndexDir = "" // read from the files
	anew, err = l.openWriter(l.base, l.writer.Index())
	return l.writer, anew, err
}

// SaveIndexEvery sets after how many commits the key index is saved.
func (o *Options) SaveIndexEvery(commits int64) { o.indexEvery = commits }

// InTurns has the lane do itself what goroutines do beside it else: where turns says so,
// or where it waits for that. So a run is the same every time.
func (o *Options) InTurns(turns func() bool) { o.turns = turns }

// LookAhead has the keys of every chunk looked up together.
func (o *Options) LookAhead() { o.lookAheadFrom = 1 }

// Serially has the lane take no record while it writes a batch.
func (o *Options) Serially() { o.serial = true }
