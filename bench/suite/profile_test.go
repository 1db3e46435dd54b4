package suite

import (
	"bytes"
	"compress/gzip"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
)

var kept [][]byte

//go:noinline
func wasteful() {
	for range 64 {
		kept = append(kept, make([]byte, 1<<20))
	}
}

func TestProfileTop(t *testing.T) {
	wasteful()
	kept = nil
	runtime.GC()
	var profile bytes.Buffer
	if err := pprof.Lookup("allocs").WriteTo(&profile, 0); err != nil {
		t.Fatal(err)
	}
	text, err := profileTop(profile.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	if !strings.HasPrefix(lines[0], "alloc_space: ") || !strings.Contains(lines[2], "bench/suite.wasteful") || !strings.Contains(lines[2], "MB") {
		t.Errorf("%s", text)
	}
}

func FuzzProfile(f *testing.F) {
	var profile bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&profile, 0); err != nil {
		f.Fatal(err)
	}
	unzipped, err := gzip.NewReader(&profile)
	if err != nil {
		f.Fatal(err)
	}
	var raw bytes.Buffer
	if _, err := raw.ReadFrom(unzipped); err != nil {
		f.Fatal(err)
	}
	f.Add(raw.Bytes())
	f.Add([]byte{0x0a, 0x02, 0x08, 0x01, 0x12, 0x03, 0x12, 0x01, 0x05})
	f.Fuzz(func(t *testing.T, raw []byte) {
		var zipped bytes.Buffer
		w := gzip.NewWriter(&zipped)
		if _, err := w.Write(raw); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		_, _ = profileTop(zipped.Bytes()) // text or an error, never a panic
	})
}
