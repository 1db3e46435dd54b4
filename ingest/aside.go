package ingest

// aside is work that a goroutine of its own does beside the lane's: it may read what the
// lane does not change meanwhile, and leaves what it has done to whoever waits for it.
type aside struct {
	done  chan struct{}
	later func() // the work, where it has not begun
}

// beside starts work. Where turns are given (in tests, which want one order of calls every
// time) it is done by the lane itself, at one of them or when it is waited for.
func (l *Lane) beside(work func()) *aside {
	a := &aside{done: make(chan struct{})}
	if l.o.turns != nil {
		a.later = work
		return a
	}
	go func() {
		defer close(a.done)
		work()
	}()
	return a
}

// wait returns when the work is done.
func (a *aside) wait() {
	if work := a.later; work != nil {
		a.later = nil
		defer close(a.done)
		work()
		return
	}
	<-a.done
}

// isOver reports whether the work is done, without waiting for it.
func (l *Lane) isOver(a *aside) bool {
	if a.later != nil {
		if !l.o.turns() {
			return false
		}
		a.wait()
	}
	select {
	case <-a.done:
		return true
	default:
		return false
	}
}
