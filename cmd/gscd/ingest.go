package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/ingest/kafka"
	"github.com/gscd-io/gscd/server"
)

// settingFlag is a flag that stands for a key of the configuration.
type settingFlag struct {
	name, path, value, usage string
}

// tableFlags let one table be ingested without a file. What they don't name
// is set in a file, or in the environment.
var tableFlags = []settingFlag{
	{"location", "table.location", "address", "where the Delta table lies: a `path`, file://, s3://, gs:// or az://"},
	{"name", "table.name", "name", "the table's `name` (default: the last part of the location)"},
	{"topic", "table.topics", "topic", "the `topics` that carry the table's changes, comma between"},
	{"source", "table.source", "db.table", "the one `table` to take, db.table, from topics that carry several"},
	{"brokers", "kafka.brokers", "host:port", "Kafka `brokers`, host:port, comma between"},
	{"key", "table.key", "columns", "key `columns`, comma between (default: what the records name)"},
	{"timezone", "calendar.timezone", "zone", "IANA `zone` whose clock ends the day, e.g. Asia/Shanghai"},
	{"granularity", "calendar.granularity", "period", "`period` of a label: day, hour, week, month, 5m, 15m, ... (default day)"},
	{"cutover", "calendar.cutover", "HH:MM", "`time` of day at which a day begins (default 00:00)"},
	{"drift-wait", "table.drift.wait", "duration", "`duration` of event time to wait for a label's last changes (default 10m)"},
	{"drift-idle", "table.drift.idle", "duration", "`duration` on the clock, past that, for partitions that fell silent (default 5m)"},
	{"max-clock-skew", "table.max_clock_skew", "duration", "`duration` by which event times may be ahead of the broker's (default 5m)"},
	{"change-format", "table.format", "format", "`format` of the records (default auto)"},
	{"event-time", "table.event_time", "where", "`where` event times come from: source, kafka or column:NAME (default source)"},
	{"columns", "table.columns", "types", "`types` of columns, NAME=TYPE, comma between"},
	{"start", "table.start", "where", "`where` a new table begins: earliest, latest, a time, or offsets such as 0=120,1=98"},
	{"late", "table.late", "policy", "`policy` for changes of sealed labels: fold, dead_letter or fail (default fold)"},
	{"future", "table.future", "policy", "`policy` for event times in the future: dead_letter or clamp (default dead_letter)"},
	{"truncate", "table.truncate", "policy", "`policy` for truncates: apply, ignore or fail (default apply)"},
	{"tombstones", "table.tombstones", "policy", "`policy` for tombstones without a delete: ignore or delete (default ignore)"},
	{"on-lost-offsets", "table.on_lost_offsets", "policy", "`policy` where the topic has lost offsets: fail or continue (default fail)"},
	{"compacted", "table.compacted", "policy", "`policy` for topics that Kafka compacts: refuse or allow (default refuse)"},
	{"write-mode", "table.write.mode", "mode", "`mode` of replacing rows: merge-on-read or copy-on-write (default merge-on-read)"},
	{"batch-interval", "table.batch.interval", "duration", "`duration` after which a batch is committed (default 60s)"},
	{"batch-rows", "table.batch.rows", "n", "`number` of records after which a batch is committed (default 200000)"},
}

// processFlags are those of the process, whatever its tables.
var processFlags = []settingFlag{
	{"http", "http.address", "address", "`address`, HOST:PORT, to answer /healthz, /readyz, /metrics, /status and the status page at; a port alone is one of 127.0.0.1 (default: none)"},
}

// logFlags are flags of every command that gscd ingest has keys for.
var logFlags = []settingFlag{{name: "log-level", path: "log.level"}}

// addSettingFlags defines flags whose values go into the configuration.
func addSettingFlags(f *pflag.FlagSet, flags []settingFlag) {
	for _, s := range flags {
		f.String(s.name, "", s.usage)
	}
}

// settings gives the setting flags that were used.
func settings(f *pflag.FlagSet, flags []settingFlag) []config.Flag {
	var out []config.Flag
	for _, s := range flags {
		if used := f.Lookup(s.name); used != nil && used.Changed {
			out = append(out, config.Flag{Name: "--" + s.name, Path: s.path, Value: used.Value.String()})
		}
	}
	return out
}

// ingestFlags are the flags of the run itself.
type ingestFlags struct {
	sourceFlags
	untilEnd    bool
	topicTables []string
}

