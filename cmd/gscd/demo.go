package main

import (
	"errors"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/demo"
)

func newDemoCommand(a *app) *cobra.Command {
	var o demo.Options
	c := &cobra.Command{
		Use:     "demo",
		GroupID: groupMain,
		Short:   "Play the whole story on an embedded broker, in some seconds",
		Long: `Plays five days of a table of users on an embedded broker: a load, changes that arrive
in disorder around midnight, late and duplicate ones, some that can't be true, an empty
day, and a bad day that is rolled back and ingested again. It prints what happens, and the
command lines to go on with. Nothing outside its folder is touched, and no network but
127.0.0.1.

With --dir the table and the recorded topic stay there. Without it they go into a
temporary folder, which is removed at the end unless --keep is given.`,
		Example: `  gscd demo
  gscd demo --dir gscd-demo
  gscd query --table gscd-demo/user_dim --as-of 2022-07-16`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			// A pipe whose reader has left (gscd demo | head) is an error of the
			// next write then, not the end of the process: the folder must go.
			signal.Ignore(syscall.SIGPIPE)
			o.Out = a.stdout
			if a.flags.logLevel == "debug" {
				o.Log = a.log
			}
			err := demo.Run(c.Context(), o)
			if errors.Is(err, demo.ErrExists) {
				return usagef("%w", err)
			}
			return err
		},
	}
	c.Flags().StringVar(&o.Dir, "dir", "", "`folder` in which the table and the recorded topic stay")
	c.Flags().BoolVar(&o.Keep, "keep", false, "keep the temporary folder where no --dir is given")
	return c
}
