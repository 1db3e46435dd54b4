package scenario

import (
	"bytes"
	"os"
	"strconv"
	"syscall"
	"time"
)

// processorTime is what the process has used so far.
func processorTime() (user, system time.Duration) { return usage(syscall.RUSAGE_SELF) }

// threadTime is what the calling thread has used so far.
func threadTime() time.Duration {
	const thisThread = 1 // RUSAGE_THREAD
	user, system := usage(thisThread)
	return user + system
}

func usage(who int) (user, system time.Duration) {
	var u syscall.Rusage
	if syscall.Getrusage(who, &u) != nil {
		return 0, 0
	}
	return time.Duration(u.Utime.Nano()), time.Duration(u.Stime.Nano())
}

// resetPeak forgets the peak of resident memory so far.
func resetPeak() { _ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) } // what can't be forgotten stays in

// peakRSS is the most resident memory since resetPeak, in bytes.
func peakRSS() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err == nil {
		for line := range bytes.Lines(status) {
			if rest, ok := bytes.CutPrefix(line, []byte("VmHWM:")); ok {
				if kib, err := strconv.ParseInt(string(bytes.Fields(rest)[0]), 10, 64); err == nil {
					return kib << 10
				}
			}
		}
	}
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return u.Maxrss << 10
}
