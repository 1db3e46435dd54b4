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
