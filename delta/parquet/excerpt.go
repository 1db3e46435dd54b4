package parquet

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Span is bytes of a file, To excluded.
type Span struct{ From, To int64 }

// Spans gives what a reader of some top-level columns needs of some row groups,
// in rising order, neighbours put together where less than gap bytes lie between
// them. Columns go by name, upper and lower case being one; a column that the file
// does not have needs nothing. ok is false where another reader might look at
// places that the footer does not bound: then it needs the whole file.
func (f *File) Spans(columns []string, keep func(group int) bool, gap int64) (spans []Span, ok bool) {
	for group := range f.meta.RowGroups {
		if !keep(group) {
			continue
		}
		for leaf := range f.meta.RowGroups[group].Columns {
			m := &f.meta.RowGroups[group].Columns[leaf].MetaData
			if len(m.PathInSchema) == 0 || !slices.ContainsFunc(columns, func(c string) bool { return strings.EqualFold(c, m.PathInSchema[0]) }) {
				continue
			}
			if m.BloomFilterOffset != 0 || m.IndexPageOffset != 0 {
				return nil, false
			}
			start, length := chunkRange(m)
			spans = append(spans, Span{start, start + length})
		}
	}
	return JoinSpans(spans, gap), true
}

// JoinSpans sorts spans and puts together those that overlap or have less than gap
// bytes between them.
func JoinSpans(spans []Span, gap int64) []Span {
	slices.SortFunc(spans, func(a, b Span) int { return int(max(min(a.From-b.From, 1), -1)) })
	var joined []Span
	for _, s := range spans {
		if n := len(joined); n > 0 && s.From-joined[n-1].To <= gap {
			joined[n-1].To = max(joined[n-1].To, s.To)
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// Footer gives the end of a file that has only some of the row groups, at the
// places where this one has them: metadata, its length, and the magic number.
func (f *File) Footer(keep func(group int) bool) ([]byte, error) {
	meta := *f.meta
	meta.RowGroups, meta.NumRows = []format.RowGroup{}, 0
	for i := range f.meta.RowGroups {
		if keep(i) {
			meta.RowGroups = append(meta.RowGroups, f.meta.RowGroups[i])
			meta.NumRows += f.meta.RowGroups[i].NumRows
		}
	}
	raw, err := thrift.Marshal(&thrift.CompactProtocol{}, &meta)
	if err != nil {
		return nil, fmt.Errorf("encode the footer: %w", err)
	}
	raw = binary.LittleEndian.AppendUint32(raw, uint32(len(raw)))
	return append(raw, magic...), nil
}
