package scd2

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/write"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// Options says what a history table to be made is like. For one that is there, what is
// set must be what it has.
type Options struct {
	Columns Columns
	// Granularity is ByLabel (where "") or ByChange.
	Granularity string
	// OpenEnd is the end of open rows, a date, or for timestamps a time; OpenEndNull for
	// NULL. "" is DefaultOpenEnd.
	OpenEnd string
	// From is the first label to take; "" is the first that is sealed.
	From string
	// Keep is where the steps are kept; nil keeps none.
	Keep *Keep

	// Memory bounds the rows that are held, in bytes; 0 is 256 MiB.
	Memory  int64
	TempDir string
	// Now is the load time; nil is time.Now.
	Now func() time.Time
	// Progress is told before each label; nil for none.
	Progress func(done, total int, label string)
}

func (o Options) withDefaults() Options {
	o.Memory = cmp.Or(o.Memory, 256<<20)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Progress == nil {
		o.Progress = func(int, int, string) {}
	}
	return o
}

func (o *Options) writing() []write.Option {
	return []write.Option{write.WithMemory(o.Memory / 2), write.WithTempDir(o.TempDir)}
}

// Step is what one label changed.
type Step struct {
	Label string
	// Version is that of the history table, Source that of the source.
	Version, Source       int64
	New, Changed, Deleted int64
	// Opened and Closed count rows of the history.
	Opened, Closed int64
	// Attributes are those of the label's seal.
	Attributes []string
}

// Report is what a run did.
type Report struct {
	// Version is the history table's newest, Last the last label that it has, "" for none.
	Version int64
	Last    string
	// Undone are the labels that the source had rolled back or sealed anew, oldest first.
	Undone []string
	Steps  []Step
	// Deleted are the labels whose savepoints were deleted before they were taken: their
	// changes count from the next label on.
	Deleted []string
}

// ErrChanged tells that a history table has open rows that the labels do not explain:
// another program has changed it.
var ErrChanged = errors.New("another program has changed the history table")

// Build brings a history table up to the last sealed label of its source, and makes it
// where there is none. What it has stays where the source has not changed its mind. The
// Report tells what was done also where there is an error.
func Build(ctx context.Context, src *Source, out *delta.Table, options Options) (*Report, error) {
	o := options.withDefaults()
	r := &Report{Version: -1}
	b := &builder{src: src, out: out, o: &o, report: r}
	err := b.run(ctx)
	if b.st != nil {
		r.Version = b.st.snapshot.Version()
		if n := len(b.st.taken); n > 0 {
			r.Last = b.st.taken[n-1].name
		}
	}
	return r, err
}

type builder struct {
	src    *Source
	out    *delta.Table
	o      *Options
	report *Report
	st     *state
}

func (b *builder) run(ctx context.Context) error {
	st, err := readState(ctx, b.out, b.src)
	switch {
	case errors.Is(err, ErrNotBuilt):
		if err := b.create(ctx); err != nil {
			return err
		}
	case err != nil:
		return err
	default:
		b.st = st
		if err := st.check(b.o); err != nil {
			return fmt.Errorf("%s: %w", b.out.Store(), err)
		}
	}
	if err := b.undo(ctx); err != nil {
		return err
	}
	if err := b.finishKept(ctx); err != nil {
		return err
	}
	return b.takeAll(ctx)
}

// takeAll takes the labels that are due, each in one commit.
func (b *builder) takeAll(ctx context.Context) error {
	behind, err := b.st.behind(b.src.Labels, len(b.st.taken))
	if err != nil {
		return err
	}
	list, deleted := due(b.src.Labels, behind)
	b.report.Deleted = deleted
	for i, e := range list {
		b.o.Progress(i, len(list), e.Name)
		if err := b.take(ctx, e); err != nil {
			return fmt.Errorf("label %s: %w", e.Name, err)
		}
	}
	return nil
}

// raced reads the state anew where another run was first; lost tells that.
func (b *builder) raced(ctx context.Context, res *write.Result) (lost bool, err error) {
	if !res.Known {
		return false, nil
	}
	b.st, err = readState(ctx, b.out, b.src)
	return true, err
}

// take brings the table from the last label that it has to another one.
func (b *builder) take(ctx context.Context, e savepoint.Entry) error {
	for {
		if n := len(b.st.taken); n > 0 && b.st.taken[n-1].label >= e.Label {
			return nil // another run did
		}
		done, err := b.tryTake(ctx, e)
		if err != nil || done {
			return err
		}
		if b.st.undone(b.src.Labels) < len(b.st.taken) {
			return fmt.Errorf("another run of scd2 is at work on %s with an older or newer state of the source: run this again", b.out.Store())
		}
	}
}

