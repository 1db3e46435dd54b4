package tracing

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	api "go.opentelemetry.io/otel/trace"

	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/progress"
)

// Table makes spans of one table. It is an ingest.Tracer, and an ingest.Observer that tells
// another one all that it is told.
type Table struct {
	tracer   *Tracer
	name     string
	next     ingest.Observer
	uploads  *uploads
	maxParts int

	mu sync.Mutex
	// taking are the stages of the batch that takes records; cut those of batches that are
	// stored, oldest first.
	taking *parts
	cut    []*parts
}

// parts are the stages of one batch.
type parts struct {
	sums    map[ingest.Stage]*sum // of what happens in many stretches
	singles []ingest.Stretch
	uploads []upload
	dropped int
	at      time.Time // when it was cut
}

// sum is many stretches of one stage.
type sum struct {
	began, ended   time.Time
	busy           time.Duration
	records, bytes int64
}

// maxParts bounds the uploads of one batch that get a span of their own.
const maxParts = 200

// Table begins to trace a table. next may be nil.
func (t *Tracer) Table(name string, next ingest.Observer) *Table {
	tt := &Table{tracer: t, name: name, next: next, maxParts: maxParts, taking: newParts()}
	tt.uploads = &uploads{tt}
	return tt
}

func newParts() *parts { return &parts{sums: map[ingest.Stage]*sum{}} }

// Stage is ingest.Tracer's.
func (t *Table) Stage(s ingest.Stretch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch s.Stage {
	case ingest.PollStage, ingest.DecodeStage, ingest.FoldStage:
		p := t.taking
		of := p.sums[s.Stage]
		if of == nil {
			of = &sum{began: s.Began}
			p.sums[s.Stage] = of
		}
		if s.Began.Before(of.began) {
			of.began = s.Began
		}
		if end := s.Began.Add(s.Took); end.After(of.ended) {
			of.ended = end
		}
		of.busy += s.Took
		of.records += int64(s.Records)
		of.bytes += s.Bytes
	case ingest.EncodeStage, ingest.CommitStage:
		if len(t.cut) > 0 {
			t.cut[0].singles = append(t.cut[0].singles, s)
		}
	default: // a checkpoint or a seal is a trace of its own
		ctx, span := t.start(context.Background(), string(s.Stage), s.Began)
		_ = ctx
		describe(span, s)
		span.End(api.WithTimestamp(s.Began.Add(s.Took)))
	}
}

// Cut is ingest.Tracer's.
func (t *Table) Cut(at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.taking.at = at
	if len(t.cut) >= maxCut { // their commits never came
		t.cut = t.cut[1:]
	}
	t.cut = append(t.cut, t.taking)
	t.taking = newParts()
}

// maxCut is how many batches may be stored at once.
const maxCut = 2

func (t *Table) start(ctx context.Context, name string, at time.Time) (context.Context, api.Span) {
	return t.tracer.tracer.Start(ctx, name, api.WithTimestamp(at), api.WithAttributes(attribute.String("gscd.table", t.name)))
}

func describe(span api.Span, s ingest.Stretch) {
	set := []attribute.KeyValue{}
	if s.Label != "" {
		set = append(set, attribute.String("gscd.label", s.Label))
	}
	if s.Version >= 0 {
		set = append(set, attribute.Int64("gscd.version", s.Version))
	}
	if s.Records > 0 {
		set = append(set, attribute.Int("gscd.records", s.Records))
	}
	if s.Bytes > 0 {
		set = append(set, attribute.Int64("gscd.bytes", s.Bytes))
	}
	span.SetAttributes(set...)
	if s.Err != nil {
		span.SetStatus(codes.Error, s.Err.Error())
	}
}

// batch makes the spans of the oldest batch that is stored.
func (t *Table) batch(c ingest.Commit, v ingest.View) {
	t.mu.Lock()
	if len(t.cut) == 0 {
		t.mu.Unlock()
		return
	}
	p := t.cut[0]
	t.cut = t.cut[1:]
	t.mu.Unlock()
	end := time.Now()
	began := p.at.Add(-c.Open)
	for _, s := range p.sums {
		if s.began.Before(began) {
			began = s.began
		}
	}
	ctx, root := t.start(context.Background(), "batch", began)
	defer root.End(api.WithTimestamp(end))
	if !root.IsRecording() {
		return
	}
	root.SetAttributes(attribute.String("gscd.label", v.Progress.Label), attribute.Int64("gscd.version", c.Version),
		attribute.Int("gscd.records", c.Records), attribute.Int64("gscd.rows", v.Progress.Rows), attribute.String("gscd.kind", string(c.Kind)))
	for _, stage := range []ingest.Stage{ingest.PollStage, ingest.DecodeStage, ingest.FoldStage} {
		s := p.sums[stage]
		if s == nil {
			continue
		}
		_, span := t.start(ctx, string(stage), s.began)
		span.SetAttributes(attribute.Int64("gscd.records", s.records), attribute.Int64("gscd.bytes", s.bytes),
			attribute.Float64("gscd.busy_ms", float64(s.busy.Microseconds())/1000))
		span.End(api.WithTimestamp(s.ended))
	}
	encode := ctx
	for _, s := range p.singles {
		inner, span := t.start(ctx, string(s.Stage), s.Began)
		describe(span, s)
		span.End(api.WithTimestamp(s.Began.Add(s.Took)))
		if s.Stage == ingest.EncodeStage {
			encode = inner
		}
	}
	for _, u := range p.uploads {
		_, span := t.start(encode, "upload", u.began)
		span.SetAttributes(attribute.String("gscd.object", u.kind), attribute.Int64("gscd.bytes", u.bytes))
		if u.err != nil {
			span.SetStatus(codes.Error, u.err.Error())
		}
		span.End(api.WithTimestamp(u.began.Add(u.took)))
	}
	if p.dropped > 0 {
		root.SetAttributes(attribute.Int("gscd.uploads_without_span", p.dropped))
	}
}

// Alive is ingest.Observer's.
func (t *Table) Alive() {
	if t.next != nil {
		t.next.Alive()
	}
}

// Loaded is ingest.Observer's: what was begun before is dropped.
func (t *Table) Loaded(v ingest.View) {
	t.mu.Lock()
	t.taking, t.cut = newParts(), nil
	t.mu.Unlock()
	if t.next != nil {
		t.next.Loaded(v)
	}
}

// Took is ingest.Observer's.
func (t *Table) Took(v ingest.View) {
	if t.next != nil {
		t.next.Took(v)
	}
}

// Committed is ingest.Observer's.
func (t *Table) Committed(c ingest.Commit, v ingest.View) {
	if c.Kind == progress.Batch && v.Progress != nil {
		t.batch(c, v)
	}
	if t.next != nil {
		t.next.Committed(c, v)
	}
}
