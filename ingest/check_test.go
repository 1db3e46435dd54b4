package ingest_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/upsert"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/deadletter"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/savepoint"
)

// readMap gives the label-to-version map of the newest version.
func (tr *trial) readMap() (*savepoint.Map, error) {
	table, err := delta.Open(ctx, tr.store)
	if err != nil {
		return nil, err
	}
	s, err := table.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return savepoint.Read(ctx, table, s)
}

// newest is the newest version, -1 without a table.
func (tr *trial) newest() int64 {
	versions, err := delta.New(tr.store).Versions(ctx)
	if err != nil || len(versions) == 0 {
		return -1
	}
	return versions[len(versions)-1]
}

// compare finds what the table says otherwise than the model. whole tells that
// everything there is was read; after a crash the open label is left out.
func (tr *trial) compare(whole bool) error {
	if err := tr.compareTable(whole); err != nil {
		return err
	}
	return tr.walk()
}

func (tr *trial) compareTable(whole bool) error {
	m, err := tr.readMap()
	switch {
	case errors.Is(err, delta.ErrNotATable) && !tr.m.begun:
		return nil
	case err != nil:
		return err
	case !tr.m.begun:
		return errors.New("there is a table, though no labelled record was seen")
	}
	states, all := tr.m.states()
	open := tr.m.open()
	if got := m.Progress.State.Open; got != open {
		return fmt.Errorf("label %s is open, the model says %s", tr.name(got), tr.name(open))
	}
	if err := tr.compareLabels(m, all, whole); err != nil {
		return err
	}
	loose := crosses(tr.events, tr.rules.tombstones == "delete")
	for _, e := range m.Entries {
		if e.Kept || e.State == savepoint.RolledBack || e.State == savepoint.DeletedOne || e.State == savepoint.Open && !whole {
			continue
		}
		at := labelAt{e.Label, e.Version}
		if e.State == savepoint.Sealed && tr.seen[at] {
			continue // a sealed label does not change: the last step looks again
		}
		tr.seen[at] = true
		if err := tr.compareLabel(m, e, states[e.Label], loose); err != nil {
			return fmt.Errorf("label %s (version %d): %w", e.Name, e.Version, err)
		}
	}
	if !whole {
		return nil
	}
	if err := tr.compareDead(m, states, all); err != nil {
		return err
	}
	return tr.compareKeys(states[open], all)
}

// labelAt is a label as of a version.
type labelAt struct {
	label   label
	version int64
}

func (tr *trial) name(l label) string { return tr.rules.cal.Name(l) }

// compareLabels compares the states of all labels, and tells the model the versions.
func (tr *trial) compareLabels(m *savepoint.Map, all []*verdict, whole bool) error {
	got := map[label]savepoint.State{}
	for _, e := range m.Entries {
		if !e.Kept {
			got[e.Label] = e.State
		}
	}
	want := map[label]savepoint.State{}
	open := tr.m.open()
	for _, s := range tr.m.seals {
		want[s.label] = savepoint.Sealed
		if tr.m.gone[labelAt{s.label, s.version}] {
			want[s.label] = savepoint.DeletedOne
		}
	}
	for l := range tr.m.rolled {
		want[l] = savepoint.RolledBack
	}
	want[open] = savepoint.Open
	named := slices.ContainsFunc(all, func(v *verdict) bool { return v.open == open || v.judged && v.at == open })
	named = named || slices.ContainsFunc(tr.m.foreign, func(v *verdict) bool { return v.op != 'm' })
	if tr.m.rolled[open] && got[open] == savepoint.RolledBack && (!whole || !named) {
		want[open] = savepoint.RolledBack // no commit has named it again
	}
	if !maps.Equal(got, want) {
		return fmt.Errorf("labels are %s, the model says %s", tr.labelsText(got), tr.labelsText(want))
	}
	for i := range tr.m.seals {
		s := &tr.m.seals[i]
		for _, e := range m.Entries {
			if e.Label == s.label && !e.Kept && e.State == savepoint.Sealed {
				s.version = e.Version
			}
		}
	}
	return nil
}

func (tr *trial) labelsText(m map[label]savepoint.State) string {
	var list []string
	for _, l := range slices.Sorted(maps.Keys(m)) {
		list = append(list, tr.name(l)+" "+string(m[l]))
	}
	return strings.Join(list, ", ")
}

