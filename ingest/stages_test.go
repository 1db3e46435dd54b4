package ingest

import (
	"testing"
	"time"
)

// Where nobody is told, stages cost nothing.
func TestStagesUntold(t *testing.T) {
	if got := testing.AllocsPerRun(100, func() {
		at := begun(nil)
		over(nil, FoldStage, at, 1, 1)
		_ = traced(nil, CommitStage, func(*Stretch) error { return nil })
	}); got != 0 {
		t.Errorf("%v allocations", got)
	}
	if at := begun(nil); !at.IsZero() {
		t.Errorf("the clock was asked: %s", at)
	}
	told := &stretches{}
	over(told, PollStage, begun(told), 3, 40)
	_ = traced(told, SealStage, func(s *Stretch) error { s.Version = 7; return nil })
	if len(*told) != 2 || (*told)[0].Records != 3 || (*told)[0].Version != -1 || (*told)[1].Version != 7 || time.Since((*told)[1].Began) > time.Minute {
		t.Errorf("%+v", *told)
	}
}

type stretches []Stretch

func (s *stretches) Stage(one Stretch) { *s = append(*s, one) }

func (s *stretches) Cut(time.Time) {}
