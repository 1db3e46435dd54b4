package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/address"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/scd2"
	"github.com/gscd-io/gscd/slice"
	"github.com/gscd-io/gscd/slice/mysql"
	"github.com/gscd-io/gscd/snapshotter"
)

// loadTableFlags are the settings of a table that a slice may make.
var loadTableFlags = pick(tableFlags, "location", "name", "key", "timezone", "granularity", "cutover", "columns", "write-mode")

func pick(flags []settingFlag, names ...string) (out []settingFlag) {
	for _, f := range flags {
		if slices.Contains(names, f.name) {
			out = append(out, f)
		}
	}
	return out
}

// loadFlags are those of the load itself.
type loadFlags struct {
	snapshot      string
	full, upsert  bool
	replace       bool
	maxDelete     string
	acceptDeletes int64
	missing       string
	inputFormat   string
	delimiter     string
	unended       bool
	dryRun        bool
	asOf          string
	memory        string
	tempDir       string
	// Several slices at once.
	fromDir, labelColumn, mark string
	// A statement in place of files.
	statement string
	tables    []string
	// The days of a history table.
	history loadHistoryFlags
	// Where in the source's log the slice stands.
	logPosition string
	serverID    int64
	at          *ingest.SourcePosition
}

// readPosition reads what the flags say of the source's log.
func (f *loadFlags) readPosition() error {
	switch {
	case f.logPosition == "" && f.serverID == 0:
		return nil
	case f.logPosition == "" || f.serverID <= 0:
		return usagef("--log-position and --log-server-id go together: the log file and byte that the dump names, and the server's server_id")
	}
	p, err := mysql.Position(f.logPosition)
	if err != nil {
		return usagef("--log-position: %w", err)
	}
	f.at = &ingest.SourcePosition{ServerID: f.serverID, Position: p}
	return nil
}

