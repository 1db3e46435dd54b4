package main

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/snapshotter"
)

// release is set by the Makefile.
var release string

func newVersionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		GroupID: groupChecking,
		Short:   "Print what this binary was built from",
		Example: `  gscd version
  gscd version --format json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			v := buildVersion()
			if a.flags.format != "" {
				return a.printObject(v)
			}
			for _, item := range v {
				if item.Value != "" {
					fmt.Fprintf(a.stdout, "%-10s %v\n", item.Name, item.Value)
				}
			}
			return nil
		},
	}
}

// buildVersion is what the build recorded.
func buildVersion() output.Record {
	version, commit, built := release, "", ""
	if info, ok := debug.ReadBuildInfo(); ok {
		version = cmp.Or(version, info.Main.Version)
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				commit = s.Value + commit
			case s.Key == "vcs.modified" && s.Value == "true":
				commit += " (modified)"
			case s.Key == "vcs.time":
				built = s.Value
			}
		}
	}
	return output.Record{
		{Name: "gscd", Value: cmp.Or(version, "(devel)")},
		{Name: "commit", Value: commit},
		{Name: "committed", Value: built},
		{Name: "go", Value: runtime.Version()},
		{Name: "platform", Value: runtime.GOOS + "/" + runtime.GOARCH},
		{Name: "zone_data", Value: snapshotter.ZoneRelease()},
	}
}
