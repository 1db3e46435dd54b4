package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/clone"
	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query"
	"github.com/gscd-io/gscd/query/export"
	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/savepoint"
)

type exportFlags struct {
	at       queryFlags
	to       string
	shallow  bool
	deep     bool
	replace  bool
	purge    bool
	manifest bool
	as       string
	fileSize string
}

func newExportCommand(a *app) *cobra.Command {
	var f exportFlags
	c := &cobra.Command{
		Use:     "export",
		GroupID: groupChanging,
		Short:   "Make a day a table of its own, for engines without time travel",
		Long: `Makes the version of a label (or another one) a Delta table of its own at --to. A shallow
one names the files of this table, and costs nothing; it is good for as long as the
savepoint is kept. --deep copies the files. --replace makes the day the newest version of
a table that was exported before: files that are there are not copied again.

--purge writes files with deleted rows anew, so that engines that know no deletion vectors
can read the table. --manifest writes lists of files (_symlink_format_manifest) for those
that know no Delta Lake; both need --deep.

--as parquet, csv or jsonl writes the rows as plain files: below --to, each of --file-size
or a little more, and _SUCCESS when all are there; or as one file, where --to ends in
.parquet, .csv or .jsonl. Nothing is replaced.`,
		Example: `  gscd export --as-of 2022-07-16 --to /data/user_dim_16
  gscd export --as-of 2022-07-16 --to s3://lake/today/user_dim --deep --replace
  gscd export --as-of 2022-07-16 --to /data/plain --deep --purge --manifest
  gscd export --as-of 2022-07-16 --to s3://lake/plain/2022-07-16 --as parquet --file-size 1GiB
  gscd export --as-of 2022-07-16 --to day16.csv`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case f.to == "":
				return usagef("--to says where the table shall be")
			case f.shallow && f.deep:
				return usagef("--shallow and --deep: give one")
			case (f.purge || f.manifest) && !f.deep:
				return usagef("--purge and --manifest need --deep: the files of a shallow table are another one's")
			case f.at.asOf == "" && f.at.version < 0 && f.at.timestamp == "":
				return usagef("--as-of says which day: a label, or give --version or --timestamp")
			}
			if f.as == "" {
				f.as = export.FormatOf(f.to)
			}
			if f.as == "" {
				return a.export(c.Context(), f)
			}
			if !slices.Contains(export.Formats(), f.as) {
				return usagef("--as %s: use %s", f.as, strings.Join(export.Formats(), ", "))
			}
			for _, name := range []string{"shallow", "deep", "replace", "purge", "manifest"} {
				if c.Flags().Changed(name) {
					return usagef("--%s is for a Delta table, and %s files are to be written", name, f.as)
				}
			}
			return a.exportFiles(c.Context(), f)
		},
	}
	flags := c.Flags()
	flags.StringVar(&f.at.asOf, "as-of", "", "export the day of a `label`")
	flags.Int64Var(&f.at.version, "version", -1, "export a version by its `number`")
	flags.StringVar(&f.at.timestamp, "timestamp", "", "export the version that was the newest at a `time`")
	c.MarkFlagsMutuallyExclusive("as-of", "version", "timestamp")
	flags.StringVar(&f.to, "to", "", "the `address` of the table to make")
	flags.BoolVar(&f.shallow, "shallow", false, "name the files of this table (default)")
	flags.BoolVar(&f.deep, "deep", false, "copy the files")
	flags.BoolVar(&f.replace, "replace", false, "replace the rows of a table that is there")
	flags.BoolVar(&f.purge, "purge", false, "write files with deleted rows anew")
	flags.BoolVar(&f.manifest, "manifest", false, "write lists of files for engines without Delta Lake")
	flags.StringVar(&f.as, "as", "", "write plain files of a `format`: "+strings.Join(export.Formats(), ", ")+" (default: what --to ends in, else a Delta table)")
	flags.StringVar(&f.fileSize, "file-size", "512MiB", "with --as: the `size` from which on the next file is begun")
	a.addOutsideFlag(c)
	return c
}

// exportedProperties are those of a table of its own: it has no labels, no log that must
// be kept for years, and nothing that gscd writes to.
func exportedProperties(p map[string]string) map[string]string {
	for key := range p {
		if strings.HasPrefix(key, "gscd.") {
			delete(p, key)
		}
	}
	for key := range delta.ProtectiveProperties(1) {
		delete(p, key)
	}
	return p
}

