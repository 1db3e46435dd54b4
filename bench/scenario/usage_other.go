//go:build !unix

package scenario

import "time"

// Nothing of this is told here.
func processorTime() (user, system time.Duration) { return 0, 0 }
func threadTime() time.Duration                   { return 0 }
func resetPeak()                                  {}
func peakRSS() int64                              { return 0 }