func (b *builder) tryTake(ctx context.Context, e savepoint.Entry) (done bool, err error) {
	seal, err := b.src.Labels.Seal(ctx, b.src.Table, e)
	if err != nil {
		return false, err
	}
	to, err := b.src.Table.SnapshotAt(ctx, e.Version)
	if err != nil {
		return false, fmt.Errorf("open version %d of %s: %w; `gscd check` says more", e.Version, b.src.Address, err)
	}
	anew, err := b.follow(ctx, to, e.Name)
	if err != nil {
		return false, err
	}
	s := &stepper{builder: b, entry: e, to: to, step: Step{Label: e.Name, Source: e.Version, Attributes: seal.Evidence.Attributes}}
	if err := s.prepare(); err != nil {
		return false, err
	}
	defer s.dir.Close()
	list, err := s.list(ctx, anew)
	if err != nil {
		return false, err
	}
	res, err := s.write(ctx, list)
	if err != nil {
		return false, err
	}
	if lost, err := b.raced(ctx, &res); lost || err != nil {
		return false, err
	}
	s.step.Version, s.step.Opened, s.step.Closed = res.Version, res.Inserted, res.Updated
	if err := b.advance(ctx, &res); err != nil {
		return false, err
	}
	b.report.Steps = append(b.report.Steps, s.step)
	if res.Updated != s.closes || res.Inserted != s.opens {
		return false, fmt.Errorf("%w: %d rows were closed, not %d; `gscd scd2 --check` tells where", ErrChanged, res.Updated, s.closes)
	}
	if last, ok := b.st.lastTaken(); ok && b.o.Keep != nil {
		return true, b.keepStep(ctx, last)
	}
	return true, nil
}

// advance makes the version that was written the state.
func (b *builder) advance(ctx context.Context, res *write.Result) error {
	s := res.Snapshot
	if s == nil {
		var err error
		if s, err = b.out.SnapshotAt(ctx, res.Version); err != nil {
			return err
		}
	}
	st, err := stateOf(s, b.src)
	if err != nil {
		return err
	}
	b.st = st
	return nil
}

// follow gives the history table the columns of a version of the source.
func (b *builder) follow(ctx context.Context, to *delta.Snapshot, label string) (anew bool, err error) {
	changes, _, anew, err := follow(b.st, b.st.snapshot.Schema(), to.Schema(), label)
	if err != nil || len(changes) == 0 {
		return anew, err
	}
	res, err := write.Alter(ctx, b.out, changes, b.o.writing()...)
	if err != nil {
		return anew, err
	}
	return anew, b.advance(ctx, &res)
}

// create makes the history table, without rows.
func (b *builder) create(ctx context.Context) error {
	list, _ := due(b.src.Labels, b.src.Labels.Progress.State.First-1)
	if b.o.From != "" {
		r, err := b.src.Labels.Resolve(b.o.From, true)
		if err != nil {
			return fmt.Errorf("--from: %w", err)
		}
		list = []savepoint.Entry{r.Entry}
	}
	if len(list) == 0 {
		return fmt.Errorf("%s: %w: no label is sealed", b.src.Address, savepoint.ErrNotSealed)
	}
	at, err := b.src.Table.SnapshotAt(ctx, list[0].Version)
	if err != nil {
		return fmt.Errorf("open version %d of %s: %w; `gscd check` says more", list[0].Version, b.src.Address, err)
	}
	set, err := newSettings(b.src, b.o)
	if err != nil {
		return err
	}
	d := write.Definition{Description: "history of " + b.src.Address, PartitionBy: []string{set.Columns.IsCurrent}, Properties: map[string]string{}}
	odd := false
	fields := slices.Clone(at.Schema().Fields)
	for _, f := range b.src.Snapshot.Schema().Fields { // a key column may be without a value yet
		if slices.Contains(set.Key, f.Stored()) && !slices.ContainsFunc(fields, func(o schema.Field) bool { return o.Stored() == f.Stored() }) {
			fields = append(fields, f)
		}
	}
	if err := checkNames(set.Columns, fields); err != nil {
		return err
	}
	for _, f := range fields {
		set.Fields[f.Stored()] = f.Name
		d.Columns = append(d.Columns, plainField(f, f.Name))
		odd = odd || strings.ContainsAny(f.Name, " ,;{}()\n\t=")
	}
	for _, f := range set.own() {
		d.Columns = append(d.Columns, f)
		odd = odd || strings.ContainsAny(f.Name, " ,;{}()\n\t=")
	}
	d.Properties[Property] = set.text()
	// Who can read the source can read its history.
	if on, _ := at.Property(delta.PropertyDeletionVectors); on == "true" {
		d.Properties[delta.PropertyDeletionVectors] = "true"
	}
	if odd {
		d.Properties[delta.PropertyColumnMapping] = "name"
	}
	res, err := write.Create(ctx, b.out, d, write.Source{}, append(b.o.writing(), write.WithTxn(appSteps, 0))...)
	if errors.Is(err, write.ErrExists) { // another run was first
		b.st, err = readState(ctx, b.out, b.src)
		return err
	}
	if err != nil {
		return err
	}
	return b.advance(ctx, &res)
}

