package objstore

import (
	"context"
	"errors"
	"io"
)

// Streamer is a Store that takes an object piece by piece, so that nobody holds the
// whole of it. A store that wraps another one implements it with Begin.
type Streamer interface {
	Store
	// Create begins an object. Nothing is to be seen of it before Commit. ctx holds
	// for all calls of the Writer.
	Create(ctx context.Context, key string) (Writer, error)
}

// Writer is an object in the making. It is used by one goroutine, and ended by Commit
// or Abort.
type Writer interface {
	// Write adds bytes; the slice is not kept. After an error the object is to be
	// given up.
	io.Writer
	// Commit makes the object of all that was written, in the place of one that is
	// there: whole and durable, as Put does, and with Put's errors. After an error
	// nothing is left to abort.
	Commit() error
	// Abort gives the object up and frees what it takes; after Commit it does nothing.
	Abort()
}

// ErrEnded: a Writer was used after Commit or Abort.
var ErrEnded = errors.New("the writing of the object was ended")

// PieceBytes is up to what size an object is held and put by one call. A larger one
// goes in pieces.
const PieceBytes = 8 << 20

// Create begins an object in any store. An object of at most PieceBytes becomes one
// Put. A larger one is streamed where the store is a Streamer, and held until Commit
// where it is none. The error of a bad key comes with the first piece or with Commit.
func Create(ctx context.Context, s Store, key string) Writer {
	return &pieces{ctx: ctx, store: s, key: key}
}

// Begin begins an object in the store below a wrapper: as that streams it, or held
// until Commit.
func Begin(ctx context.Context, below Store, key string) (Writer, error) {
	if s, ok := below.(Streamer); ok {
		return s.Create(ctx, key)
	}
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	return &pieces{ctx: ctx, store: below, key: key, whole: true}, nil
}

// pieces holds the beginning of an object, and streams the rest.
type pieces struct {
	ctx   context.Context
	store Store
	key   string
	whole bool // all is held: the store can't stream
	held  []byte
	to    Writer // where the rest goes, once there is too much to hold
	ended bool
}

func (p *pieces) Write(data []byte) (int, error) {
	if p.ended {
		return 0, ErrEnded
	}
	if s, ok := p.store.(Streamer); ok && !p.whole && p.to == nil && len(p.held)+len(data) > PieceBytes {
		to, err := s.Create(p.ctx, p.key)
		if err != nil {
			return 0, err
		}
		p.to = to
		held := p.held
		p.held = nil
		if _, err := to.Write(held); err != nil {
			return 0, err
		}
	}
	if p.to != nil {
		return p.to.Write(data)
	}
	p.held = append(p.held, data...)
	return len(data), nil
}

func (p *pieces) Commit() error {
	if p.ended {
		return ErrEnded
	}
	p.ended = true
	if p.to != nil {
		return p.to.Commit()
	}
	held := p.held
	p.held = nil
	return p.store.Put(p.ctx, p.key, held)
}

func (p *pieces) Abort() {
	if p.to != nil && !p.ended {
		p.to.Abort()
	}
	p.ended, p.held = true, nil
}

// Copy copies an object of known size (bytes) to another store by ranges of PieceBytes.
// An object that is shorter gives io.ErrUnexpectedEOF.
func Copy(ctx context.Context, from Store, fromKey string, size int64, to Store, toKey string) error {
	w := Create(ctx, to, toKey)
	defer w.Abort()
	for at := int64(0); at < size; {
		piece, err := from.GetRange(ctx, fromKey, at, min(PieceBytes, size-at))
		if err == nil && len(piece) == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err == nil {
			_, err = w.Write(piece)
		}
		if err != nil {
			return err
		}
		at += int64(len(piece))
	}
	return w.Commit()
}
