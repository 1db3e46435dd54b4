package main

import (
	"errors"
	"io"
	"strings"
	"testing"
)

// brittle is an output that takes so many bytes and no more: a full disk behind a redirection.
type brittle struct{ left int }

var errFull = errors.New("no space left on device")

func (b *brittle) Write(p []byte) (int, error) {
	if len(p) > b.left {
		n := b.left
		b.left = 0
		return n, errFull
	}
	b.left -= len(p)
	return len(p), nil
}

var _ io.Writer = (*brittle)(nil)

// TestOutputFails ends standard output at any byte: what was cut off never ends well.
func TestOutputFails(t *testing.T) {
	c := newCluster(t, 2, "items")
	c.items(2)
	w := newWorld()
	file := input(t, "items.jsonl", storyOf(2))
	w.ok(t, "ingest", "--location", "/w/t", "--topic", "items", "--timezone", "UTC", "--key", "id", "--input", file, "--until-end")
	commands := map[string][]string{
		"record":         {"record", "items", "--brokers", c.brokers()},
		"record --kcat":  {"record", "items", "--brokers", c.brokers(), "--kcat"},
		"query":          {"query", "--table", "/w/t", "--as-of", "2022-07-16"},
		"changes":        {"changes", "--table", "/w/t", "--from", "2022-07-16", "--format", "csv"},
		"snapshots":      {"snapshots", "--table", "/w/t"},
		"diff":           {"diff", "2022-07-16", "2022-07-17", "--table", "/w/t"},
		"blame":          {"blame", "--table", "/w/t", "--as-of", "2022-07-16"},
		"describe":       {"describe", "--table", "/w/t"},
		"capture":        {"capture", "--name", "s", "--binlog", "../../capture/binlog/testdata/flow.000005"},
		"vacuum dry run": {"vacuum", "--table", "/w/t", "--retain", "0s", "--grace", "0s", "--dry-run"},
	}
	for name, args := range commands {
		whole := 0
		for size := 0; ; size = size*2 + 1 {
			code, stderr := w.gscd(&brittle{left: size}, args...)
			if code == 0 {
				break // all of it fitted
			}
			if whole++; size > 1<<28 {
				t.Fatalf("%s: exit %d: %s", name, code, stderr)
			}
			if !strings.Contains(stderr, errFull.Error()) {
				t.Errorf("%s: cut off after %d bytes: exit %d without the reason: %s", name, size, code, stderr)
			}
		}
		if whole == 0 {
			t.Errorf("%s: nothing was written, or it does not matter", name)
		}
	}
}
