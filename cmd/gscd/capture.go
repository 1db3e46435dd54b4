package main

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/gscd-io/gscd/capture"
	"github.com/gscd-io/gscd/capture/event"
	"github.com/gscd-io/gscd/capture/source"
	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/ingest/kafka"
)

// captureFlags are settings of the section capture, for a first try without a file.
var captureSettings = []settingFlag{
	{"name", "capture.name", "name", "the source's logical `name`: topics begin with it"},
	{"server", "capture.servers", "address", "`address` of the server, mysql://USER@HOST:PORT; several with a comma between: the first that answers"},
	{"server-id", "capture.server_id", "number", "our `number` among the server's replicas, one that nobody else has"},
	{"tables", "capture.tables", "patterns", "`patterns` of tables, DATABASE.TABLE with * and ?, comma between"},
	{"exclude", "capture.exclude", "patterns", "`patterns` of tables to leave out"},
	{"partitions", "capture.partitions", "n", "`number` of partitions of topics that are made (default 4)"},
	{"form", "capture.form", "form", "`form` of the records: gscd, debezium or debezium-schemas (default gscd)"},
	{"delivery", "capture.delivery", "how", "`how` records are written: transactions or idempotent (default transactions)"},
	{"brokers", "kafka.brokers", "host:port", "Kafka `brokers`, host:port, comma between"},
}

func newCaptureCommand(a *app) *cobra.Command {
	var untilEnd, reload bool
	var files binlogFiles
	c := &cobra.Command{
		Use:         "capture",
		GroupID:     groupMain,
		Annotations: map[string]string{stopsCleanly: "yes"},
		Short:       "Write the rows and changes of a MySQL or MariaDB server to Kafka",
		Long: `Reads the rows of all tables that the section capture of the configuration names, as of one
moment, then the binlog from that moment on, and writes them to a topic for each table,
in commit order, a key always to the same partition. Ctrl-C or SIGTERM ends it at the end
of a transaction.

All that it has to know again is in Kafka, in one compacted topic: the same command goes on
where the last one stopped, also where it was killed in the middle of the load. What the
server lacks is said at the start, all at once, each with the statement that mends it.
The password comes from GSCD_MYSQL_PASSWORD, or the file that GSCD_MYSQL_PASSWORD_FILE names.

With --binlog it reads binlog files in place of a server, and writes a recording, which
"gscd ingest --input" reads.`,
		Example: `  gscd capture -c gscd.yaml
  gscd capture --server mysql://gscd@db:3306 --server-id 4711 --name app --tables "shop.*" --brokers kafka:9092
  gscd capture -c gscd.yaml --until-end
  gscd capture --name app --binlog mysql-bin.000041 mysql-bin.000042 > app.jsonl`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(files.files) > 0 {
				files.files = append(files.files, args...)
				if err := a.binlogSettings(c, &files); err != nil {
					return err
				}
				return a.captureFiles(c.Context(), &files)
			}
			for _, name := range []string{"schema", "positional", "output"} {
				if c.Flags().Changed(name) {
					return usagef("--%s goes with --binlog", name)
				}
			}
			if len(args) > 0 {
				return usagef("%s: only binlog files are named here, with --binlog", args[0])
			}
			cfg, err := a.config(settings(c.Flags(), captureSettings)...)
			if err != nil {
				return err
			}
			return a.capture(c.Context(), cfg, untilEnd, reload)
		},
	}
	addSettingFlags(c.Flags(), captureSettings)
	files.add(c.Flags())
	c.Flags().BoolVar(&untilEnd, "until-end", false, "stop where the binlog ended at the start")
	c.Flags().BoolVar(&reload, "reload", false, "forget the kept position, and read all rows anew: where the server has no longer the binlog that is needed")
	return c
}

