package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"

	"github.com/gscd-io/gscd/query/changes"
	"github.com/gscd-io/gscd/query/output"
)

// startOfFollow finds the version behind which a follower begins; begun is false where no
// flag says it.
func (f changesFlags) start(ctx context.Context, t *openedTable, feed *changes.Feed) (behind int64, begun bool, err error) {
	switch {
	case f.from != "":
		behind, err = feed.Before(f.from)
		if err != nil {
			err = changesFault(t, err)
		}
	case f.fromTimestamp != "":
		behind, err = f.since(ctx, t)
		behind--
	case f.fromVersion >= 0:
		behind = f.fromVersion - 1
		if behind > t.newest.Version() {
			err = usagef("table %s: --from-version %d is not the next one: the newest is %d", t.Name, f.fromVersion, t.newest.Version())
		}
	default:
		return 0, false, nil
	}
	return behind, true, err
}

// followChanges prints changes as they are committed, or as labels are sealed.
func (a *app) followChanges(ctx context.Context, f changesFlags) error {
	t, err := a.openDelta(ctx)
	if err != nil {
		return err
	}
	feed, err := a.feed(t, f.key)
	if err != nil {
		return err
	}
	format, err := output.Resolve(a.flags.format, a.stdout)
	if err != nil {
		return err
	}
	if format == output.JSON {
		return usagef("--format json is one array, which --follow never ends: use jsonl")
	}
	behind, begun, err := f.start(ctx, t, feed)
	if err != nil {
		return err
	}
	if !begun {
		behind = t.newest.Version()
	}
	p := &followed{a: a, f: f, t: t, format: format, done: behind}
	follow := changes.Follow{Table: t.table, Options: a.changeOptions(f.key), Position: behind, Sealed: f.sealed || f.net, Poll: f.poll}
	a.noticef("following behind version %d; Ctrl-C ends it", behind)
	for {
		feed, ends, err := follow.Next(ctx)
		for _, end := range ends {
			if err == nil {
				err = p.print(ctx, feed, follow.Position, end)
			}
			if err == nil {
				follow.Position = end
			}
		}
		switch {
		case ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)):
			a.noticef("stopped behind version %d: --from-version %d goes on", p.done, p.done+1)
			return nil
		case err != nil:
			a.noticef("printed up to version %d: --from-version %d goes on", p.done, p.done+1)
			return changesFault(t, err)
		}
	}
}

// followed is what a follower prints.
type followed struct {
	a      *app
	f      changesFlags
	t      *openedTable
	format string
	header bool  // of CSV, which is printed
	done   int64 // the last version that is printed
}

// print prints the changes above a version, up to another one. Where ctx ends, it ends
// behind a version that was begun.
func (p *followed) print(ctx context.Context, feed *changes.Feed, after, end int64) error {
	inner := context.WithoutCancel(ctx)
	var list iter.Seq2[*changes.Change, error]
	if p.f.net {
		u, done, err := feed.NetBetween(inner, after, end)
		if err != nil {
			return err
		}
		defer done()
		list = u.Changes()
	} else {
		list = feed.Versions(inner, after+1, end)
	}
	table, err := newChangeTable(feed.Columns(), p.f.columns, p.t.labels != nil)
	if err != nil {
		return err
	}
	var w output.Writer
	last := int64(-1)
	for c, err := range list {
		if err != nil {
			if w != nil { // what is printed up to here is said to be
				err = errors.Join(err, w.Close())
			}
			return err
		}
		if last >= 0 && c.Version != last {
			p.done = last
			if ctx.Err() != nil {
				break
			}
		}
		last = c.Version
		if w == nil {
			if w, err = output.NewWriter(p.format, p.out(), table.columns); err != nil {
				return err
			}
		}
		if err := w.Write(table.row(c)); err != nil {
			return err
		}
	}
	if w != nil {
		if err := w.Close(); err != nil {
			return err
		}
	}
	if ctx.Err() != nil && last >= 0 && p.done == last {
		return ctx.Err()
	}
	p.done = end
	return nil
}

// out is standard output; of CSV without the header where it is printed.
func (p *followed) out() io.Writer {
	if p.format != output.CSV || !p.header {
		p.header = true
		return p.a.stdout
	}
	return &headless{out: p.a.stdout}
}

// headless drops the first line.
type headless struct {
	out    io.Writer
	behind bool
}

func (h *headless) Write(p []byte) (int, error) {
	n := len(p)
	if !h.behind {
		at := bytes.IndexByte(p, '\n')
		if at < 0 {
			return n, nil
		}
		p, h.behind = p[at+1:], true
	}
	_, err := h.out.Write(p)
	return n, err
}
