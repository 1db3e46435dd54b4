package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/server"
)

// waitFlags are the flags of wait.
type waitFlags struct {
	asOf              string
	sealed            bool
	timeout, interval string

	every time.Duration // of interval
}

func newWaitCommand(a *app) *cobra.Command {
	var f waitFlags
	c := &cobra.Command{
		Use:     "wait [TABLE...]",
		GroupID: groupReading,
		Short:   "Wait until a day is sealed",
		Long: `Looks at each TABLE (default: --table, else all that are configured) until the label of
--as-of is sealed in all of them, and prints a row for each as it is. Without --sealed it is
enough that the label is open.

A look asks for the commit behind the last one that is known, and no more. Exits with 0 when
all are sealed, 3 at the timeout, and 1 where the day cannot come: before the first one, rolled
back for good, deleted, or no label of the calendar. A configured table need not exist yet.
Storage that fails for a while is asked again.`,
		Example: `  gscd wait --as-of 2022-07-16 --sealed --timeout 2h
  gscd wait -c gscd.yaml user_dim order_dim --as-of 2022-07-16 --sealed --timeout 6h --interval 30s
  gscd wait --table s3://lake/dim/user_dim --as-of "$(date -d yesterday +%F)" --sealed && ./report.sh`,
		RunE: func(c *cobra.Command, args []string) error {
			if f.asOf == "" {
				return usagef("--as-of is missing: the label to wait for")
			}
			ctx := c.Context()
			if f.timeout != "" {
				d, err := config.ParseDuration(f.timeout)
				if err != nil {
					return usagef("--timeout: %w", err)
				}
				var cancel context.CancelFunc
				ctx, cancel = context.WithDeadlineCause(ctx, time.Now().Add(d), errWaited)
				defer cancel()
			}
			var err error
			if f.every, err = config.ParseDuration(f.interval); err != nil {
				return usagef("--interval: %w", err)
			}
			if f.every < leastWait {
				return usagef("--interval %s is too short: give %s or more", f.interval, leastWait)
			}
			refs, err := a.tablesToWaitFor(args)
			if err != nil {
				return err
			}
			return a.wait(ctx, refs, f)
		},
		ValidArgsFunction: a.completeTables,
	}
	flags := c.Flags()
	flags.StringVar(&f.asOf, "as-of", "", "the `label` to wait for: 2022-07-16")
	flags.BoolVar(&f.sealed, "sealed", false, "wait for its seal; else for its first commit")
	flags.StringVar(&f.timeout, "timeout", "", "longest `duration` to wait; 0 looks once (default: for ever)")
	flags.StringVar(&f.interval, "interval", "10s", "`duration` between two looks")
	return c
}

// leastWait is the shortest time between two looks.
const leastWait = 100 * time.Millisecond

// errWaited is why a context ends at the timeout.
var errWaited = errors.New("waited long enough")

