//go:build cgo

package sql

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	duck "github.com/duckdb/duckdb-go-bindings"

	"github.com/gscd-io/gscd/delta/schema"
)

// stream is the result of a statement that is made while it is read.
type stream struct {
	ctx     context.Context
	result  duck.Result
	names   []string
	columns []column
	release func() // of the interrupt
}

// stream starts a statement. Until its close the engine runs nothing else.
func (e *engine) stream(ctx context.Context, p *prepared) (*stream, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s := &stream{ctx: ctx, release: e.interrupting(ctx)}
	var pending duck.PendingResult
	defer duck.DestroyPending(&pending)
	if duck.PendingPreparedStreaming(p.stmt, &pending) == duck.StateError {
		err := failure(ctx, duck.PendingError(pending))
		s.close()
		return nil, err
	}
	awaitFirst(pending)
	if duck.ExecutePending(pending, &s.result) == duck.StateError {
		err := failure(ctx, duck.ResultError(&s.result))
		s.close()
		return nil, err
	}
	for i := range duck.ColumnCount(&s.result) {
		s.names = append(s.names, duck.ColumnName(&s.result, i))
		c, err := columnOf(duck.ColumnLogicalType(&s.result, i))
		if err != nil {
			s.close()
			return nil, &Error{Message: fmt.Sprintf("column %s: %v", s.names[i], err), Rejected: true}
		}
		s.columns = append(s.columns, c)
	}
	return s, nil
}

// awaitFirst takes part in the work until there is something to fetch, or an error.
// ExecutePending alone asks for more work without a pause while other threads do the
// rest of it, which takes a processor from them.
func awaitFirst(pending duck.PendingResult) {
	const shortest, longest = 50 * time.Microsecond, time.Millisecond
	pause := shortest
	for {
		switch duck.PendingExecuteTask(pending) {
		case duck.PendingStateResultNotReady:
			pause = shortest
		case duck.PendingStateNoTasksAvailable:
			time.Sleep(pause)
			pause = min(2*pause, longest)
		default:
			return
		}
	}
}

func (s *stream) close() {
	s.release()
	s.release = func() {}
	duck.DestroyResult(&s.result)
}

// rows gives the rows, once; an error comes last. A row is valid until the next.
func (s *stream) rows(yield func([]schema.Value, error) bool) {
	row := make([]schema.Value, len(s.columns))
	vectors := make([]vector, len(s.columns))
	for {
		chunk := duck.FetchChunk(s.result)
		if chunk.Ptr == nil {
			if message := duck.ResultError(&s.result); message != "" || s.ctx.Err() != nil {
				yield(nil, failure(s.ctx, message))
			}
			return
		}
		more := s.chunk(chunk, vectors, row, yield)
		duck.DestroyDataChunk(&chunk)
		if !more {
			return
		}
	}
}

func (s *stream) chunk(chunk duck.DataChunk, vectors []vector, row []schema.Value, yield func([]schema.Value, error) bool) (more bool) {
	for i := range vectors {
		vectors[i] = vectorOf(duck.DataChunkGetVector(chunk, duck.IdxT(i)), &s.columns[i])
	}
	for r := range int(duck.DataChunkGetSize(chunk)) {
		for i := range vectors {
			row[i] = s.columns[i].value(&vectors[i], r)
		}
		if !yield(row, nil) {
			return false
		}
	}
	return true
}

// fields gives the columns for printing; names that come again get a number, as
// DuckDB gives one to those of a subquery.
func (s *stream) fields() []schema.Field {
	taken := map[string]bool{}
	fields := make([]schema.Field, len(s.columns))
	for i, c := range s.columns {
		name := s.names[i]
		for n := 1; taken[strings.ToLower(name)]; n++ {
			name = s.names[i] + "_" + strconv.Itoa(n)
		}
		taken[strings.ToLower(name)] = true
		fields[i] = schema.Field{Name: name, Type: c.cells, Nullable: true}
	}
	return fields
}
