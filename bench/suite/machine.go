package suite

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/gscd-io/gscd/query/output"
)

// Machine is where figures are from. What can't be told is empty.
type Machine struct {
	CPU         string
	Cores       int
	MemoryBytes int64
	OS, Kernel  string
	// FileSystem is that of the local folder that is written to.
	FileSystem string
	// LoadStart and LoadEnd are the load averages of a minute, -1 where they are not known.
	LoadStart, LoadEnd float64
	Go, GSCD           string
	// GOGC and GOMEMLIMIT are those of the environment, "" where they are not set.
	GOGC, GOMEMLIMIT string
}

// ThisMachine describes the machine, and the file system of a folder.
func ThisMachine(folder, version string) Machine {
	m := Machine{
		Cores: runtime.NumCPU(), OS: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(), GSCD: version,
		GOGC: os.Getenv("GOGC"), GOMEMLIMIT: os.Getenv("GOMEMLIMIT"), LoadStart: Load(), LoadEnd: -1,
		CPU:        field("/proc/cpuinfo", "model name"),
		FileSystem: fileSystem(folder),
	}
	if kib, err := strconv.ParseInt(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB"), 10, 64); err == nil {
		m.MemoryBytes = kib << 10
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(release))
	}
	if info, ok := debug.ReadBuildInfo(); ok && m.GSCD == "" {
		m.GSCD = info.Main.Version
	}
	return m
}

// field is the first value of a name in a file of lines NAME : VALUE.
func field(file, name string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(data) {
		if key, value, ok := strings.Cut(string(line), ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Load is the load average of the last minute, -1 where it is not known.
func Load() float64 {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return -1
	}
	load, err := strconv.ParseFloat(strings.Fields(string(data))[0], 64)
	if err != nil {
		return -1
	}
	return load
}

// fileSystem is the type of the file system that a folder is on.
func fileSystem(folder string) string {
	path, err := filepath.Abs(folder)
	if err != nil {
		return ""
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	found, longest := "", -1
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		// 36 35 98:0 /root /mount/point rw,noatime shared:1 - ext4 /dev/root rw
		before, after, ok := strings.Cut(lines.Text(), " - ")
		fields := strings.Fields(before)
		if !ok || len(fields) < 5 {
			continue
		}
		point := fields[4]
		if inside := path == point || point == "/" || strings.HasPrefix(path, point+"/"); inside && len(point) >= longest {
			found, longest = strings.Fields(after)[0], len(point)
		}
	}
	return found
}

// Record is the machine as it is printed.
func (m Machine) Record() output.Record {
	load := func(l float64) any {
		if l < 0 {
			return nil
		}
		return l
	}
	text := func(s string) any {
		if s == "" {
			return nil
		}
		return s
	}
	return output.Record{
		{Name: "cpu", Value: text(m.CPU)}, {Name: "cores", Value: m.Cores}, {Name: "memory_bytes", Value: m.MemoryBytes},
		{Name: "os", Value: m.OS}, {Name: "kernel", Value: text(m.Kernel)}, {Name: "file_system", Value: text(m.FileSystem)},
		{Name: "load_start", Value: load(m.LoadStart)}, {Name: "load_end", Value: load(m.LoadEnd)},
		{Name: "go", Value: m.Go}, {Name: "gscd", Value: m.GSCD},
		{Name: "gogc", Value: text(m.GOGC)}, {Name: "gomemlimit", Value: text(m.GOMEMLIMIT)},
	}
}
