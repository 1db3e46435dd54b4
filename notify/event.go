package notify

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/snapshotter"
)

// Kind is what an event is about.
type Kind string

// The kinds. A Test is sent when a person asks for it.
const (
	Seal       Kind = "seal"
	Late       Kind = "late"
	Stall      Kind = "stall"
	RolledBack Kind = "rolled_back"
	Failed     Kind = "failed"
	Test       Kind = "test"
)

// Event is what happened to a table.
type Event struct {
	// ID is the same each time the event is told.
	ID   string
	Kind Kind
	Time time.Time
	Data Data

	// version and label are its place in the order of a table: of a seal those of the
	// savepoint, of a rollback its commit. Of others version is -1.
	version int64
	label   snapshotter.Label
	// forGood is when a rollback without replay was made, as the progress has it.
	forGood string
}

// Data is the content of an event. What does not belong to its kind is left out.
type Data struct {
	Event    Kind   `json:"event"`
	Table    string `json:"table"`
	Location string `json:"location"`
	// TableID is the id that the table's metadata has; "" where the table does not exist.
	TableID string `json:"table_id,omitempty"`
	// Label is the sealed one; of a late or overdue table the open one.
	Label string `json:"label,omitempty"`
	// Starts and Ends are the label's period, RFC 3339 UTC.
	Starts string `json:"starts,omitempty"`
	Ends   string `json:"ends,omitempty"`
	// Version is the savepoint's, or that of the rollback.
	Version *int64 `json:"version,omitempty"`
	// Rows are the live ones of the savepoint, Digest that of its files.
	Rows       *int64           `json:"rows,omitempty"`
	Digest     string           `json:"digest,omitempty"`
	SealedAt   string           `json:"sealed_at,omitempty"`
	Attributes []string         `json:"attributes,omitempty"`
	Reason     string           `json:"reason,omitempty"`
	Counts     *progress.Counts `json:"counts,omitempty"`
	// DeadLetters counts those that the sealed label lacks.
	DeadLetters *int64 `json:"dead_letters,omitempty"`
	// LateChanges came for sealed labels while Label was open.
	LateChanges int64 `json:"late_changes,omitempty"`
	// OverdueSeconds is how long the seal of Label has been due; HeldBackBy is why.
	OverdueSeconds int64  `json:"overdue_seconds,omitempty"`
	HeldBackBy     string `json:"held_back_by,omitempty"`
	// To is the label that a rollback went to, Labels are those that it took back and
	// that no commit has named again.
	To     string   `json:"to,omitempty"`
	Labels []string `json:"labels,omitempty"`
	// Error is why the table failed.
	Error string `json:"error,omitempty"`
}

// envelope is an event as CloudEvents 1.0 has it in its structured mode.
type envelope struct {
	SpecVersion     string `json:"specversion"`
	ID              string `json:"id"`
	Source          string `json:"source"`
	Type            string `json:"type"`
	Subject         string `json:"subject,omitempty"`
	Time            string `json:"time"`
	DataContentType string `json:"datacontenttype"`
	Data            Data   `json:"data"`
}

// ContentType is that of an event's JSON.
const ContentType = "application/cloudevents+json; charset=utf-8"

// typePrefix begins the type of every event.
const typePrefix = "io.gscd."

// JSON gives the event as a CloudEvent.
func (e *Event) JSON() ([]byte, error) {
	subject := e.Data.Table
	if e.Data.Label != "" {
		subject += "/" + e.Data.Label
	}
	body, err := json.Marshal(envelope{
		SpecVersion: "1.0", ID: e.ID, Source: source(e.Data.Location), Type: typePrefix + string(e.Kind), Subject: subject,
		Time: stamp(e.Time), DataContentType: "application/json", Data: e.Data,
	})
	if err != nil {
		return nil, fmt.Errorf("event %s: %w", e.ID, err)
	}
	return body, nil
}

