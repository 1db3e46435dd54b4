package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/server"
	"github.com/gscd-io/gscd/snapshotter"
)

// whyFlags are those of `gscd status --why`.
type whyFlags struct {
	sourceFlags
	sealed bool
	from   string
}

// notThere is the state of a table that does not exist yet, and future that of a
// label after the open one.
const (
	notThere = "no-table"
	future   = "future"
)

// whyNot is the answer to "why is this label not sealed?".
type whyNot struct {
	table, label, state string
	version             int64 // of the savepoint, -1 where there is none
	sealedAt            any
	starts, ends, clock time.Time
	answer              string
	earliest, byClock   time.Time
	causes              []server.CauseStatus
	partitions          []output.Record
	unknown             []string
	process             string // who was asked, "" for nobody
}

// why answers for the tables, and ends with 3 where --sealed wants a sealed label
// and one is not.
func (a *app) why(ctx context.Context, tables []string, label string, f *whyFlags) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	process, err := a.askProcess(ctx, cfg, f.from)
	if err != nil {
		return err
	}
	if a.flags.table == "" && len(cfg.Tables) == 0 && process.status != nil { // the process knows which tables there are
		return a.printWhys(whysOf(&process, label), f.sealed)
	}
	var list []*whyNot
	for _, a.flags.table = range tables {
		t, err := a.openTable(ctx)
		var w *whyNot
		switch {
		case errors.Is(err, delta.ErrNotATable):
			ref, rerr := a.resolveTable(a.flags.table)
			if rerr != nil || ref.Config == nil {
				return err // a mistyped address is no table to come
			}
			w = &whyNot{table: ref.Name, state: notThere, version: -1, clock: time.Now(), answer: fmt.Sprintf("Table %s does not exist yet: no record with a label was taken.", ref.Name)}
			w.ask(&process)
		case err != nil:
			return err
		default:
			if w, err = a.whyOf(ctx, t, label, f, &process); err != nil {
				return err
			}
		}
		list = append(list, w)
	}
	return a.printWhys(list, f.sealed)
}

// whyOf answers for one table.
func (a *app) whyOf(ctx context.Context, t *openedTable, label string, f *whyFlags, process *asked) (*whyNot, error) {
	m := t.labels
	open := m.Progress.State.Open
	l := open
	if label != "" {
		var err error
		if l, err = m.Calendar.Parse(label); err != nil {
			return nil, fmt.Errorf("table %s: %w", t.Name, err)
		}
	}
	w := &whyNot{table: t.Name, label: m.Calendar.Name(l), version: -1, clock: time.Now(),
		starts: time.UnixMicro(m.Calendar.Start(l)), ends: time.UnixMicro(m.Calendar.End(l))}
	if l < open {
		return w, a.whyPast(ctx, t, w)
	}
	s, err := a.statusOf(ctx, t, &f.sourceFlags)
	if err != nil {
		return nil, err
	}
	why := s.Why(nil)
	w.state, w.clock, w.earliest, w.byClock = string(savepoint.Open), s.Clock, why.Earliest, why.ByClock
	w.causes, w.partitions, w.unknown = causesOf(why), s.PartitionRecords(), why.Unknown
	w.answer = fmt.Sprintf("%s is open. %s", w.label, why.Answer())
	w.ask(process)
	if l > open {
		w.after(m, open, l, s)
	}
	return w, nil
}

