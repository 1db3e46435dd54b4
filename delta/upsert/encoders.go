package upsert

import (
	"slices"
	"sync"

	"github.com/gscd-io/gscd/delta/parquet"
)

// encoders keeps encoders of files for the next ones: the pages of a column are put
// together in memory that an encoder holds on to. Safe for concurrent use.
type encoders struct {
	mu   sync.Mutex
	idle []*fileEncoder
}

// fileEncoder makes files of some columns, the first visible of which are the table's.
type fileEncoder struct {
	*parquet.Encoder
	columns []parquet.Column
	visible int
}

const (
	maxIdleEncoders = 4
	// maxKept is the size of a file, in bytes, behind which its encoder is dropped with
	// its memory.
	maxKept = 32 << 20
)

// take gives an encoder of columns that nobody else has.
func (e *encoders) take(columns []parquet.Column, visible int) (*fileEncoder, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, f := range e.idle {
		if f.visible == visible && slices.Equal(f.columns, columns) {
			e.idle = slices.Delete(e.idle, i, i+1)
			return f, nil
		}
	}
	// Trino, which makes statistics of a file's footer when it deletes rows, fails on bounds
	// of columns that the table has not.
	bounded := namesOf(columns[:visible])
	encoder, err := parquet.NewEncoder(columns, parquet.EncoderOptions{StatsColumns: bounded, DeltaColumns: namesOf(columns[visible:]), TryDelta: true})
	return &fileEncoder{encoder, columns, visible}, err
}

// give takes an encoder back that has made a file of so many bytes.
func (e *encoders) give(f *fileEncoder, size int) {
	if size > maxKept {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.idle) == maxIdleEncoders {
		e.idle = slices.Delete(e.idle, 0, 1)
	}
	e.idle = append(e.idle, f)
}

func namesOf(columns []parquet.Column) []string {
	names := make([]string, len(columns))
	for i, c := range columns {
		names[i] = c.Name
	}
	return names
}
