package savepoint

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"runtime"
	"slices"
	"sync"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/rowhash"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
)

// Content is the checksum of the rows of a version, whatever files they lie in and in
// which order: the number of rows, and the sum of their typed hashes (rowhash.Sum) modulo
// 2^256. Two versions with the same rows have the same one; columns that are NULL in every
// row do not count, so that one that is added changes nothing.
//
// Different rows have the same Content by chance once in 2^256. It is no proof against
// someone who makes up rows for it: sums of hashes can be met on purpose with far less
// work than SHA-256 itself (Wagner's generalised birthday, some 2^32 steps where rows may
// be chosen at will).
type Content struct {
	Rows int64
	sum  [4]uint64 // little-endian limbs
}

// Text gives the sum as 64 hexadecimal digits.
func (c Content) Text() string {
	var b [32]byte
	for i, limb := range c.sum {
		binary.BigEndian.PutUint64(b[24-8*i:], limb)
	}
	return hex.EncodeToString(b[:])
}

// parseContent reads what Text gave.
func parseContent(rows int64, text string) (c Content, ok bool) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != 32 {
		return c, false
	}
	c.Rows = rows
	c.sum = limbs(rowhash.Sum(b))
	return c, true
}

func limbs(s rowhash.Sum) (l [4]uint64) {
	for i := range l {
		l[i] = binary.BigEndian.Uint64(s[24-8*i:])
	}
	return l
}

// row adds a row.
func (c *Content) row(s rowhash.Sum) { c.plus(Content{1, limbs(s)}) }

func (c *Content) plus(o Content) {
	carry := uint64(0)
	for i := range c.sum {
		c.sum[i], carry = bits.Add64(c.sum[i], o.sum[i], carry)
	}
	c.Rows += o.Rows
}

func (c *Content) minus(o Content) {
	borrow := uint64(0)
	for i := range c.sum {
		c.sum[i], borrow = bits.Sub64(c.sum[i], o.sum[i], borrow)
	}
	c.Rows -= o.Rows
}

// ContentOf reads every row of a version. Memory is bounded by some batches of rows.
func ContentOf(ctx context.Context, store objstore.Store, s *delta.Snapshot) (Content, error) {
	var work []portion
	for _, add := range s.Files() {
		work = append(work, portion{add: add})
	}
	return contentOf(ctx, store, s, Content{}, work)
}

// portion is rows of a file that are added to a Content, or taken from it: those at some
// places, or where rows is nil all that its deletion vector leaves.
type portion struct {
	add   *action.Add
	rows  *dv.Bitmap
	minus bool
}

// size is about what reading it costs, in bytes.
func (p portion) size() int64 {
	if p.rows == nil {
		return p.add.Size
	}
	return min(p.add.Size, p.rows.Cardinality()*1024)
}

// contentFrom gives the Content of a version by that of another one and what lies between
// the two, if that is less to read; ok is false where it is not, or where columns were
// renamed, dropped or changed.
func contentFrom(ctx context.Context, store objstore.Store, base *delta.Snapshot, content Content, s *delta.Snapshot) (_ Content, read int, ok bool, err error) {
	if !continues(base, s) {
		return content, 0, false, nil
	}
	var work []portion
	whole, less := int64(0), int64(0)
	for _, add := range s.Files() {
		whole += add.Size
		was, live := base.File(add.Path)
		switch {
		case !live:
			work = append(work, portion{add: add})
		case was.DeletionVector.UniqueID() != add.DeletionVector.UniqueID():
			between, err := vectorChange(ctx, store, was, add)
			if err != nil {
				return content, 0, false, err
			}
			work = append(work, between...)
		}
	}
	for _, was := range base.Files() {
		if _, live := s.File(was.Path); !live {
			work = append(work, portion{add: was, minus: true})
		}
	}
	for _, p := range work {
		less += p.size()
	}
	if less > whole {
		return content, 0, false, nil
	}
	content, err = contentOf(ctx, store, s, content, work)
	return content, len(work), true, err
}

// vectorChange gives the rows that two deletion vectors of a file tell apart.
func vectorChange(ctx context.Context, store objstore.Store, was, is *action.Add) (work []portion, err error) {
	before, err := delta.ReadDeletionVector(ctx, store, was)
	if err != nil {
		return nil, scan.FileError(was, err)
	}
	after, err := delta.ReadDeletionVector(ctx, store, is)
	if err != nil {
		return nil, scan.FileError(is, err)
	}
	for _, c := range []struct {
		rows, without *dv.Bitmap
		minus         bool
	}{{after, before, true}, {before, after, false}} {
		if c.rows == nil {
			continue
		}
		rows := c.rows.Clone()
		if c.without != nil {
			rows.AndNot(c.without)
		}
		if !rows.IsEmpty() {
			work = append(work, portion{is, rows, c.minus})
		}
	}
	return work, nil
}

// continues tells that the rows of a version have the same hashes by the columns of a
// later one: it has all columns, under their names.
func continues(base, s *delta.Snapshot) bool {
	for i := range base.Schema().Fields {
		f := &base.Schema().Fields[i]
		at := s.Schema().Index(f.Name)
		if at < 0 {
			return false
		}
		g := &s.Schema().Fields[at]
		if f.Stored() != g.Stored() || f.Type.String() != g.Type.String() && !delta.Widens(f.Type, g.Type) {
			return false
		}
	}
	return slices.Equal(base.Metadata().PartitionColumns, s.Metadata().PartitionColumns)
}

// contentOf adds portions to a Content, read by the columns of a version, some at a time.
func contentOf(ctx context.Context, store objstore.Store, s *delta.Snapshot, content Content, work []portion) (Content, error) {
	fields := s.Schema().Fields
	reader, err := scan.NewReader(store, s, fields, nil)
	if err != nil {
		return content, err
	}
	var mu sync.Mutex
	err = objstore.InParallel(ctx, len(work), min(fileReaders, runtime.GOMAXPROCS(0)), func(ctx context.Context, i int) error {
		part, hasher, row := Content{}, rowhash.New(fields, nil), make([]schema.Value, len(fields))
		err := reader.Read(ctx, work[i].add, work[i].rows, func(b *scan.Batch) error {
			for r := range b.Rows {
				for c := range row {
					row[c] = b.Columns[c][r]
				}
				part.row(hasher.Sum(row))
			}
			return nil
		})
		mu.Lock()
		defer mu.Unlock()
		if work[i].minus {
			content.minus(part)
		} else {
			content.plus(part)
		}
		return err
	})
	return content, err
}