// compareLabel compares rows, counts and evidence of a label.
func (tr *trial) compareLabel(m *savepoint.Map, e savepoint.Entry, want *state, loose bool) error {
	table := delta.New(tr.store)
	snap, err := table.SnapshotAt(ctx, e.Version)
	if err != nil {
		return err
	}
	got, err := rowsOf(tr.store, snap)
	if err != nil {
		return err
	}
	var rows []string
	for _, s := range want.rows {
		rows = append(rows, rowText(s.row))
	}
	slices.Sort(rows)
	if !slices.Equal(got, rows) {
		return fmt.Errorf("rows are\n    %s\n  the model says\n    %s", strings.Join(got, "\n    "), strings.Join(rows, "\n    "))
	}
	if err := checkColumns(snap, want, loose); err != nil {
		return err
	}
	counts, rowCount := m.Progress.Counts, m.Progress.Rows
	if e.State == savepoint.Sealed {
		ev, err := m.Evidence(ctx, table, e)
		if err != nil {
			return err
		}
		counts, rowCount = ev.Counts, ev.Rows
		if err := tr.compareEvidence(ev, want, loose); err != nil {
			return err
		}
	}
	if rowCount != int64(len(rows)) {
		return fmt.Errorf("%d rows are recorded, there are %d", rowCount, len(rows))
	}
	return sameCounts(counts, want.counts, loose)
}

// checkColumns is P7: the columns of the source that have had a value, and no others.
func checkColumns(snap *delta.Snapshot, want *state, loose bool) error {
	for _, name := range snap.Schema().Names() {
		if !want.columns[name] && !loose { // else a change may have been applied that the model finds superseded
			return fmt.Errorf("P7: there is a column %s", name)
		}
		if strings.HasPrefix(strings.ToLower(name), ingest.HiddenPrefix) {
			return fmt.Errorf("P7: the column %s is not the source's", name)
		}
	}
	return nil
}

// sameCounts compares counts. Where keys have changes on several partitions,
// applied and superseded may change places.
func sameCounts(got, want progress.Counts, loose bool) error {
	got.SplitPairs, want.SplitPairs = 0, 0
	if loose {
		for _, c := range []*progress.Counts{&got, &want} {
			c.Superseded += c.Applied()
			c.Inserts, c.Updates, c.Deletes, c.Truncates, c.Touched = 0, 0, 0, 0, 0
		}
	}
	if got != want {
		return fmt.Errorf("counts are %+v, the model says %+v", got, want)
	}
	return nil
}

func (tr *trial) compareEvidence(ev *progress.Evidence, want *state, loose bool) error {
	slices.Sort(want.attributes)
	got := slices.Sorted(slices.Values(ev.Attributes))
	if !slices.Equal(got, want.attributes) {
		return fmt.Errorf("attributes are %q, the model says %q", got, want.attributes)
	}
	if len(ev.Partitions) != len(want.partitions) {
		return fmt.Errorf("%d partitions agreed to the seal, the model says %d", len(ev.Partitions), len(want.partitions))
	}
	for _, p := range ev.Partitions {
		w := want.partitions[p.Partition]
		if p.Watermark != w.Watermark || p.Rule != w.Rule || p.Offset != w.Offset {
			return fmt.Errorf("partition %d: offset %d watermark %d rule %s, the model says %d, %d, %s", p.Partition, p.Offset, p.Watermark, p.Rule, w.Offset, w.Watermark, w.Rule)
		}
	}
	key := func(l progress.LateChange) string { return fmt.Sprintf("%d@%d", l.Partition, l.Offset) }
	byPlace := func(a, b progress.LateChange) int { return strings.Compare(key(a), key(b)) }
	late, wantLate := slices.SortedFunc(slices.Values(ev.Late), byPlace), slices.SortedFunc(slices.Values(want.late), byPlace)
	if loose {
		for _, list := range [][]progress.LateChange{late, wantLate} {
			for i := range list {
				if list[i].Fate == "superseded" {
					list[i].Fate = "folded"
				}
			}
		}
	}
	if !slices.Equal(late, wantLate) {
		return fmt.Errorf("late are %+v, the model says %+v", late, wantLate)
	}
	return nil
}

// rowsOf gives the rows of a version as text, sorted; of the columns named, those that
// it has, or all.
func rowsOf(store objstore.Store, snap *delta.Snapshot, columns ...string) ([]string, error) {
	columns = slices.DeleteFunc(columns, func(name string) bool { return snap.Schema().Index(name) < 0 })
	reading, err := scan.New(store, snap, scan.Options{Parallelism: 1, Columns: columns})
	if err != nil {
		return nil, err
	}
	var rows []string
	for cells, err := range reading.Rows(ctx) {
		if err != nil {
			return nil, err
		}
		row := map[string]string{}
		for i, c := range reading.Columns() {
			if !cells[i].IsNull() {
				row[c.Name] = string(output.AppendJSON(nil, c.Type, cells[i]))
			}
		}
		rows = append(rows, rowText(row))
	}
	slices.Sort(rows)
	return rows, nil
}