// whyPast answers for a label before the open one.
func (a *app) whyPast(ctx context.Context, t *openedTable, w *whyNot) error {
	r, err := t.labels.Resolve(w.label, true)
	switch {
	case errors.Is(err, savepoint.ErrRolledBack):
		w.state = string(savepoint.RolledBack)
	case errors.Is(err, savepoint.ErrDeleted):
		w.state = string(savepoint.DeletedOne)
	case err != nil:
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	if err != nil {
		w.answer = fmt.Sprintf("%s.", strings.TrimSuffix(err.Error(), "."))
		return nil
	}
	seal, err := t.labels.Seal(ctx, t.table, r.Entry)
	if err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	w.state, w.version, w.sealedAt = string(savepoint.Sealed), r.Entry.Version, instant(seal.Evidence.SealedAt)
	w.answer = fmt.Sprintf("%s is sealed: version %d, at %s, with %d rows.", w.label, w.version, seal.Evidence.SealedAt, seal.Evidence.Rows)
	if r.Notice != "" {
		w.answer += fmt.Sprintf(" %s.", r.Notice)
	}
	return nil
}

// after answers for a label that comes after the open one.
func (w *whyNot) after(m *savepoint.Map, open, l snapshotter.Label, s *server.Standing) {
	w.state = future
	wait := m.Calendar.End(l) - m.Calendar.End(open)
	if !w.earliest.IsZero() {
		w.earliest = time.UnixMicro(m.Calendar.End(l) + m.Progress.State.Wait)
	}
	if !w.byClock.IsZero() {
		w.byClock = w.byClock.Add(time.Duration(wait) * time.Microsecond)
	}
	first := server.CauseStatus{Rule: "earlier_label", Why: fmt.Sprintf("%s has to be sealed first: labels are sealed one after the other, and it is the open one.", m.Calendar.Name(open)),
		Do: "See what holds the open label: the other causes are its."}
	w.causes = append([]server.CauseStatus{first}, w.causes...)
	w.answer = fmt.Sprintf("%s is not open yet. %s", w.label, first.Why)
}

// ask adds what the process said. Where it knows the table its answer goes before
// what table and brokers tell: it has offsets that are not committed yet.
func (w *whyNot) ask(q *asked) {
	switch t := q.table(w.table); {
	case q.url == "":
	case q.status == nil:
		where := " of the configuration (http.address)"
		if q.named {
			where = ""
		}
		down := server.CauseStatus{Rule: server.RuleNoProcess,
			Why: fmt.Sprintf("No process answers at %s%s: %v.", q.url, where, q.err),
			Do:  "Start `gscd ingest`. If it runs on another host, name it: --from http://HOST:PORT."}
		for i, c := range w.causes {
			if c.Rule == server.RuleNoProcess {
				w.causes[i].Why += " " + down.Why
				return
			}
		}
		w.causes = append(w.causes, down)
	case t == nil:
		w.unknown = append(w.unknown, fmt.Sprintf("The process at %s does not have table %s; it has: %s.", q.url, w.table, cmp.Or(q.tables(), "none")))
	default:
		w.process = q.url
		if t.Why == nil { // it runs, and no record has come
			w.unknown = nil
			return
		}
		if w.state == notThere {
			w.causes = t.Why.Causes
			return
		}
		w.take(t)
		w.answer = fmt.Sprintf("%s is open. %s", w.label, t.Why.Answer)
	}
}

// take takes a process's view of the open label.
func (w *whyNot) take(t *server.TableStatus) {
	if t.Open == nil { // it has not loaded the table: the table knows more
		w.causes = append(t.Why.Causes, w.causes...)
		return
	}
	w.causes, w.unknown = t.Why.Causes, nil
	w.earliest, w.byClock, w.clock = orZero(t.Why.Earliest), orZero(t.Why.ByClock), orZero(t.Clock)
	w.partitions = nil
	for i := range t.Partitions {
		w.partitions = append(w.partitions, remotePartition(&t.Partitions[i]))
	}
}

// whysOf are the answers that the process alone gives.
func whysOf(q *asked, label string) (list []*whyNot) {
	for i := range q.status.Tables {
		t := &q.status.Tables[i]
		w := &whyNot{table: t.Table, state: notThere, version: -1, process: q.url, clock: time.Now(),
			answer: fmt.Sprintf("Table %s does not exist yet: no record with a label was taken.", t.Table)}
		if t.Open != nil {
			w.label, w.state, w.starts, w.ends = *t.Open, string(savepoint.Open), orZero(t.Starts), orZero(t.Ends)
			w.answer = *t.Open + " is open."
		}
		if t.Why != nil {
			w.take(t)
			w.answer = strings.TrimSpace(fmt.Sprintf("%s %s", w.answer, t.Why.Answer))
		}
		if label != "" && label != w.label {
			w.unknown = append(w.unknown, fmt.Sprintf("Of %s nothing is known: the process tells of the open label alone, and no table is named (--table ADDRESS, or -c FILE).", label))
		}
		list = append(list, w)
	}
	return list
}

func orZero(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return *t
}

func remotePartition(p *server.PartitionStatus) output.Record {
	known := func(n *int64) any {
		if n == nil {
			return nil
		}
		return *n
	}
	return output.Record{
		{Name: "topic", Value: p.Topic}, {Name: "partition", Value: p.Partition}, {Name: "next", Value: p.Next},
		{Name: "end", Value: known(p.End)}, {Name: "lag", Value: known(p.Lag)}, {Name: "watermark", Value: orZero(p.Watermark)},
		{Name: "paused", Value: p.Paused}, {Name: "waits_for", Value: p.WaitsFor}, {Name: "holds_since", Value: orZero(p.HoldsSince)},
	}
}

func causesOf(w *server.Why) (out []server.CauseStatus) {
	at := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		return &t
	}
	for i := range w.Causes {
		c := &w.Causes[i]
		s := server.CauseStatus{Rule: c.Rule, Since: at(c.Since), Earliest: at(c.Earliest), Why: c.Text, Do: c.Do}
		if c.Partition != nil {
			s.Topic, s.Partition = &c.Partition.Topic, &c.Partition.Partition
		}
		out = append(out, s)
	}
	return out
}
