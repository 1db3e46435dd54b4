package ingest

import "time"

// Stage is a part of the way of a batch.
type Stage string

// The stages. A batch is polled, decoded and folded in many stretches, while the one before
// it may be stored; then its rows are encoded and uploaded, and committed. Checkpoints and
// seals are no part of a batch.
const (
	PollStage       Stage = "poll"
	DecodeStage     Stage = "decode"
	FoldStage       Stage = "fold"
	EncodeStage     Stage = "encode"
	CommitStage     Stage = "commit"
	CheckpointStage Stage = "checkpoint"
	SealStage       Stage = "seal"
)

// Stretch is a stretch of time that a stage has taken.
type Stretch struct {
	Stage Stage
	Began time.Time
	Took  time.Duration
	// Records and Bytes of the source that were worked on; 0 where that says nothing.
	Records int
	Bytes   int64
	// Version is the one that was made, -1 for none; Label the sealed label, "" for none.
	Version int64
	Label   string
	Err     error
}

// Tracer is told where the time of batches goes. Its calls come from several goroutines,
// and must return at once. What a batch is polled, decoded and folded of stands between two
// calls of Cut; what is read ahead counts for the batch that takes records meanwhile.
type Tracer interface {
	Stage(Stretch)
	// Cut tells that the batch takes no more records: it is stored now.
	Cut(at time.Time)
}

// traced does a stage's work, and tells how long it took.
func traced(t Tracer, stage Stage, do func(*Stretch) error) error {
	if t == nil {
		return do(nil)
	}
	s := &Stretch{Stage: stage, Began: time.Now(), Version: -1}
	s.Err = do(s)
	s.Took = time.Since(s.Began)
	t.Stage(*s)
	return s.Err
}

// begun is when a stretch begins; the zero time where nobody is told.
func begun(t Tracer) (at time.Time) {
	if t != nil {
		at = time.Now()
	}
	return at
}

// over tells of a stretch that began at a time which begun gave.
func over(t Tracer, stage Stage, began time.Time, records int, bytes int64) {
	if t != nil {
		t.Stage(Stretch{Stage: stage, Began: began, Took: time.Since(began), Records: records, Bytes: bytes, Version: -1})
	}
}
