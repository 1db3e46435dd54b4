package server

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/server/group"
)

// Where there is a group, the tables that run are those of the configuration that
// the newest plan gives to this process. The group is left last: until every table
// has ended the process is in it, so that nobody takes a table that still commits.

// ErrGroup: this process can't be, or stay, in its group.
var ErrGroup = errors.New("scale_out")

// join begins to take part in the group; leave ends that.
func (r *run) join() (leave func()) {
	g := r.o.Group
	if g == nil {
		return func() {}
	}
	r.have()
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := g.Run(ctx); err != nil {
			r.left <- fmt.Errorf("%w: %w", ErrGroup, err)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// have tells the group which tables the configuration has.
func (r *run) have() {
	var tables []group.Table
	for _, spec := range r.configured {
		tables = append(tables, group.Table{Name: spec.Name, Topics: spec.Topics})
	}
	r.o.Group.Have(tables)
}

// sharedOut has a token after each sharing out; never without a group.
func (s *Server) sharedOut() <-chan struct{} {
	if s.o.Group == nil {
		return nil
	}
	return s.o.Group.Changed()
}

// ours are the tables of the configuration that are to run here. The group hears
// of a configuration that is new.
func (r *run) ours() []Spec {
	if r.o.Group == nil {
		return r.configured
	}
	r.have()
	var out []Spec
	mine := r.o.Group.Mine()
	for _, spec := range r.configured {
		if mine[spec.Name] {
			out = append(out, spec)
		}
	}
	return out
}

// share goes over to what the group has shared out. A table that another process
// had taken, and that is ours all the same, is tried again.
func (r *run) share() {
	if r.ctx.Err() != nil {
		return
	}
	r.become(r.ours(), "took what the group has shared out", func(t *table) bool {
		_, err, _ := t.now()
		return errors.Is(err, ingest.ErrLostOwnership)
	})
}

// mayStart claims a table that is about to be started. Where the plan has changed
// since it was asked, the table is not ours any more, and what comes next says so too.
func (r *run) mayStart(spec Spec) bool {
	return r.o.Group == nil || r.o.Group.Take(spec.Name)
}

// taken tells the group of a table that another process has taken.
func (r *run) taken(t *table, err error) {
	if r.o.Group != nil && errors.Is(err, ingest.ErrLostOwnership) {
		r.o.Group.Lost(t.Name)
	}
}

// released tells that a table has stopped here.
func (r *run) released(t *table) {
	if r.o.Group == nil {
		r.o.Log.Info("the table has left the configuration and is stopped", zap.String("table", t.Name))
		return
	}
	r.o.Group.Stopped(t.Name)
	r.o.Log.Info("the table is stopped: it has left the configuration, or the group gives it to another process", zap.String("table", t.Name))
}
