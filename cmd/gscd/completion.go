package main

import "github.com/spf13/cobra"

func newCompletionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:       "completion SHELL",
		GroupID:   groupChecking,
		Short:     "Print the completion script of a shell: bash, zsh, fish or powershell",
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		Example: `  source <(gscd completion bash)
  gscd completion zsh > "${fpath[1]}/_gscd"`,
		Args: cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		RunE: func(c *cobra.Command, args []string) error {
			root := c.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.stdout, true)
			case "zsh":
				return root.GenZshCompletion(a.stdout)
			case "fish":
				return root.GenFishCompletion(a.stdout, true)
			default:
				return root.GenPowerShellCompletionWithDesc(a.stdout)
			}
		},
	}
}
