package scd2

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/rowhash"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// CheckOptions says what is compared.
type CheckOptions struct {
	// From and To bound the labels; "" bounds nothing.
	From, To string
	// Keys is how many differing keys are named for each label; 0 is 100.
	Keys int

	Memory   int64
	TempDir  string
	Progress func(done, total int, label string)
}

// The problems of a Fault.
const (
	Missing   = "missing"   // the savepoint has the key, the history has not
	Extra     = "extra"     // the history has the key, the savepoint has not
	Different = "different" // both have it, with other values
	Interval  = "interval"  // an interval is empty, or is_current is not what valid_to says
	Overlap   = "overlap"   // an interval of the key begins before the one before it has ended
	OpenTwice = "open"      // the key has more than one open interval
)

// Fault is a key whose history is not what a savepoint says.
type Fault struct {
	// Label is "" for Interval, Overlap and OpenTwice.
	Label   string
	Problem string
	Key     string
	// Columns are those that differ.
	Columns []string
}

// CheckReport is the outcome of a check.
type CheckReport struct {
	Version int64
	Labels  []string
	// Gone are labels that were taken and whose savepoints are deleted: they can't be compared.
	Gone   []string
	Faults []Fault
	// Differing counts labels with faults.
	Differing int
}

// Check compares the history table, filtered at each label that it has, with the label's
// savepoint. It reads the history once for all labels that have the same columns, and
// each savepoint; only labels that differ are sorted.
func Check(ctx context.Context, src *Source, out *delta.Table, c CheckOptions) (*CheckReport, error) {
	if c.Keys <= 0 {
		c.Keys = 100
	}
	o := Options{Memory: c.Memory, TempDir: c.TempDir, Progress: c.Progress}.withDefaults()
	st, err := readState(ctx, out, src)
	if err != nil {
		return nil, err
	}
	k := &checker{src: src, out: out, st: st, o: &o, c: &c, report: &CheckReport{Version: st.snapshot.Version()}}
	return k.report, k.run(ctx)
}

type checker struct {
	src    *Source
	out    *delta.Table
	st     *state
	o      *Options
	c      *CheckOptions
	report *CheckReport
}

// compared is a label to compare: of its savepoint the columns and the sum of the rows.
type compared struct {
	taken
	columns *schema.Schema
	text    string // of columns
	sum     digest
	moment  schema.Value
}

func (k *checker) run(ctx context.Context) error {
	labels, err := k.labels(ctx)
	if err != nil {
		return err
	}
	if k.report.Faults, err = k.st.intervals(ctx, k.out, k.st.snapshot, k.o, k.c.Keys); err != nil {
		return err
	}
	for len(labels) > 0 {
		n := 1
		for n < len(labels) && labels[n].text == labels[0].text {
			n++
		}
		if err := k.group(ctx, labels[:n]); err != nil {
			return err
		}
		labels = labels[n:]
	}
	return nil
}

// labels are those to compare, rising.
func (k *checker) labels(ctx context.Context) ([]compared, error) {
	cal := k.src.Labels.Calendar
	bound := func(name string, other snapshotter.Label) (snapshotter.Label, error) {
		if name == "" {
			return other, nil
		}
		return cal.Parse(name)
	}
	from, err := bound(k.c.From, -1<<62)
	if err != nil {
		return nil, err
	}
	to, err := bound(k.c.To, 1<<62)
	if err != nil {
		return nil, err
	}
	deleted := map[snapshotter.Label]bool{}
	for _, e := range k.src.Labels.Entries {
		deleted[e.Label] = deleted[e.Label] || !e.Kept && e.State == savepoint.DeletedOne
	}
	var list []compared
	chosen := slices.DeleteFunc(slices.Clone(k.st.taken[:k.st.undone(k.src.Labels)]), func(t taken) bool { return t.label < from || t.label > to })
	for i, t := range chosen {
		if deleted[t.label] {
			k.report.Gone = append(k.report.Gone, t.name)
			continue
		}
		k.o.Progress(i, len(chosen), t.name)
		l := compared{taken: t, moment: k.st.moment(cal, t.label)}
		if n := len(list); n > 0 && list[n-1].version == t.version { // empty labels share a version
			l.columns, l.text, l.sum = list[n-1].columns, list[n-1].text, list[n-1].sum
		} else if err := k.read(ctx, &l); err != nil {
			return nil, fmt.Errorf("label %s: %w", t.name, err)
		}
		list = append(list, l)
		k.report.Labels = append(k.report.Labels, t.name)
	}
	return list, nil
}

// open opens the savepoint of a label.
func (k *checker) open(ctx context.Context, l *compared) (*delta.Snapshot, error) {
	s, err := k.src.Table.SnapshotAt(ctx, l.version)
	if err != nil {
		return nil, fmt.Errorf("open version %d of %s: %w; `gscd check` says more", l.version, k.src.Address, err)
	}
	return s, nil
}

// read reads the savepoint of a label.
func (k *checker) read(ctx context.Context, l *compared) error {
	s, err := k.open(ctx, l)
	if err != nil {
		return err
	}
	l.columns, l.text = s.Schema(), s.Metadata().SchemaString
	l.sum, err = k.sourceSum(ctx, s)
	return err
}

// digest is a sum over rows in any order, and how many they are.
type digest struct {
	sum  [4]uint64
	rows int64
}