// compareDead compares the dead letters: how many of each label, and which.
func (tr *trial) compareDead(m *savepoint.Map, states map[label]*state, all []*verdict) error {
	want := map[string]int64{}
	for l, st := range states {
		if st.dead > 0 {
			want[tr.name(l)] = st.dead
		}
	}
	if !maps.Equal(m.Progress.DeadLetters, want) {
		return fmt.Errorf("dead letters by label are %v, the model says %v", m.Progress.DeadLetters, want)
	}
	entries := map[string]deadletter.Entry{}
	err := deadletter.Open(tr.dead).Each(ctx, func(e deadletter.Entry) error {
		at := fmt.Sprintf("%d@%d", e.Partition, e.Offset)
		if _, twice := entries[at]; twice {
			return fmt.Errorf("dead letter %s is there twice", at)
		}
		entries[at] = e
		return nil
	})
	if err != nil {
		return err
	}
	for _, v := range all {
		if v.fate != "dead" {
			continue
		}
		e, ok := entries[fmt.Sprintf("%d@%d", v.record.Partition, v.record.Offset)]
		// An entry stays as it was first made: behind a rollback the reason may be another.
		if !ok || e.Reason != v.why && len(tr.kept) == 0 || string(e.Value) != string(v.record.Value) {
			return fmt.Errorf("dead letter of %s is %+v, the model says %s", v.event, e, v.why)
		}
	}
	return nil
}

// compareKeys rebuilds the key index of the newest version: every live row is in
// it once, under the change that the model says gave it.
func (tr *trial) compareKeys(want *state, all []*verdict) error {
	table := delta.New(tr.store)
	snap, err := table.Snapshot(ctx)
	if err != nil {
		return err
	}
	settings, err := savepoint.SettingsOf(snap)
	if err != nil {
		return err
	}
	w, err := upsert.Open(ctx, tr.store, snap, upsert.Options{Key: settings.Key, Hidden: ingest.Hidden})
	if err != nil {
		return err
	}
	got, err := origins(w)
	if err != nil {
		return err
	}
	from := map[string]bool{}
	for key, s := range want.rows {
		place := placeOfRow(s)
		// Of two reads at one position either may have given the row.
		for _, v := range all {
			if !got[place] && v.rank == asRead && s.by.rank == asRead && v.new == key && order(v, s.by) == 0 {
				place = placeOfRow(stand{by: v})
			}
		}
		from[place] = true
	}
	if len(tr.others) > 0 && got["not known"] { // they write rows beside theirs anew, too
		maps.DeleteFunc(from, func(place string, _ bool) bool { return !got[place] })
		from["not known"] = true
	}
	if !maps.Equal(got, from) {
		return fmt.Errorf("rows say that they come of %v, the model says %v", sorted(got), sorted(from))
	}
	return nil
}

// placeOfRow is the change that a row comes of, as far as the table says.
func placeOfRow(s stand) string {
	if s.bare {
		return "not known"
	}
	return fmt.Sprintf("%d@%d", s.by.record.Partition, s.by.record.Offset)
}

// checkIndex compares the index of a lane with one that is built anew.
func checkIndex(lane *ingest.Lane) error {
	now, anew, err := lane.Indexes()
	if now == nil || err != nil {
		return err
	}
	got, err := origins(now)
	if err != nil {
		return err
	}
	want, err := origins(anew)
	if err != nil {
		return err
	}
	if !maps.Equal(got, want) || now.Index().Len() != anew.Index().Len() {
		return fmt.Errorf("the key index points at rows of %v, one built anew at %v", sorted(got), sorted(want))
	}
	return nil
}

// origins gives the changes that the rows of an index come of.
func origins(w *upsert.Writer) (map[string]bool, error) {
	var refs []upsert.Ref
	w.Index().Refs(func(r upsert.Ref) bool {
		refs = append(refs, r)
		return true
	})
	rows, err := w.ReadRows(ctx, refs, ingest.Hidden)
	out := map[string]bool{}
	for _, r := range rows {
		if r[0].IsNull() || r[1].I < 0 { // a copy of one that another engine wrote
			out["not known"] = true
			continue
		}
		out[fmt.Sprintf("%d@%d", r[0].I, r[1].I)] = true
	}
	return out, err
}

// crosses tells whether a key has changes on several partitions: then their order
// of arrival decides which of them are applied and which superseded.
func crosses(events []*event, tombstones bool) bool {
	of := map[string]int32{}
	parts, everywhere, again := map[int32]bool{}, false, false
	for _, e := range events {
		p := e.record.Partition
		parts[p] = true
		everywhere = everywhere || e.kind == truncate || e.kind == fullRead
		again = again || e.kind == fullRead && e.first
		for _, k := range e.touches() {
			if e.kind == tombstone && !tombstones {
				continue
			}
			if q, ok := of[k]; ok && q != p {
				return true
			}
			of[k] = p
		}
	}
	return everywhere && len(parts) > 1 || again
}