// newSettings are those of a table to be made.
func newSettings(src *Source, o *Options) (*settings, error) {
	set, err := savepoint.SettingsOf(src.Snapshot)
	if err != nil {
		return nil, err
	}
	if len(set.Key) == 0 {
		return nil, fmt.Errorf("%s has no key, and rows without a key have no history", src.Address)
	}
	s := &settings{
		Source: src.Snapshot.Metadata().ID, Address: src.Address, Granularity: cmp.Or(o.Granularity, ByLabel),
		OpenEnd: cmp.Or(o.OpenEnd, DefaultOpenEnd), From: o.From, Columns: o.Columns.withDefaults(), Fields: map[string]string{},
	}
	s.Date = src.Labels.Calendar.DayOrCoarser() && s.Granularity == ByLabel
	switch s.Granularity {
	case ByLabel:
	case ByChange:
		if on, _ := src.Snapshot.Property(delta.PropertyChangeDataFeed); on != "true" {
			return nil, fmt.Errorf("%w: granularity %s needs the change data of %s, which it does not keep (change_data: true)", ErrSettings, ByChange, src.Address)
		}
	default:
		return nil, fmt.Errorf("%w: granularity %q is %s or %s", ErrSettings, s.Granularity, ByLabel, ByChange)
	}
	columns := src.Snapshot.Schema()
	for _, name := range set.Key {
		i := columns.IndexFold(name)
		if i < 0 { // renamed since
			i = slices.IndexFunc(columns.Fields, func(f schema.Field) bool { return strings.EqualFold(f.Stored(), name) })
		}
		if i < 0 {
			return nil, fmt.Errorf("%s lacks its key column %q", src.Address, name)
		}
		s.Key = append(s.Key, columns.Fields[i].Stored())
	}
	_, err = s.open()
	return s, err
}

// undo takes back the labels that the source no longer has as they were taken.
func (b *builder) undo(ctx context.Context) error {
	for {
		at := b.st.undone(b.src.Labels)
		if at == len(b.st.taken) {
			return nil
		}
		gonners := b.st.taken[at:]
		open, err := b.st.open()
		if err != nil {
			return err
		}
		txns := map[string]int64{appRollbacks: b.st.rollbacks + 1}
		var names []string
		for _, t := range gonners {
			txns[appLabel+t.name] = gone(t.version)
			names = append(names, t.name)
		}
		// Rows that a label opened begin with it or later, and those that it closed end so.
		since := b.st.boundary(b.src.Labels.Calendar, gonners[0].label)
		columns := b.st.snapshot.Schema()
		from, to, current := columns.Index(b.st.Columns.ValidFrom), columns.Index(b.st.Columns.ValidTo), columns.Index(b.st.Columns.IsCurrent)
		literal := b.literal(since)
		where := fmt.Sprintf("%s >= %s OR %s >= %s AND %s = FALSE",
			quote(b.st.Columns.ValidFrom), literal, quote(b.st.Columns.ValidTo), literal, quote(b.st.Columns.IsCurrent))
		res, err := write.Edit(ctx, b.out, where, func(next []schema.Value) (bool, error) {
			if expr.Compare(next[from], since) >= 0 {
				return false, nil
			}
			next[to], next[current] = open, schema.BoolValue(true)
			return true, nil
		}, append(b.o.writing(), write.WithTxn(appSteps, b.st.steps+1), write.WithTxns(txns), write.WithCommitInfo(map[string]any{Property: map[string]any{"undone": names}}))...)
		if err != nil {
			return fmt.Errorf("undo %s: %w", strings.Join(names, ", "), err)
		}
		if lost, err := b.raced(ctx, &res); err != nil {
			return err
		} else if lost {
			continue
		}
		b.report.Undone = append(b.report.Undone, names...)
		if err := b.advance(ctx, &res); err != nil {
			return err
		}
	}
}

// literal writes an end of intervals as a filter has it.
func (b *builder) literal(v schema.Value) string {
	if b.st.Date {
		return "DATE '" + time.Unix(v.I*86400, 0).UTC().Format("2006-01-02") + "'"
	}
	return "TIMESTAMP '" + time.UnixMicro(v.I).UTC().Format("2006-01-02T15:04:05.000000Z") + "'"
}

// quote writes a name as a filter has it.
func quote(name string) string { return "`" + strings.ReplaceAll(name, "`", "``") + "`" }

// lastTaken is the last label of the table.
func (st *state) lastTaken() (t taken, ok bool) {
	if len(st.taken) == 0 {
		return taken{label: snapshotter.Label(-1)}, false
	}
	return st.taken[len(st.taken)-1], true
}