func (a *app) export(ctx context.Context, f exportFlags) error {
	t, err := a.openDelta(ctx)
	if err != nil {
		return err
	}
	at, err := a.pointInTime(ctx, t, f.at)
	if err != nil {
		return err
	}
	if sameAddress(t.Address, f.to) {
		return usagef("--to %s is the table itself", f.to)
	}
	store, err := a.openStore(ctx, f.to)
	if err != nil {
		return err
	}
	to := delta.New(store)
	bar := a.steps.begin(t.Name+" export", "bytes")
	report, err := clone.Clone(ctx, t.table, at, to, clone.Options{Deep: f.deep, Replace: f.replace, Properties: exportedProperties, LeaveFeatures: []string{savepoint.FeatureLock}, Progress: bar.set})
	if err == nil && f.purge {
		var purged *layout.Report
		if purged, err = layout.Optimize(ctx, to, layout.Options{PurgeOnly: true}); err == nil {
			report.Snapshot = purged.Snapshot
		}
	}
	a.steps.close()
	if errors.Is(err, clone.ErrExists) {
		return fmt.Errorf("%w (--replace)", err)
	}
	if err != nil {
		return err
	}
	manifests := 0
	if f.manifest {
		keys, err := clone.Manifest(ctx, to, report.Snapshot)
		if err != nil {
			return err
		}
		manifests = len(keys)
	}
	err = a.printObject(output.Record{
		{Name: "table", Value: store.String()}, {Name: "version", Value: report.Snapshot.Version()}, {Name: "source_version", Value: at.Version()},
		{Name: "files", Value: report.Files}, {Name: "bytes", Value: report.Bytes},
		{Name: "files_copied", Value: report.Copied}, {Name: "bytes_copied", Value: report.CopiedBytes}, {Name: "manifests", Value: manifests},
	})
	if err == nil && !f.deep {
		a.noticef("%s names files of %s: it is good for as long as version %d is kept there", store, t.Name, at.Version())
	}
	return err
}

// exportFiles writes the rows of a version as plain files.
func (a *app) exportFiles(ctx context.Context, f exportFlags) error {
	var size config.Size
	if err := size.UnmarshalText([]byte(f.fileSize)); err != nil {
		return usagef("--file-size: %w", err)
	}
	if size <= 0 {
		return usagef("--file-size 0: give a size, such as 1GiB")
	}
	o := export.Options{Format: f.as, PartBytes: int64(size)}
	folder := f.to
	if export.FormatOf(f.to) != "" {
		folder, o.File = splitAddress(f.to)
	}
	t, err := a.openDelta(ctx)
	if err != nil {
		return err
	}
	at, err := a.pointInTime(ctx, t, f.at)
	if err != nil {
		return err
	}
	if o.File == "" && sameAddress(t.Address, f.to) {
		return usagef("--to %s is the table itself", f.to)
	}
	if err := savepoint.Verify(ctx, t.table, at); err != nil {
		return fmt.Errorf("table %s: %w; run gscd check", t.Name, err)
	}
	reading, err := scan.New(t.store, at, scan.Options{})
	if err != nil {
		return fmt.Errorf("version %d: %w", at.Version(), err)
	}
	to, err := a.openStore(ctx, folder)
	if err != nil {
		return err
	}
	bar := a.steps.begin(t.Name+" export", "rows")
	total := query.Describe(at).Rows
	report, err := export.Write(ctx, to, o, reading.Columns(), func(yield func([]schema.Value, error) bool) {
		done := int64(0)
		for row, err := range reading.Rows(ctx) {
			if err != nil {
				err = fmt.Errorf("read: %w; run gscd check", err)
			}
			if !yield(row, err) {
				return
			}
			if done++; done%10_000 == 0 {
				bar.set(done, max(total, done))
			}
		}
	})
	a.steps.close()
	if err != nil {
		return fmt.Errorf("export version %d of %s: %w", at.Version(), t.Name, err)
	}
	written := to.String()
	if o.File != "" {
		written = strings.TrimRight(written, "/") + "/" + o.File
	}
	return a.printObject(output.Record{
		{Name: "files", Value: report.Files}, {Name: "format", Value: f.as}, {Name: "to", Value: written},
		{Name: "source_version", Value: at.Version()}, {Name: "rows", Value: report.Rows}, {Name: "bytes", Value: report.Bytes},
	})
}

// splitAddress parts the address of a file into that of its folder and its name.
func splitAddress(address string) (folder, name string) {
	at := strings.LastIndexByte(address, '/')
	switch {
	case at < 0:
		return ".", address
	case at == 0:
		return "/", address[1:]
	}
	return address[:at], path.Base(address)
}

func newConvertCommand(a *app) *cobra.Command {
	var partitions string
	c := &cobra.Command{
		Use:     "convert DIR",
		GroupID: groupChanging,
		Short:   "Make a folder of Parquet files a Delta table, where it is",
		Long: `Writes a log for the Parquet files below an address; the files stay as they are. Columns
are those of all files together. Values in the names of folders (day=2022-07-16/) become
partition columns, of the types that --partition says, else text.`,
		Example: `  gscd convert /data/old/user_dim --partition 'day date, city'
  gscd convert s3://lake/old/orders`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			var o clone.ConvertOptions
			if partitions != "" {
				var err error
				if o.PartitionBy, err = clone.ParseColumns(partitions); err != nil {
					return usagef("--partition: %w", err)
				}
			}
			return a.convert(c.Context(), args[0], o)
		},
	}
	c.Flags().StringVar(&partitions, "partition", "", "the `columns` in names of folders, with their types")
	return c
}

func (a *app) convert(ctx context.Context, address string, o clone.ConvertOptions) error {
	store, err := a.openStore(ctx, address)
	if err != nil {
		return err
	}
	began := time.Now()
	work := a.steps.work()
	o.Progress = func(done, total int) { work("reading footers", done, total) }
	s, err := clone.Convert(ctx, store, o)
	a.steps.close()
	if err != nil {
		return err
	}
	a.noticef("%s is a Delta table: %d files, columns %s; %s", store, s.NumFiles(), strings.Join(s.Schema().Names(), ", "), time.Since(began).Round(time.Millisecond))
	return nil
}