func newLoadCommand(a *app) *cobra.Command {
	var f loadFlags
	c := &cobra.Command{
		Use:     "load --snapshot LABEL FILE|mysql://...",
		GroupID: groupChanging,
		Short:   "Make a slice of rows the state of a day",
		Long: `Loads a slice: all rows of a table as they are on a day (--full, the default), or those that
are new or changed (--upsert). The rows are compared with the table's by a typed hash, by
key; only what differs is written, in one commit. A table without topics is sealed at that
label in the same run, whatever the clock; labels between are sealed empty. The first
load makes the table: say --key and --timezone then, or configure it.

FILE is Parquet, CSV with a header, or JSON lines, as its name says (also .gz and .zst), a
folder of such files that are one slice, or a Delta table (--slice-as-of LABEL for one of
its days). mysql://USER@HOST/DATABASE/TABLE reads a table in one consistent read; the
password comes from GSCD_MYSQL_PASSWORD or the file that GSCD_MYSQL_PASSWORD_FILE names.
--select takes the answer of a statement over Delta tables: those of --from, and those that
are configured.

--from-dir loads many slices in the order of their labels, which their names have
(users-2022-07-16.csv, dt=2022-07-16/), --label-column the rows of each label that a column
has. It stops at the first one that is refused; the same command goes on from there.
--from-scd2 makes days of a history table (valid_from, valid_to): one for each label in
which a row begins or ends.

The same slice again changes nothing. Another one for the last sealed label needs
--replace, which rolls back to the label before and loads it. Refused before anything is
written: keys that are there twice, a slice that is empty or cut off, missing columns,
changed types, and more deletes than --max-delete-fraction of the rows; --accept-deletes N
allows N deletes, exactly.`,
		Example: `  gscd load --snapshot 2022-07-16 users.parquet --table ./user_dim --key id --timezone Asia/Shanghai
  gscd load --snapshot 2022-07-17 users-0717.csv.gz --table ./user_dim
  gscd load --snapshot 2022-07-17 corrected.csv --table ./user_dim --replace
  gscd load --snapshot 2022-07-18 changed.jsonl --upsert -c gscd.yaml --table user_dim
  gscd load --snapshot 2022-07-19 mysql://reader@db:3306/shop/user_dim --table ./user_dim
  gscd load --from-dir /exports/users --table ./user_dim --key id --timezone Asia/Shanghai
  gscd load --snapshot 2022-07-20 --from raw=s3://lake/raw/users --select "SELECT id, upper(city) AS city FROM raw" --table ./user_dim
  gscd load --from-scd2 s3://warehouse/dim_user --table ./user_dim --key id --timezone Asia/Shanghai`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			many := f.fromDir != "" || f.labelColumn != "" || f.history.from != ""
			switch {
			case f.history.from != "" && (len(args) > 0 || f.fromDir != "" || f.labelColumn != "" || f.statement != "" || f.upsert):
				return usagef("--from-scd2 says what to load: give no files, and neither --from-dir, --label-column, --select nor --upsert")
			case f.history.from == "" && (f.history.options.Columns != scd2.Columns{} || f.history.options.Without != nil):
				return usagef("--valid-from-column, --valid-to-column and --without-columns go with --from-scd2")
			case f.fromDir != "" && (len(args) > 0 || f.labelColumn != "" || f.statement != ""):
				return usagef("--from-dir names the files: give no others, and neither --label-column nor --select")
			case f.statement != "" && len(args) > 0:
				return usagef("--select is the slice: name no file beside it")
			case f.fromDir == "" && f.statement == "" && f.history.from == "" && len(args) == 0:
				return usagef("name the file to load, or give --from-dir, --select or --from-scd2")
			case many && f.snapshot != "":
				return usagef("--snapshot is of one slice: with --from-dir, --label-column and --from-scd2 names and rows say the label")
			case many && (f.replace || c.Flags().Changed("accept-deletes")):
				return usagef("--replace and --accept-deletes are for one slice: load it by itself")
			case f.mark != "" && f.fromDir == "":
				return usagef("--mark goes with --from-dir")
			case f.snapshot == "" && !many:
				return usagef("--snapshot says which day the rows are of: a label, e.g. 2022-07-16")
			case f.full && f.upsert:
				return usagef("--full and --upsert: give one")
			case f.missing != "fail" && f.missing != "null":
				return usagef("--missing-columns %s: say fail or null", f.missing)
			case many && f.logPosition != "":
				return usagef("--log-position is of one slice: load it by itself")
			}
			if err := f.readPosition(); err != nil {
				return err
			}
			return a.load(c.Context(), &f, c.Flags(), args)
		},
	}
	flags := c.Flags()
	addSettingFlags(flags, loadTableFlags)
	f.add(flags)
	flags.StringVar(&f.snapshot, "snapshot", "", "the `label` that the rows are of")
	flags.StringVar(&f.fromDir, "from-dir", "", "load all slices of a `folder`, in the order of the labels in their names")
	flags.StringVar(&f.mark, "mark", "", "with --from-dir: take only slices with a file of that `suffix` beside them (users-2022-07-16.csv.done), or in their folder")
	flags.StringVar(&f.labelColumn, "label-column", "", "load the rows of each label that a `column` has, as a slice each; the column is left out")
	flags.StringVar(&f.statement, "select", "", "take the answer of a `statement` over Delta tables as the slice")
	flags.StringArrayVar(&f.tables, "from", nil, "with --select: `NAME=ADDRESS` of a Delta table; repeat it")
	f.history.add(flags)
	flags.StringVar(&f.logPosition, "log-position", "", "where in the source's binlog a dump stands, `FILE:POS`: changes of the table's topics before it are older than its rows")
	flags.Int64Var(&f.serverID, "log-server-id", 0, "with --log-position: the server_id of that `server`")
	flags.StringVar(&f.asOf, "slice-as-of", "", "of a Delta table of gscd, the rows as of this `label`")
	return c
}

