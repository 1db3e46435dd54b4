//go:build cgo

package sql

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/scan"
)

// How excerpts are fetched, in bytes. Tests change them: their files are small.
var (
	// footerGuess is read from the end of each file. A file that is no longer comes
	// with that one request.
	footerGuess int64 = parquet.FooterGuess
	// excerptGap is what is rather read than skipped: a request costs more.
	excerptGap int64 = 128 << 10
)

// fetchPart is how much is fetched by one request at most, in bytes.
const fetchPart = 8 << 20

// fetch makes the excerpts of the files of other stores: their footers first, and
// then, if that is no more than limit bytes in all, what their scans read.
func (f *files) fetch(ctx context.Context, limit int64) error {
	var wanted []*dataFile
	for _, file := range f.order {
		if !file.of.remote() {
			continue
		}
		if len(file.scans) > 0 {
			wanted = append(wanted, file)
			continue
		}
		f.stats.Files--
		f.stats.Bytes -= file.add.Size
	}
	tails := make([]int64, len(wanted))
	err := objstore.InParallel(ctx, len(wanted), fileReaders, func(ctx context.Context, i int) (err error) {
		if tails[i], err = wanted[i].fetchFooter(ctx); err != nil {
			return fmt.Errorf("table %s: %w", wanted[i].of.Name, wanted[i].asFault(err))
		}
		return nil
	})
	if err != nil {
		return err
	}
	type part struct {
		file *dataFile
		parquet.Span
	}
	var parts []part
	for i, file := range wanted {
		f.stats.Fetched += tails[i]
		for _, s := range file.excerpt {
			f.stats.Fetched += s.To - s.From
			for from := s.From; from < s.To; from += fetchPart {
				parts = append(parts, part{file, parquet.Span{From: from, To: min(from+fetchPart, s.To)}})
			}
		}
	}
	if f.stats.Fetched > limit {
		return fmt.Errorf("%w: %d bytes of %d files, and the limit is %d: ask for fewer days or columns, or raise --temp-limit",
			ErrTempLimit, f.stats.Fetched, len(wanted), limit)
	}
	return objstore.InParallel(ctx, len(parts), fileReaders, func(ctx context.Context, i int) error {
		if err := parts[i].file.fetchSpan(ctx, parts[i].Span); err != nil {
			return fmt.Errorf("table %s: %w", parts[i].file.of.Name, parts[i].file.asFault(err))
		}
		return nil
	})
}

// fetchFooter fetches the end of a file, puts its footer into the excerpt, and finds
// out what else that needs. It gives how many bytes it has fetched.
func (f *dataFile) fetchFooter(ctx context.Context) (int64, error) {
	tail := &tailReader{from: f.add.Size, r: objstore.NewReaderAt(ctx, f.of.Store, f.key, f.add.Size)}
	var err error
	if f.footer, err = parquet.OpenTail(tail, f.add.Size, footerGuess); err != nil {
		return 0, err
	}
	if err := scan.CheckRows(f.add, f.footer.NumRows()); err != nil {
		return 0, err
	}
	out, err := os.OpenFile(f.path, os.O_WRONLY, 0)
	if err != nil {
		return 0, err
	}
	defer out.Close()
	if err := out.Truncate(f.add.Size); err != nil {
		return 0, err
	}
	if _, err := out.WriteAt(tail.data, tail.from); err != nil {
		return 0, err
	}
	if err := f.choose(out); err != nil {
		return 0, err
	}
	f.excerpt = without(f.excerpt, tail.from)
	return f.add.Size - tail.from, out.Close()
}

// tailReader reads a file from its end, and keeps the longest end that was read.
type tailReader struct {
	r    *objstore.ReaderAt
	from int64
	data []byte
}

func (t *tailReader) ReadAt(p []byte, offset int64) (int, error) {
	n, err := t.r.ReadAt(p, offset)
	if n == len(p) && offset < t.from && offset+int64(n) == t.r.Size() {
		t.from, t.data = offset, slices.Clone(p)
	}
	return n, err
}

// choose finds out which row groups and columns the scans of a file read. An excerpt
// without some row groups gets a footer without them.
func (f *dataFile) choose(out *os.File) error {
	var names []string
	for _, s := range f.scans {
		for column := range s.columns {
			if c, ok := f.footer.Find(s.groups[0].cells[column].column); ok {
				names = append(names, c.Name)
			}
		}
	}
	kept := f.keptGroups()
	keep := func(i int) bool { return kept[i] }
	spans, ok := f.footer.Spans(names, keep, excerptGap)
	if !ok {
		f.excerpt = []parquet.Span{{From: 0, To: f.add.Size}}
		return nil
	}
	f.excerpt = spans
	if !slices.Contains(kept, false) {
		return nil
	}
	// Behind everything else in the file, so that nothing is overwritten.
	footer, err := f.footer.Footer(keep)
	if err != nil {
		return err
	}
	if err := out.Truncate(f.add.Size + int64(len(footer))); err != nil {
		return err
	}
	if _, err := out.WriteAt(footer, f.add.Size); err != nil {
		return err
	}
	f.kept = kept
	return nil
}

// without cuts what lies at or behind a place off spans.
func without(spans []parquet.Span, place int64) []parquet.Span {
	var left []parquet.Span
	for _, s := range spans {
		if s.To = min(s.To, place); s.From < s.To {
			left = append(left, s)
		}
	}
	return left
}

// fetchSpan fetches a part of a file.
func (f *dataFile) fetchSpan(ctx context.Context, s parquet.Span) error {
	data, err := f.of.Store.GetRange(ctx, f.key, s.From, s.To-s.From)
	if err != nil {
		return err
	}
	if int64(len(data)) < s.To-s.From {
		return fmt.Errorf("%w: it has %d bytes, the log says %d", scan.ErrFileMismatch, s.From+int64(len(data)), f.add.Size)
	}
	out, err := os.OpenFile(f.path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer out.Close()
	if _, err := out.WriteAt(data, s.From); err != nil {
		return err
	}
	return out.Close()
}