// binlogSettings takes what the section capture says of records, where a configuration is
// named, else the flags: a recording needs no server and no broker.
func (a *app) binlogSettings(c *cobra.Command, b *binlogFiles) error {
	for _, name := range []string{"server", "server-id", "delivery", "brokers", "until-end", "reload"} {
		if c.Flags().Changed(name) {
			return usagef("--%s is of a capture of a server, and --binlog reads files", name)
		}
	}
	if a.flags.config != "" {
		cfg, err := a.config(settings(c.Flags(), captureSettings)...)
		if err != nil {
			return err
		}
		if s := cfg.Capture; s != nil {
			b.name, b.tables, b.exclude, b.topic, b.partitions, b.form = s.Name, s.Tables, s.Exclude, s.Topic, s.Partitions, event.Form(s.Form)
			return nil
		}
	}
	text := func(name, without string) string {
		return cmp.Or(c.Flags().Lookup(name).Value.String(), without)
	}
	list := func(name string) []string {
		return strings.FieldsFunc(text(name, ""), func(r rune) bool { return r == ',' || r == ' ' })
	}
	b.name, b.tables, b.exclude, b.form = text("name", "gscd"), list("tables"), list("exclude"), event.Form(text("form", "gscd"))
	n, err := strconv.Atoi(text("partitions", "1"))
	if err != nil || n < 1 {
		return usagef("--partitions %s: give a number from 1 on", text("partitions", ""))
	}
	b.partitions = n
	return nil
}

func (a *app) capture(ctx context.Context, cfg *config.Config, untilEnd, reload bool) error {
	o, err := a.captureOptions(cfg)
	if err != nil {
		return err
	}
	o.UntilEnd, o.Reload = untilEnd, reload
	err = capture.Run(ctx, o)
	switch {
	case errors.Is(err, source.ErrLogGone):
		a.noticef("gscd: changes between the kept position and what the server still has can't be read any more; gscd capture --reload reads all rows anew")
	case errors.Is(err, kafka.ErrFenced):
		a.noticef("gscd: another gscd capture of the name %s has begun: only one writes at a time", cfg.Capture.Name)
	}
	return err
}

// captureOptions are what the configuration says.
func (a *app) captureOptions(cfg *config.Config) (capture.Options, error) {
	var o capture.Options
	s := cfg.Capture
	if s == nil {
		return o, usagef("nothing to capture: give --server, --server-id, --name and --tables, or a configuration with a section capture")
	}
	var err error
	if o.Kafka, err = a.kafkaOptions(cfg, nil); err != nil {
		return o, err
	}
	for _, address := range s.Servers {
		server, err := source.Open(address, source.Options{
			Password: cfg.MySQL.Password.Reveal(), TLS: cfg.MySQL.TLS == "require", SkipVerify: cfg.MySQL.TLS == "skip-verify", CAFile: cfg.MySQL.CAFile,
			CertFile: cfg.MySQL.CertFile, KeyFile: cfg.MySQL.KeyFile,
		})
		if err != nil {
			return o, usagef("%w", err)
		}
		o.Servers = append(o.Servers, server)
	}
	if o.Form, err = capture.Forms(event.Form(s.Form), s.Name); err != nil {
		return o, usagef("%w", err)
	}
	o.Name, o.ServerID, o.Tables, o.Exclude, o.Topic = s.Name, uint32(s.ServerID), s.Tables, s.Exclude, s.Topic
	o.Topics = kafka.NewTopic{Partitions: int32(s.Partitions), Replication: int16(s.Replication), Settings: maps.Clone(s.TopicSettings)}
	o.Never = s.Load.Mode == "never"
	o.Load = capture.LoadOptions{Parallel: s.Load.Parallel, ChunkRows: s.Load.ChunkRows, Lock: source.Lock(s.Load.Lock)}
	o.Heartbeat = s.Heartbeat
	o.Batch = capture.Batch{Interval: s.Batch.Interval, Bytes: int(s.Batch.Bytes)}
	o.Writer = kafka.WriterOptions{StateTopic: s.StateTopic, Idempotent: s.Delivery == "idempotent", MaxMessage: int(s.MaxMessage)}
	o.Log = a.log.With(zap.String("capture", s.Name))
	return o, nil
}