// add defines the flags that every load has.
func (f *loadFlags) add(flags *pflag.FlagSet) {
	flags.BoolVar(&f.full, "full", false, "the slice is all rows of the day: those that it lacks are deleted (default)")
	flags.BoolVar(&f.upsert, "upsert", false, "the slice is the rows that are new or changed")
	flags.BoolVar(&f.replace, "replace", false, "replace the last sealed label: roll back to the one before, then load")
	flags.StringVar(&f.maxDelete, "max-delete-fraction", "", "the `part` of the rows, 20% or 0.2, that a full slice may take away (default: the table's setting, 20%)")
	flags.Int64Var(&f.acceptDeletes, "accept-deletes", 0, "let exactly this `number` of rows be deleted, whatever part they are")
	flags.StringVar(&f.missing, "missing-columns", "fail", "`what` to do where the slice lacks columns of the table: fail, or null")
	flags.StringVar(&f.inputFormat, "input-format", "", "`format` of the file: parquet, csv or jsonl (default: what its name says)")
	flags.StringVar(&f.delimiter, "delimiter", ",", "`character` between the fields of a CSV file")
	flags.BoolVar(&f.unended, "unended", false, "take the last line of a CSV file though it has no line end")
	flags.BoolVar(&f.dryRun, "dry-run", false, "compare and check, print what would change, and change nothing")
	flags.StringVar(&f.memory, "memory", "256MiB", "`size` of what is held in memory; the rest goes to temporary files")
	flags.StringVar(&f.tempDir, "temp-dir", "", "`folder` for temporary files (default: the system's)")
}

// slice gives what the flags say of a load.
func (f *loadFlags) slice(flags *pflag.FlagSet) (ingest.Slice, error) {
	s := ingest.Slice{
		Label: f.snapshot, Upsert: f.upsert, Replace: f.replace, MissingAsNull: f.missing == "null", DryRun: f.dryRun, TempDir: f.tempDir,
	}
	if flags.Changed("accept-deletes") {
		s.AcceptDeletes = &f.acceptDeletes
	}
	var size config.Size
	if err := size.UnmarshalText([]byte(f.memory)); err != nil {
		return s, usagef("--memory: %w", err)
	}
	s.Memory = int64(size)
	return s, nil
}

// fileOptions gives what the flags say of files.
func (f *loadFlags) fileOptions(declared map[string]schema.Type) (slice.FileOptions, error) {
	o := slice.FileOptions{Format: slice.Format(f.inputFormat), Declared: declared, Unended: f.unended}
	switch o.Format {
	case slice.Auto, slice.Parquet, slice.CSV, slice.JSON:
	default:
		return o, usagef("--input-format %s: say parquet, csv or jsonl", f.inputFormat)
	}
	switch f.delimiter {
	case `\t`, "tab":
		o.Delimiter = '\t'
	default:
		if len(f.delimiter) != 1 || strings.ContainsAny(f.delimiter, "\"\r\n") {
			return o, usagef("--delimiter %q: say one character, or tab", f.delimiter)
		}
		o.Delimiter = f.delimiter[0]
	}
	return o, nil
}

func (a *app) load(ctx context.Context, f *loadFlags, flags *pflag.FlagSet, from []string) error {
	o, topics, err := a.loadOptions(ctx, f, flags)
	if err != nil {
		return err
	}
	s, err := f.slice(flags)
	if err != nil {
		return err
	}
	s.Topics = topics
	switch {
	case f.fromDir != "":
		return a.loadFolder(ctx, f, o, s)
	case f.history.from != "":
		return a.loadHistory(ctx, f, o, s)
	}
	source, err := a.sliceSource(ctx, f, from, o.Columns)
	if err != nil {
		return err
	}
	if c, ok := source.(io.Closer); ok {
		defer c.Close()
	}
	if f.labelColumn != "" {
		return a.loadByColumn(ctx, f, o, s, source)
	}
	s.Source, s.Open = source.Name(), source.Open
	if server, ok := source.(*mysql.Table); ok && f.at == nil {
		s.At = server.At
	} else {
		s.At = func() *ingest.SourcePosition { return f.at }
	}
	done, err := ingest.LoadSlice(ctx, o, s)
	if err != nil {
		return err
	}
	a.noticeLoaded(done, f.dryRun)
	return a.printObject(loadedRecord(done, f.dryRun))
}

func (a *app) noticeLoaded(done *ingest.Loaded, dryRun bool) {
	switch {
	case done.Known:
		a.noticef("%s has these rows already (version %d): nothing was changed", done.Label, done.Version)
	case dryRun:
	case !done.Sealed:
		a.noticef("%s stays open: the table's topics go on with it", done.Label)
	}
}

// logPositionRecord is where in a binlog a slice stands, nil where that is not known.
func logPositionRecord(at *ingest.SourcePosition) any {
	if at == nil {
		return nil
	}
	return output.Record{{Name: "server_id", Value: at.ServerID}, {Name: "file", Value: at.Position.File}, {Name: "pos", Value: at.Position.Pos}}
}

