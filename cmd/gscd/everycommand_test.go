package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// writesElsewhere are commands that write, and where a test fails their calls.
var writesElsewhere = map[string]string{
	"capture": "to topics: TestEveryRequest of package capture; a recording: TestOutputFails",
	"changes": "to a topic: TestEveryRequestOfCommands; to standard output: TestOutputFails",
	"record":  "to standard output: TestOutputFails",
	"demo":    "runs the others",
	"notify":  "to sinks, and what they were told: TestNotify, TestQueue of package notify",
	"report":  "a local file that appears when it is whole (writeWhole)",
	"verify":  "reads", "bench": "makes tables of its own",
}

// reads are commands that write nothing but what they print.
var reads = []string{
	"status", "snapshots", "wait", "query", "shell", "describe", "views", "diff", "history", "blame", "savepoint list", "dead-letter list", "dead-letter show",
	"config check", "config show", "version", "completion", "help",
}

// A command that nobody has said to read, or to fail under test, has been forgotten.
func TestEveryCommandIsFailed(t *testing.T) {
	a, _, _ := newTestApp()
	failed := slices.Sorted(maps.Keys(writings(t)))
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		if c.HasAvailableSubCommands() {
			for _, sub := range c.Commands() {
				visit(sub)
			}
			return
		}
		path := strings.TrimPrefix(c.CommandPath(), "gscd ")
		_, elsewhere := writesElsewhere[strings.Fields(path)[0]]
		if slices.Contains(reads, path) || elsewhere || slices.ContainsFunc(failed, func(name string) bool {
			return name == path || strings.HasPrefix(name, path+" ") || strings.HasPrefix(name, path+",")
		}) {
			return
		}
		t.Errorf("gscd %s: say in this file that it reads, or give TestEveryCallOfCommands a case", path)
	}
	visit(newRootCommand(a, commands))
}
