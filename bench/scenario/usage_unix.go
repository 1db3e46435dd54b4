//go:build unix && !linux

package scenario

import (
	"syscall"
	"time"
)

// processorTime is what the process has used so far.
func processorTime() (user, system time.Duration) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, 0
	}
	return time.Duration(u.Utime.Nano()), time.Duration(u.Stime.Nano())
}

// threadTime is not told here: the making of events counts as work.
func threadTime() time.Duration { return 0 }

func resetPeak() {}

// peakRSS is the most resident memory of the process, in bytes.
func peakRSS() int64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return int64(u.Maxrss)
}
