package scenario

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"runtime/pprof"
	"time"
)

// meter measures the process between begin and end.
type meter struct {
	began    time.Time
	user     time.Duration
	system   time.Duration
	runtime  [5]float64
	source   func() time.Duration // of the goroutine that makes events
	sourceAt time.Duration
}

var runtimeNames = [5]string{
	"/gc/heap/allocs:objects", "/gc/heap/allocs:bytes", "/cpu/classes/gc/total:cpu-seconds",
	"/cpu/classes/total:cpu-seconds", "/cpu/classes/idle:cpu-seconds",
}

func readRuntime() (out [5]float64) {
	samples := make([]metrics.Sample, len(runtimeNames))
	for i, name := range runtimeNames {
		samples[i].Name = name
	}
	metrics.Read(samples)
	for i, s := range samples {
		switch s.Value.Kind() {
		case metrics.KindUint64:
			out[i] = float64(s.Value.Uint64())
		case metrics.KindFloat64:
			out[i] = s.Value.Float64()
		}
	}
	return out
}

// begin starts the clock, with what the preparations took given back.
func (m *meter) begin() {
	runtime.GC() // it also brings the figures of the runtime up to date
	debug.FreeOSMemory()
	resetPeak()
	m.runtime = readRuntime()
	if m.source != nil {
		m.sourceAt = m.source()
	}
	m.user, m.system = processorTime()
	m.began = time.Now()
}

// end stops the clock and writes what was measured.
func (m *meter) end(r *Result) {
	r.Seconds = time.Since(m.began).Seconds()
	user, system := processorTime()
	if m.source != nil {
		r.CPUSource = (m.source() - m.sourceAt).Seconds()
	}
	r.PeakRSS = peakRSS()
	r.CPUUser, r.CPUSystem = max(0, (user-m.user).Seconds()-r.CPUSource), (system - m.system).Seconds()
	now := readRuntime()
	r.Allocations, r.AllocatedBytes = int64(now[0]-m.runtime[0]), int64(now[1]-m.runtime[1])
	for i := range now {
		now[i] -= m.runtime[i]
	}
	// All three are the runtime's own estimates, made at the end of a cycle.
	if busy := now[3] - now[4]; busy > 0 {
		r.GCShare = min(1, now[2]/busy)
	}
}

// startProfiles begins the profiles that a Spec asks for; stop writes them.
func startProfiles(s *Spec) (stop func() error, err error) {
	var cpu *os.File
	if s.CPUProfile != "" {
		if cpu, err = os.Create(s.CPUProfile); err != nil {
			return nil, fmt.Errorf("CPU profile: %w", err)
		}
		if err := pprof.StartCPUProfile(cpu); err != nil {
			cpu.Close()
			return nil, fmt.Errorf("CPU profile: %w", err)
		}
	}
	if s.MemProfile != "" {
		runtime.MemProfileRate = 64 << 10
	}
	return func() error {
		if cpu != nil {
			pprof.StopCPUProfile()
			if err := cpu.Close(); err != nil {
				return fmt.Errorf("CPU profile: %w", err)
			}
		}
		if s.MemProfile == "" {
			return nil
		}
		f, err := os.Create(s.MemProfile)
		if err != nil {
			return fmt.Errorf("memory profile: %w", err)
		}
		defer f.Close()
		runtime.GC()
		if err := pprof.Lookup("allocs").WriteTo(f, 0); err != nil {
			return fmt.Errorf("memory profile: %w", err)
		}
		return f.Close()
	}, nil
}