func loadedRecord(l *ingest.Loaded, dryRun bool) output.Record {
	list := func(keys []string) []string { return append([]string{}, keys...) }
	return output.Record{
		{Name: "label", Value: l.Label},
		{Name: "version", Value: l.Version},
		{Name: "new_version", Value: l.Committed},
		{Name: "sealed", Value: l.Sealed},
		{Name: "dry_run", Value: dryRun},
		{Name: "mode", Value: l.Mode},
		{Name: "source", Value: l.Source},
		{Name: "rows", Value: l.Rows},
		{Name: "new", Value: l.New},
		{Name: "changed", Value: l.Changed},
		{Name: "deleted", Value: l.Deleted},
		{Name: "unchanged", Value: l.Unchanged},
		{Name: "created", Value: l.Created && l.Committed},
		{Name: "replaced", Value: zeroAsNull(l.Replaced)},
		{Name: "sealed_empty", Value: list(l.Empty)},
		{Name: "new_columns", Value: list(l.NewColumns)},
		{Name: "new_keys", Value: list(l.NewKeys)},
		{Name: "changed_keys", Value: list(l.ChangedKeys)},
		{Name: "deleted_keys", Value: list(l.DeletedKeys)},
		{Name: "digest", Value: l.Digest},
		{Name: "log_position", Value: logPositionRecord(l.At)},
	}
}

func zeroAsNull(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}

