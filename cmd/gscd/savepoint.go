package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/savepoint"
)

func newSavepointCommand(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:     "savepoint",
		GroupID: groupChanging,
		Short:   "List what is pinned, pin a version under a name, or give a savepoint up",
		Example: `  gscd savepoint list
  gscd savepoint create before-migration
  gscd savepoint delete 2021-01-31`,
	}, newSavepointListCommand(a), newSavepointCreateCommand(a), newSavepointDeleteCommand(a))
}

func newSavepointListCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List everything that is pinned, by version",
		Long: `Prints a record for each savepoint: of a sealed label (kind label), of a rolled-back
label that is still kept (kind rolled-back), or under a name of its own (kind named).`,
		Example: `  gscd savepoint list --format jsonl`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			t, err := a.openTable(c.Context())
			if err != nil {
				return err
			}
			return a.printSavepoints(t)
		},
	}
}

func (a *app) printSavepoints(t *openedTable) error {
	kinds := map[string]string{}
	for _, e := range t.labels.Entries {
		switch {
		case e.Kept:
			kinds[e.Name] = "rolled-back"
		case e.State == savepoint.Sealed:
			kinds[e.Name] = "label"
		}
	}
	w, err := a.printRecords("name", "kind", "version")
	if err != nil {
		return err
	}
	for _, p := range savepoint.PinsOf(t.newest) {
		for _, name := range p.Names {
			kind := kinds[name]
			if kind == "" {
				kind = "named"
			}
			if err := w.Write(name, kind, p.Version); err != nil {
				return err
			}
		}
	}
	return w.Close()
}

func newSavepointCreateCommand(a *app) *cobra.Command {
	version := int64(-1)
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Pin a version, by default the newest, under a name",
		Long: `Pins a version under a name: nothing removes its files until the savepoint is deleted.
A name begins with a letter and must not read as a label of the table's calendar.`,
		Example: `  gscd savepoint create before-migration
  gscd savepoint create audit-2022 --version 128`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("version") && version < 0 {
				return usagef("--version %d: versions begin at 0", version)
			}
			return a.createSavepoint(c.Context(), args[0], version)
		},
	}
	c.Flags().Int64Var(&version, "version", -1, "the `number` of the version to pin (default: the newest)")
	c.Flags().Lookup("version").DefValue = ""
	return c
}

func (a *app) createSavepoint(ctx context.Context, name string, version int64) error {
	t, err := a.openTable(ctx)
	if err != nil {
		return err
	}
	if version < 0 {
		version = t.newest.Version()
	}
	if _, err := savepoint.CreateNamed(ctx, t.table, name, version); err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	a.noticef("version %d of %s is pinned as %s", version, t.Name, name)
	return nil
}

func newSavepointDeleteCommand(a *app) *cobra.Command {
	var yes bool
	c := &cobra.Command{
		Use:   "delete LABEL",
		Short: "Give a savepoint up: a label, LABEL@VERSION or a name",
		Long: `Unpins a savepoint in one commit. Its label answers from then on that it was deleted;
the next "gscd vacuum" removes the files that only it held. The rows of other days stay.`,
		Example: `  gscd savepoint delete 2021-01-31 --yes
  gscd savepoint delete before-migration`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.deleteSavepoint(c.Context(), args[0], yes)
		},
	}
	c.Flags().BoolVar(&yes, "yes", false, "do it without asking")
	return c
}

func (a *app) deleteSavepoint(ctx context.Context, name string, yes bool) error {
	t, err := a.openTable(ctx)
	if err != nil {
		return err
	}
	if !yes && a.isTerminal() {
		if err := a.confirm(fmt.Sprintf("Give the savepoint %s of %s up?", name, t.Name)); err != nil {
			return err
		}
	}
	if _, err := savepoint.Delete(ctx, t.table, name, time.Now()); err != nil {
		return fmt.Errorf("table %s: %w", t.Name, err)
	}
	a.noticef("%s of %s is no savepoint any more; its files go with the next vacuum", name, t.Name)
	return nil
}