func (d *digest) add(s rowhash.Sum, sign int64) {
	for i := range d.sum {
		d.sum[i] += uint64(sign) * binary.LittleEndian.Uint64(s[8*i:])
	}
	d.rows += sign
}

func (d *digest) merge(o digest) {
	for i := range d.sum {
		d.sum[i] += o.sum[i]
	}
	d.rows += o.rows
}

// group compares labels whose savepoints have the same columns.
func (k *checker) group(ctx context.Context, labels []compared) error {
	columns := k.st.snapshot.Schema()
	p, err := place(k.st, columns, labels[0].columns)
	if err != nil {
		return err
	}
	history, err := k.historySums(ctx, labels, p)
	if err != nil {
		return err
	}
	for i := range labels {
		l := &labels[i]
		if l.sum == history[i] {
			continue
		}
		k.report.Differing++
		if err := k.differing(ctx, l, p); err != nil {
			return fmt.Errorf("label %s: %w", l.name, err)
		}
	}
	return nil
}

// historySums gives the sum of the rows of the history at each of some labels, in one pass.
func (k *checker) historySums(ctx context.Context, labels []compared, p *placing) ([]digest, error) {
	columns := k.st.snapshot.Schema()
	reading, err := scan.New(k.out.Store(), k.st.snapshot, scan.Options{})
	if err != nil {
		return nil, err
	}
	from, to, current, err := k.ends()
	if err != nil {
		return nil, err
	}
	hash := rowhash.New(k.st.hashed(columns), p.places())
	steps := make([]digest, len(labels)+1)
	first := func(v schema.Value) int { // label at whose moment v is past
		return sort.Search(len(labels), func(i int) bool { return labels[i].moment.I >= v.I })
	}
	for row, err := range reading.Rows(ctx) {
		if err != nil {
			return nil, err
		}
		end := len(labels)
		if row[current].I == 0 {
			end = first(row[to])
		}
		if begin := first(row[from]); begin < end {
			sum := hash.Sum(row)
			steps[begin].add(sum, 1)
			steps[end].add(sum, -1)
		}
	}
	for i := 1; i < len(steps); i++ {
		steps[i].merge(steps[i-1])
	}
	return steps, nil
}

// ends are the places of the history's own columns.
func (k *checker) ends() (from, to, current int, err error) {
	columns, c := k.st.snapshot.Schema(), k.st.Columns
	from, to, current = columns.Index(c.ValidFrom), columns.Index(c.ValidTo), columns.Index(c.IsCurrent)
	if from < 0 || to < 0 || current < 0 {
		return 0, 0, 0, fmt.Errorf("the history table lacks one of its columns %q: another program dropped or renamed it; build the table anew", c.list())
	}
	return from, to, current, nil
}

// sourceSum is the sum of the rows of a version of the source.
func (k *checker) sourceSum(ctx context.Context, s *delta.Snapshot) (d digest, err error) {
	reading, err := scan.New(k.src.Table.Store(), s, scan.Options{})
	if err != nil {
		return d, err
	}
	fields := slices.Clone(s.Schema().Fields)
	for i := range fields {
		fields[i].Name = fields[i].Stored()
	}
	hash := rowhash.New(fields, nil)
	for row, err := range reading.Rows(ctx) {
		if err != nil {
			return d, err
		}
		d.add(hash.Sum(row), 1)
	}
	return d, nil
}

// differing names the keys of a label that differ.
func (k *checker) differing(ctx context.Context, l *compared, p *placing) error {
	s, err := k.open(ctx, l)
	if err != nil {
		return err
	}
	columns, c := k.st.snapshot.Schema(), k.st.Columns
	b := &builder{st: k.st}
	at := b.literal(l.moment)
	where, err := expr.Parse(fmt.Sprintf("%s <= %s AND (%s > %s OR %s = TRUE)", quote(c.ValidFrom), at, quote(c.ValidTo), at, quote(c.IsCurrent)), columns)
	if err != nil {
		return err
	}
	before := sorted(ctx, k.out, k.st.snapshot, p.key, where, k.o)
	after := sourceRows(ctx, k.src, s, p, len(columns.Fields), p.key, k.o)
	left := k.c.Keys
	for ch, err := range compare(before, after, p.key, p.places()) {
		if err != nil {
			return err
		}
		f := Fault{Label: l.name}
		switch ch.kind {
		case New:
			f.Problem, f.Key = Missing, keyText(columns, p.key, ch.after)
		case Deleted:
			f.Problem, f.Key = Extra, keyText(columns, p.key, ch.before)
		default:
			f.Problem, f.Key = Different, keyText(columns, p.key, ch.after)
			for _, i := range p.places() {
				if !schema.Equal(ch.before[i], ch.after[i]) {
					f.Columns = append(f.Columns, columns.Fields[i].Name)
				}
			}
		}
		k.report.Faults = append(k.report.Faults, f)
		if left--; left == 0 {
			break
		}
	}
	return nil
}

// keyText writes a key as id=1,region=eu.
func keyText(columns *schema.Schema, key []int, row []schema.Value) string {
	var parts []string
	for _, k := range key {
		text := "NULL"
		if !row[k].IsNull() {
			text = string(schema.AppendText(nil, columns.Fields[k].Type, row[k]))
		}
		parts = append(parts, columns.Fields[k].Name+"="+text)
	}
	return strings.Join(parts, ",")
}