func newIngestCommand(a *app) *cobra.Command {
	var f ingestFlags
	c := &cobra.Command{
		Use:         "ingest",
		GroupID:     groupMain,
		Annotations: map[string]string{stopsCleanly: "yes"},
		Short:       "Take changes from Kafka into Delta tables, day by day",
		Long: `Reads the topics of every configured table, or of the one that the flags describe, until
it is stopped. Ctrl-C or SIGTERM ends it at a commit boundary. Progress is kept in the
table: the same command goes on where the last one stopped.

SIGHUP reads the configuration again: new tables start, those that left it stop at a commit
boundary, those whose settings have changed are started anew, those that failed are tried
again, all others go on. It takes log.level and http.token too. A configuration with faults
changes nothing.

With --scale-out-group several processes of one configuration share its tables out among
them by a group of Kafka: each table runs in one of them, and where one dies the others take
its tables when its session is over.

With --input it reads recorded topics (JSON lines, also .gz and .zst; gscd record makes
them) instead of a broker, and stops at their end.`,
		Example: `  gscd ingest -c gscd.yaml
  gscd ingest -c gscd.yaml --http 9090
  gscd ingest -c gscd.yaml --scale-out-group lake --scale-out-member gscd-0 --http 0.0.0.0:9090
  gscd ingest --location ./user_dim --topic shop.user_dim --brokers kafka:9092 --timezone Asia/Shanghai
  gscd ingest -c gscd.yaml --input day1.jsonl.gz --input day2.jsonl.gz --topic-table shop.user_dim=user_dim`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			used := append(settings(c.Flags(), tableFlags), settings(c.Flags(), processFlags)...)
			used = append(used, settings(c.Flags(), logFlags)...)
			used = append(used, settings(c.Flags(), scaleOutFlags)...)
			cfg, err := a.config(used...)
			if err != nil {
				return err
			}
			return a.ingest(c.Context(), cfg, &f, used)
		},
	}
	flags := c.Flags()
	addSettingFlags(flags, tableFlags)
	addSettingFlags(flags, processFlags)
	addSettingFlags(flags, scaleOutFlags)
	f.sourceFlags.add(flags)
	flags.BoolVar(&f.untilEnd, "until-end", false, "stop when nothing is left to do without a new record or a later clock")
	flags.StringArrayVar(&f.topicTables, "topic-table", nil, "recorded `TOPIC=TABLE`: the recorded topic belongs to the table of that name; repeat it")
	return c
}

// ingest runs the tables of the configuration.
func (a *app) ingest(ctx context.Context, cfg *config.Config, f *ingestFlags, flags []config.Flag) error {
	defer a.steps.close()
	specs, closeFiles, err := a.specs(ctx, cfg, f)
	defer closeFiles()
	if err != nil {
		return err
	}
	notifier, closeNotifier, err := a.notifierOf(cfg)
	if err != nil {
		return err
	}
	defer closeNotifier()
	a.notifier = notifier
	closeTracer, err := a.trace(ctx, cfg)
	if err != nil {
		return err
	}
	defer closeTracer()
	member, err := a.groupMember(cfg, f)
	if err != nil {
		return err
	}
	var peers server.Asker
	if member != nil {
		if peers, err = a.asker(cfg); err != nil {
			member.Close()
			return err
		}
	}
	build := map[string]string{}
	for _, item := range buildVersion() {
		build[item.Name] = fmt.Sprint(item.Value)
	}
	build["version"] = build["gscd"]
	a.level.SetLevel(levelOf(cfg.Log.Level))
	s := server.New(server.Options{
		HTTP: cfg.HTTP.Address, TLS: tlsFiles(cfg), Token: cfg.HTTP.Token.Reveal(), Pprof: cfg.HTTP.Pprof, LogLevel: a.level,
		BatchMemory: int64(cfg.Process.BatchMemory), HeavyTasks: cfg.Process.HeavyTasks,
		Build: build, Log: a.log, Retries: a.retried, Notifications: notified(notifier), Failed: a.tableFailed, Group: member, Peers: peers,
		Traffic: func() server.Traffic {
			requests, fetched := a.traffic.Count()
			return server.Traffic{Requests: requests, Fetched: fetched}
		},
	})
	if !f.ends() {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		a.reloadOnHangup(ctx, s, cfg, f, flags)
	}
	err = s.Run(ctx, specs)
	if retry, _ := kafka.Classify(err); retry && errors.Is(err, server.ErrGroup) {
		return brokerFault(ctx, cfg, err)
	}
	return err
}

// tlsFiles are what HTTP is secured with.
func tlsFiles(cfg *config.Config) server.TLSFiles {
	if cfg.HTTP.TLS == nil {
		return server.TLSFiles{}
	}
	return server.TLSFiles{CertFile: cfg.HTTP.TLS.CertFile, KeyFile: cfg.HTTP.TLS.KeyFile, ClientCAFile: cfg.HTTP.TLS.ClientCAFile}
}

// recordedTopics gives the topics that --topic-table assigns to tables.
func (f *ingestFlags) recordedTopics(cfg *config.Config) (map[string][]string, error) {
	if len(f.topicTables) > 0 && len(f.input) == 0 {
		return nil, usagef("--topic-table is about recorded topics: it needs --input FILE")
	}
	topics := map[string][]string{}
	for _, pair := range f.topicTables {
		topic, name, ok := strings.Cut(pair, "=")
		if !ok || topic == "" || name == "" {
			return nil, usagef("--topic-table %q is no pair: write TOPIC=TABLE", pair)
		}
		if _, known := cfg.Table(name); !known {
			return nil, usagef("--topic-table %s: no table is called %s, there is %s", pair, name, tableNames(cfg))
		}
		topics[name] = append(topics[name], topic)
	}
	return topics, nil
}

// tablesToIngest are all tables, or the one that --table names.
func (a *app) tablesToIngest(cfg *config.Config) ([]*config.Table, error) {
	if a.flags.table != "" {
		ref, err := resolveTable(cfg, a.flags.table)
		if err != nil {
			return nil, err
		}
		if ref.Config == nil {
			return nil, usagef("--table %s is not configured: give --location, --topic and --timezone, or a configuration with -c FILE", a.flags.table)
		}
		return []*config.Table{ref.Config}, nil
	}
	var out []*config.Table
	for i := range cfg.Tables {
		out = append(out, &cfg.Tables[i])
	}
	if len(out) == 0 {
		return nil, usagef("no table to ingest: give --location, --topic and --timezone, or a configuration with -c FILE")
	}
	return out, nil
}
