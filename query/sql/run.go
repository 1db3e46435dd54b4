//go:build cgo

package sql

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
)

// Built tells whether this program can answer SQL.
const Built = true

// Run starts a statement. Its rows are made while they are read, under ctx. What
// is against the statement is an *Error; errors about labels are those of
// savepoint's Resolve, those about files wrap scan.ErrFileMissing or
// scan.ErrFileMismatch.
func Run(ctx context.Context, text string, o Options) (*Rows, error) {
	o = o.withDefaults()
	p, err := openPlanner(ctx, text, &o)
	if err != nil {
		return nil, err
	}
	defer p.close()
	for attempt := 1; ; attempt++ {
		if err := p.plan(ctx); err != nil {
			return nil, err
		}
		rows, err := p.run(ctx)
		if errors.Is(err, errNewMinute) && attempt < 3 {
			continue
		}
		if err != nil && !p.whole && isHole(err) {
			p.whole = true
			continue
		}
		if err == nil && o.Notice != nil && !p.statement.dry {
			for _, n := range p.notices {
				o.Notice(n)
			}
		}
		return rows, err
	}
}

func (o Options) withDefaults() Options {
	if o.MemoryLimit <= 0 {
		o.MemoryLimit = DefaultMemoryLimit
	}
	if o.TempLimit <= 0 {
		o.TempLimit = DefaultTempLimit
	}
	return o
}

// errNewMinute: the days were chosen by a clock that has moved on.
var errNewMinute = errors.New("the clock went past a minute while the query was planned; run it again")

// isHole tells the error of a page that is not in an excerpt. Then the plan did not
// name all that is read, and whole files are fetched.
func isHole(err error) bool {
	var fault *Error
	return errors.As(err, &fault) && strings.Contains(fault.Message, "TProtocolException")
}

// run runs the statement on the days that were planned.
func (p *planner) run(ctx context.Context) (rows *Rows, err error) {
	for _, r := range p.readings {
		if err := r.open(ctx); err != nil {
			return nil, err
		}
	}
	dir, err := os.MkdirTemp(p.options.TempDir, "gscd-sql-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for temporary files: %w", err)
	}
	undo := []func(){func() { _ = os.RemoveAll(dir) }}
	end := func() {
		for len(undo) > 0 {
			undo[len(undo)-1]()
			undo = undo[:len(undo)-1]
		}
	}
	defer func() {
		if err != nil {
			end()
		}
	}()
	x, err := p.prepareFiles(ctx, dir, false)
	if err != nil {
		return nil, err
	}
	undo = append(undo, x.close)
	f := x.files
	if !p.statement.dry {
		if err := f.fetch(ctx, p.options.TempLimit); err != nil {
			return nil, err
		}
	}
	if err := f.setVectors(ctx, x, p.statement.dry); err != nil {
		return nil, err
	}
	prepared, s, err := x.start(ctx)
	if err != nil {
		return nil, err
	}
	undo = append(undo, prepared.close, s.close)
	rows = &Rows{columns: s.fields(), stats: f.stats, close: end}
	rows.each = func(yield func([]schema.Value, error) bool) {
		for row, err := range s.rows {
			if err != nil {
				err = x.fault(asError(p.statement.text, err, false))
				if isHole(err) && !p.whole && len(x.scans) > 0 {
					err = fmt.Errorf("%w; what the statement reads was not recognized in its plan, which is a fault of gscd: say * in the place of its columns", err)
				}
			}
			if !yield(row, err) {
				return
			}
		}
	}
	if p.statement.explain {
		rows.asPlan(x.shown)
	}
	return rows, nil
}

// prepareFiles starts an executor on the files of the readings, which have a place in
// dir, and decides which of them are read. Where explaining, that is asked of local ones
// too.
func (p *planner) prepareFiles(ctx context.Context, dir string, explaining bool) (_ *executor, err error) {
	f, err := filesOf(p.readings, filepath.Join(dir, "files"))
	if err != nil {
		return nil, err
	}
	if err := f.place(ctx); err != nil {
		return nil, err
	}
	e := p.idle
	p.idle = nil
	x, err := openExecutor(ctx, e, p.options, p.statement, f, filepath.Join(dir, "spill"))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			x.close()
		}
	}()
	if err := x.exec(ctx, "BEGIN"); err != nil {
		return nil, err
	}
	if p.minute != "" {
		switch now, err := x.minute(ctx); {
		case err != nil:
			return nil, err
		case now != p.minute:
			return nil, errNewMinute
		}
	}
	x.whole, x.explaining = p.whole, explaining
	again := true
	for again {
		if err := x.layOut(ctx, p.readings); err != nil {
			return nil, err
		}
		if err := x.define(ctx, p.byTable); err != nil {
			return nil, err
		}
		if again = len(x.scans) > 0 && len(x.skipped) == 0; again {
			if err := f.setNoVectors(ctx, x); err != nil {
				return nil, err
			}
			if again, err = x.needs(ctx); err != nil {
				return nil, err
			}
		}
	}
	return x, nil
}

// asPlan turns an answer of EXPLAIN, which has a whole plan in one cell, into the
// lines of the plan.
func (r *Rows) asPlan(shown func(string) string) {
	each := r.each
	r.plan = true
	r.columns = []schema.Field{{Name: "plan", Type: schema.Of(schema.StringType), Nullable: true}}
	r.each = func(yield func([]schema.Value, error) bool) {
		for row, err := range each {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, line := range strings.Split(strings.TrimRight(shown(row[len(row)-1].S), "\n"), "\n") {
				if !yield([]schema.Value{schema.StringValue(line)}, nil) {
					return
				}
			}
		}
	}
}