// tablesToWaitFor are those that are named, else that of --table, else all configured.
func (a *app) tablesToWaitFor(names []string) ([]tableRef, error) {
	var err error
	switch {
	case len(names) > 0 && a.flags.table != "":
		return nil, usagef("name the tables behind the command or with --table, not both")
	case len(names) == 0:
		if names, err = a.tablesToShow(); err != nil {
			return nil, err
		}
	}
	var refs []tableRef
	for _, name := range names {
		ref, err := a.resolveTable(name)
		if err != nil {
			return nil, err
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

// waited is a table that is waited for.
type waited struct {
	tableRef
	t    *openedTable // nil before it could be opened
	done bool
	// why is what was missing at the last look, said when it changes.
	why string
}

// wait looks at the tables until the label is there in all of them.
func (a *app) wait(ctx context.Context, refs []tableRef, f waitFlags) error {
	w, err := a.printRecords("table", "label", "version", "state", "sealed_at", "rows", "attributes", "digest")
	if err != nil {
		return err
	}
	list := make([]*waited, len(refs))
	for i, ref := range refs {
		list[i] = &waited{tableRef: ref}
	}
	tick := time.NewTicker(f.every)
	defer tick.Stop()
	for {
		var missing []string
		for _, t := range list {
			if t.done {
				continue
			}
			// What is under way at the timeout ends: a timeout of 0 is one look.
			values, err := a.look(context.WithoutCancel(ctx), t, f)
			switch {
			case err != nil:
				return errors.Join(err, w.Close())
			case !t.done:
				missing = append(missing, t.why)
			default:
				if err := w.Write(values...); err != nil {
					return err
				}
			}
		}
		if len(missing) == 0 {
			return w.Close()
		}
		select {
		case <-ctx.Done():
			if err := w.Close(); err != nil {
				return err
			}
			if errors.Is(context.Cause(ctx), errWaited) {
				return nof("the timeout has come: %s", strings.Join(missing, "; "))
			}
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// look looks at a table once: it is done, with what is to be printed, or why says what is
// missing. The error is one that no waiting mends.
func (a *app) look(ctx context.Context, t *waited, f waitFlags) ([]any, error) {
	lack := func(why string) {
		if why != t.why {
			a.noticef("waiting: %s", why)
		}
		t.why = why
	}
	err := a.freshen(ctx, t)
	switch {
	case errors.Is(err, delta.ErrNotATable) && t.Config != nil && t.t == nil:
		lack(fmt.Sprintf("table %s does not exist yet: no record with a label was taken", t.Name))
		return nil, nil
	case err != nil && t.t != nil && server.Retryable(err):
		a.log.Warn("the table could not be looked at, and is again", zap.String("table", t.Name), zap.Error(err))
		lack(fmt.Sprintf("table %s: %v", t.Name, err))
		return nil, nil
	case err != nil:
		return nil, err
	}
	m := t.t.labels
	r, err := m.Resolve(f.asOf, f.sealed)
	switch {
	case err == nil:
	case errors.Is(err, savepoint.ErrRolledBack):
		// What is replayed opens again; a label behind the open one stays as it is.
		if l, parsed := m.Calendar.Parse(f.asOf); parsed == nil && l < m.Progress.State.Open {
			return nil, fmt.Errorf("table %s: it will not be sealed: %w", t.Name, err)
		}
		lack(fmt.Sprintf("table %s: %v", t.Name, err))
		return nil, nil
	case notSealed(err):
		lack(fmt.Sprintf("table %s: %v", t.Name, err))
		return nil, nil
	default:
		return nil, fmt.Errorf("table %s: %w", t.Name, err)
	}
	t.done = true
	if r.Entry.State == savepoint.Open {
		a.noticef("table %s: %s", t.Name, r.Notice)
		return []any{t.Name, r.Entry.Name, t.t.newest.Version(), string(r.Entry.State), nil, m.Progress.Rows, []string{}, nil}, nil
	}
	seal, err := m.Seal(ctx, t.t.table, r.Entry)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", t.Name, err)
	}
	ev := seal.Evidence
	switch {
	case r.Notice != "":
		a.noticef("table %s: %s", t.Name, r.Notice)
	case ev.Reason != "":
		a.noticef("table %s: %s is incomplete: %s", t.Name, r.Entry.Name, ev.Reason)
	}
	return []any{t.Name, r.Entry.Name, r.Entry.Version, string(r.Entry.State), instant(ev.SealedAt), ev.Rows, append([]string{}, ev.Attributes...), ev.Digest}, nil
}

// freshen opens a table, or reads what was committed since the last look.
func (a *app) freshen(ctx context.Context, t *waited) error {
	if t.t == nil {
		opened, err := a.openRef(ctx, t.tableRef)
		if err != nil {
			return err
		}
		if opened.labels == nil {
			return fmt.Errorf("table %s: %w: it has no labels to wait for", t.Name, savepoint.ErrForeign)
		}
		t.t = opened
		return nil
	}
	newest, err := t.t.table.Update(ctx, t.t.newest)
	if err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	if newest.Version() == t.t.newest.Version() {
		t.t.newest = newest
		return nil
	}
	labels, err := savepoint.Read(ctx, t.t.table, newest)
	if err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	t.t.newest, t.t.labels = newest, labels
	return nil
}
