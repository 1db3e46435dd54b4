package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/ingest/decode"
)

func newConfigCommand(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:     "config",
		GroupID: groupChecking,
		Short:   "Check the configuration, or show the one in force",
		Example: `  gscd config check
  gscd config show -c gscd.yaml`,
	}, newConfigCheckCommand(a), newConfigShowCommand(a))
}

func newConfigCheckCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "check",
		Short: "List every fault of the configuration, with its line",
		Long: `Reads the configuration as every other command does: flags, the environment, the file.
Exits 0 where it has no fault, else 2. Warnings say what the records of a table's format lack, and
what is then not promised; of format auto nothing is known before a record came. With --format faults
and warnings are printed as rows.`,
		Example: `  gscd config check -c gscd.yaml
  gscd config check --format jsonl`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := a.configured()
			var faults *config.Faults
			if errors.As(err, &faults) && a.flags.format != "" {
				if err := a.printFaults(faults); err != nil {
					return err
				}
				return silently(exitUsage, faults)
			}
			if err != nil {
				return err
			}
			warnings, err := a.formatWarnings(cfg)
			if err != nil {
				return err
			}
			if a.flags.format != "" {
				return a.printWarnings(warnings)
			}
			for _, w := range warnings {
				fmt.Fprintf(a.stdout, "%s: warning: %s\n", a.loadedFrom, w.message)
			}
			fmt.Fprintf(a.stdout, "%s: no fault, %d table(s)\n", a.loadedFrom, len(cfg.Tables))
			return nil
		},
	}
}

// configWarning is something of a configuration that is no fault.
type configWarning struct{ path, message string }

// formatWarnings say what the records of each table lack.
func (a *app) formatWarnings(cfg *config.Config) (out []configWarning, err error) {
	for i := range cfg.Tables {
		t := &cfg.Tables[i]
		if len(t.Topics) == 0 {
			continue
		}
		o, _, err := a.decodeOptions(cfg, t)
		if err != nil {
			return nil, err
		}
		for _, g := range decode.Gaps(t.Format, &o) {
			if g.Want == decode.WantKey && t.Mode == "append" {
				continue
			}
			out = append(out, configWarning{fmt.Sprintf("tables[%d].format", i), fmt.Sprintf("table %s: format %s: %s", t.Name, t.Format, g)})
		}
	}
	return out, nil
}

func (a *app) printWarnings(warnings []configWarning) error {
	w, err := a.printRecords("file", "line", "path", "message", "level")
	if err != nil {
		return err
	}
	for _, warning := range warnings {
		if err := w.Write(a.loadedFrom, nil, warning.path, warning.message, "warning"); err != nil {
			return err
		}
	}
	return w.Close()
}

func newConfigShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "show",
		Short:   "Print the configuration in force as YAML, secrets masked",
		Example: `  GSCD_KAFKA_BROKERS=kafka:9092 gscd config show -c gscd.yaml`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cfg, err := a.configured()
			if err != nil {
				return err
			}
			return cfg.Show(a.stdout)
		},
	}
}

// configured is the configuration, which must come from a file.
func (a *app) configured() (*config.Config, error) {
	cfg, err := a.config()
	if err != nil {
		return nil, err
	}
	if a.loadedFrom == "" {
		return nil, usagef("no configuration: give -c FILE, set GSCD_CONFIG, or write %s", defaultConfigFile)
	}
	return cfg, nil
}

func (a *app) printFaults(faults *config.Faults) error {
	w, err := a.printRecords("file", "line", "path", "message", "level")
	if err != nil {
		return err
	}
	for _, f := range faults.List {
		if err := w.Write(faults.File, f.Line, f.Path, f.Message, "fault"); err != nil {
			return err
		}
	}
	return w.Close()
}

// isConfigFault tells faults of the configuration from those of the command line.
func isConfigFault(err error) bool {
	var faults *config.Faults
	return errors.As(err, &faults)
}