// sliceSource is what the arguments name: files, a folder, or a Delta table.
func (a *app) sliceSource(ctx context.Context, f *loadFlags, from []string, declared map[string]schema.Type) (slice.Source, error) {
	fo, err := f.fileOptions(declared)
	if err != nil {
		return nil, err
	}
	switch {
	case f.statement != "":
		return a.selectSource(f)
	case strings.HasPrefix(from[0], mysql.Scheme):
		if len(from) > 1 {
			return nil, usagef("a table of MySQL is a slice by itself: name one")
		}
		return a.mysqlSource(from[0])
	}
	places := make([]slice.Place, len(from))
	for i, name := range from {
		if places[i], err = a.slicePlace(ctx, name); err != nil {
			return nil, err
		}
	}
	if f.asOf != "" || len(from) == 1 && places[0].HasFolder(deltaLog) {
		if len(from) > 1 {
			return nil, usagef("a Delta table is a slice by itself: name one")
		}
		return a.tableSource(ctx, from[0], f.asOf)
	}
	var parts []slice.Source
	for _, at := range places {
		part, err := slice.OpenFile(at, fo)
		if errors.Is(err, slice.ErrFormat) {
			return nil, usagef("%w", err)
		}
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	return slice.Files(strings.Join(from, ", "), parts...), nil
}

// deltaLog is the folder that makes a folder a Delta table.
const deltaLog = "_delta_log"

// slicePlace is where a file or a folder of files is, on this machine or in a storage.
func (a *app) slicePlace(ctx context.Context, name string) (slice.Place, error) {
	if !strings.Contains(name, "://") {
		return slice.Local(name)
	}
	folder, base := name, "."
	scheme := strings.Index(name, "://") + len("://")
	if i := strings.LastIndexByte(strings.TrimRight(name[scheme:], "/"), '/'); i >= 0 {
		folder, base = name[:scheme+i], strings.TrimRight(name[scheme+i+1:], "/")
	}
	store, err := a.openStore(ctx, folder, address.WholeBuckets())
	if err != nil {
		return slice.Place{}, err
	}
	return slice.Place{In: objstore.FS(ctx, store), Path: base, Name: address.Shown(name)}, nil
}

// tableSource is a version of a Delta table, the newest if no label is named.
func (a *app) tableSource(ctx context.Context, address, asOf string) (slice.Source, error) {
	t, err := a.openRef(ctx, tableRef{Name: address, Address: address})
	if err != nil {
		return nil, err
	}
	at := t.newest
	if asOf != "" {
		if at, err = a.pointInTime(ctx, t, queryFlags{asOf: asOf, version: -1, sealed: true}); err != nil {
			return nil, err
		}
	}
	return slice.Table(t.store, at), nil
}

// loadOptions are what configuration, flags and the table itself say of the table to load.
func (a *app) loadOptions(ctx context.Context, f *loadFlags, flags *pflag.FlagSet) (o ingest.Options, topics bool, err error) {
	ref, t, err := a.tableToLoad(ctx, settings(flags, loadTableFlags))
	if err != nil {
		return o, false, err
	}
	if ref.Config == nil {
		if o, err = a.optionsByHand(ctx, t); err == nil {
			err = setByFlags(&o, flags)
		}
	} else {
		topics = len(ref.Config.Topics) > 0
		cfg, fault := a.config()
		if fault != nil {
			return o, false, fault
		}
		o, err = a.ingestOptions(ctx, cfg, ref.Config)
	}
	if err != nil {
		return o, false, err
	}
	if f.maxDelete != "" {
		var part config.Fraction
		if err := part.UnmarshalText([]byte(f.maxDelete)); err != nil {
			return o, false, usagef("--max-delete-fraction: %w", err)
		}
		o.MaxDeleteFraction = literal(float64(part))
	}
	return o, topics, nil
}

// tableToLoad finds the table: one of the configuration, one that flags describe, or one
// that is there and says what it is itself, which is opened.
func (a *app) tableToLoad(ctx context.Context, used []config.Flag) (ref tableRef, t *openedTable, err error) {
	at, described := a.flags.table, len(used) > 0
	location := slices.IndexFunc(used, func(f config.Flag) bool { return f.Path == "table.location" })
	switch {
	case location >= 0:
		at = used[location].Value
	case isAddress(at):
		if ref, err = a.resolveTable(at); err != nil || ref.Config != nil {
			break
		}
		if t, err = a.openRef(ctx, ref); err == nil || !errors.Is(err, delta.ErrNotATable) {
			return ref, t, err
		}
		if !described {
			return ref, nil, usagef("table %s is not there yet: say --key COLUMN[,COLUMN] and --timezone ZONE to make it, or configure it", at)
		}
		used, err = append(used, config.Flag{Name: "--table", Path: "table.location", Value: at}), nil
	}
	if err != nil {
		return ref, nil, err
	}
	if described {
		if _, err := a.config(used...); err != nil {
			return ref, nil, err
		}
	}
	ref, err = a.resolveTable(at)
	if err == nil && ref.Config == nil {
		t, err = a.openRef(ctx, ref)
	}
	return ref, t, err
}

// setByFlags puts what flags say of a table that is there into its options: they must be
// what it was made with.
func setByFlags(o *ingest.Options, flags *pflag.FlagSet) error {
	if flags.Changed("key") {
		o.Key = nil
		for _, name := range strings.Split(flags.Lookup("key").Value.String(), ",") {
			o.Key = append(o.Key, strings.TrimSpace(name))
		}
	}
	var calendar struct{ Granularity, Timezone, Cutover string }
	raw, err := json.Marshal(o.Calendar)
	if err == nil {
		err = json.Unmarshal(raw, &calendar)
	}
	if err != nil {
		return err
	}
	for name, to := range map[string]*string{"granularity": &calendar.Granularity, "timezone": &calendar.Timezone, "cutover": &calendar.Cutover} {
		if flags.Changed(name) {
			*to = flags.Lookup(name).Value.String()
		}
	}
	if o.Calendar, err = snapshotter.NewCalendar(calendar.Granularity, calendar.Timezone, calendar.Cutover); err != nil {
		return usagef("calendar: %w", err)
	}
	if flags.Changed("columns") {
		if o.Columns, err = declaredTypes(flags.Lookup("columns").Value.String()); err != nil {
			return usagef("--columns: %w", err)
		}
	}
	return nil
}

// declaredTypes reads NAME=TYPE, comma between; a comma inside of brackets is the type's.
func declaredTypes(text string) (map[string]schema.Type, error) {
	types := map[string]schema.Type{}
	depth, from := 0, 0
	add := func(part string) error {
		name, t, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok {
			return fmt.Errorf("%q: write NAME=TYPE", part)
		}
		spec, err := decode.ParseColumnType(t)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		types[name] = spec.Type
		return nil
	}
	for i, c := range text {
		switch {
		case c == '(' || c == '<':
			depth++
		case c == ')' || c == '>':
			depth--
		case c == ',' && depth == 0:
			if err := add(text[from:i]); err != nil {
				return nil, err
			}
			from = i + 1
		}
	}
	return types, add(text[from:])
}