// source is a location as a URI reference.
func source(location string) string {
	if strings.Contains(location, "://") {
		return location
	}
	return cmp.Or((&url.URL{Path: location}).String(), "gscd")
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// named gives the event its ID, which needs the table's.
func (e *Event) named(tableID string) {
	e.Data.TableID = tableID
	of := cmp.Or(tableID, e.Data.Location)
	switch e.Kind {
	case Seal:
		e.ID = fmt.Sprintf("%s/%s/%s/%d", of, e.Kind, e.Data.Label, e.version)
	case RolledBack:
		e.ID = fmt.Sprintf("%s/%s/%d", of, e.Kind, e.version)
		if e.forGood != "" {
			e.ID = fmt.Sprintf("%s/%s/%s", of, e.Kind, e.forGood)
		}
	case Late, Stall:
		e.ID = fmt.Sprintf("%s/%s/%s", of, e.Kind, e.Data.Label)
	default:
		e.ID = fmt.Sprintf("%s/%s/%s", of, e.Kind, stamp(e.Time))
	}
}

// period sets the label and when it starts and ends.
func (d *Data) period(cal *snapshotter.Calendar, label snapshotter.Label) {
	d.Label = cal.Name(label)
	d.Starts, d.Ends = stamp(time.UnixMicro(cal.Start(label))), stamp(time.UnixMicro(cal.End(label)))
}

// sealed is the event of a seal. It keeps nothing of ev.
func (t *Table) sealed(cal *snapshotter.Calendar, ev *progress.Evidence, version int64) *Event {
	counts, rows, lacking := ev.Counts, ev.Rows, ev.DeadLetters
	e := &Event{Kind: Seal, Time: time.Now(), version: version, label: ev.Label, Data: Data{
		Event: Seal, Table: t.o.Name, Location: t.o.Location, Version: &version, Rows: &rows, Digest: ev.Digest, SealedAt: ev.SealedAt,
		Attributes: append([]string{}, ev.Attributes...), Reason: ev.Reason, Counts: &counts, DeadLetters: &lacking,
	}}
	if at, err := time.Parse(time.RFC3339Nano, ev.SealedAt); err == nil {
		e.Time = at
	}
	e.Data.period(cal, ev.Label)
	return e
}

// late is the event of changes that came after their labels were sealed.
func (t *Table) late(cal *snapshotter.Calendar, open snapshotter.Label, changes int64) *Event {
	e := &Event{Kind: Late, Time: time.Now(), version: -1, label: open, Data: Data{
		Event: Late, Table: t.o.Name, Location: t.o.Location, LateChanges: changes,
	}}
	e.Data.period(cal, open)
	return e
}

// stalled is the event of a seal that is overdue.
func (t *Table) stalled(cal *snapshotter.Calendar, open snapshotter.Label, overdue time.Duration, why string) *Event {
	e := &Event{Kind: Stall, Time: time.Now(), version: -1, label: open, Data: Data{
		Event: Stall, Table: t.o.Name, Location: t.o.Location, OverdueSeconds: int64(overdue / time.Second), HeldBackBy: why,
	}}
	e.Data.period(cal, open)
	return e
}

// rolledBack is the event of a rollback that was made at a version; -1 of one without
// replay, whose version nothing tells.
func (t *Table) rolledBack(cal *snapshotter.Calendar, p *progress.Progress, version int64) *Event {
	e := &Event{Kind: RolledBack, Time: time.Now(), version: version, label: p.State.Open - 1, Data: Data{
		Event: RolledBack, Table: t.o.Name, Location: t.o.Location,
	}}
	if version >= 0 {
		e.Data.Version = &version
	} else {
		e.forGood = forGoodOf(p)
	}
	for _, r := range p.RolledBack {
		if r.ForGood != (version < 0) || r.ForGood && r.At != e.forGood {
			continue
		}
		e.Data.Labels = append(e.Data.Labels, cal.Name(r.Label))
		e.Data.To, e.label = cal.Name(r.To), r.To
		if at, err := time.Parse(time.RFC3339Nano, r.At); err == nil {
			e.Time = at
		}
	}
	return e
}

// failed is the event of a table that is not started again.
func failed(o TableOptions, err error) *Event {
	return &Event{Kind: Failed, Time: time.Now(), version: -1, Data: Data{Event: Failed, Table: o.Name, Location: o.Location, Error: err.Error()}}
}

// TestEvent is what a person sends to see whether it arrives.
func TestEvent() *Event {
	e := &Event{Kind: Test, Time: time.Now(), version: -1, Data: Data{Event: Test, Table: "test", Location: "gscd"}}
	e.named("")
	return e
}

// rollbackOf gives the version of the newest rollback that a progress tells of, -1 for none.
func rollbackOf(p *progress.Progress) int64 {
	if n := len(p.Undone); n > 0 {
		return p.Undone[n-1].To + 1
	}
	return -1
}

// forGoodOf gives when the newest rollback without replay was made, "" for none.
func forGoodOf(p *progress.Progress) (newest string) {
	var last time.Time
	for _, r := range p.RolledBack {
		if at, err := time.Parse(time.RFC3339Nano, r.At); err == nil && r.ForGood && at.After(last) {
			newest, last = r.At, at
		}
	}
	return newest
}

// dueOf is the clock from which on the open label would be sealed by the clock.
func dueOf(v ingest.View, idle time.Duration) time.Time {
	return time.UnixMicro(snapshotter.NewJudge(v.Calendar, &v.Progress.State).Pause()).Add(max(0, idle))
}
