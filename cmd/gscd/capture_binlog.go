package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/spf13/pflag"
	"go.uber.org/zap"

	"github.com/gscd-io/gscd/capture/binlog"
	"github.com/gscd-io/gscd/capture/event"
	"github.com/gscd-io/gscd/ddl"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/recording"
)

// binlogFiles is a capture of binlog files into a recording, without a server.
type binlogFiles struct {
	files      []string
	schema     string
	positional bool
	output     string

	// As the section capture has them.
	name            string
	tables, exclude []string
	topic           string // empty: {name}.{database}.{table}
	partitions      int
	form            event.Form
}

func (b *binlogFiles) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&b.files, "binlog", nil, "read this binlog `file`, plain or gzip, in place of a server, and write a recording; further files may follow as arguments")
	flags.StringVar(&b.schema, "schema", "", "`file` with the CREATE TABLE statements of logs that name no columns, as mysqldump --no-data writes it")
	flags.BoolVar(&b.positional, "positional", false, "with --binlog: call columns that nothing names @1, @2, …")
	flags.StringVar(&b.output, "output", "", "with --binlog: write the recording to this `file` (default: standard output)")
}

// captureFiles writes the events of binlog files as a recording.
func (a *app) captureFiles(ctx context.Context, b *binlogFiles) error {
	catalog := ddl.NewCatalog()
	if b.schema != "" {
		f, err := os.Open(b.schema)
		if err != nil {
			return usagef("--schema: %w", err)
		}
		err = binlog.ReadSchema(catalog, f, ddl.Session{})
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("%s: %w", b.schema, err)
		}
	}
	encoder, err := event.NewEncoder(b.form)
	if err != nil {
		return usagef("%w", err)
	}
	if b.output == "" {
		return a.recordBinlog(ctx, b, catalog, encoder, a.stdout)
	}
	return writeWhole(b.output, func(file io.Writer) error {
		return a.recordBinlog(ctx, b, catalog, encoder, file)
	})
}

// systemDatabases are left out unless a pattern names them.
var systemDatabases = map[string]bool{"mysql": true, "sys": true, "information_schema": true, "performance_schema": true}

// wanted reports whether the patterns take a table.
func (b *binlogFiles) wanted(database, table string) bool {
	name := database + "." + table
	if len(b.tables) == 0 && systemDatabases[strings.ToLower(database)] {
		return false
	}
	return (len(b.tables) == 0 || matchesAny(b.tables, name)) && !matchesAny(b.exclude, name)
}

func matchesAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if ok, err := path.Match(p, name); ok && err == nil {
			return true
		}
	}
	return false
}

// recordBinlog writes the recording: a topic for each table, offsets from 0 in each
// partition, the time of the event as the broker's.
func (a *app) recordBinlog(ctx context.Context, b *binlogFiles, catalog *ddl.Catalog, encoder *event.Encoder, to io.Writer) error {
	files := binlog.OpenFiles(b.files...)
	defer files.Close()
	reader := binlog.NewReader(files, catalog, binlog.Options{Name: b.name, Wanted: b.wanted, Positional: b.positional})
	out := recording.NewWriter(to, recording.Readable)
	offsets := map[change.PartitionID]int64{}
	events := 0
	write := func(topic string, partition int32, r event.Record, at int64) error {
		id := change.PartitionID{Topic: topic, Partition: partition}
		rec := &change.Record{Topic: topic, Partition: partition, Offset: offsets[id], Timestamp: at / 1000, Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			rec.Headers = append(rec.Headers, change.Header{Key: h.Key, Value: h.Value})
		}
		offsets[id]++
		return out.Write(rec)
	}
	for {
		ev, err := reader.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			return errors.Join(err, out.Flush())
		}
		events++
		t := ev.Table
		if t == nil {
			t = ev.Old
		}
		topic := b.topicOf(t.Database, t.Name)
		if b.form != event.GSCD && ev.Op == event.Schema {
			topic = b.name // where Debezium's connector has them
		}
		err = encoder.Records(ev, func(r event.Record) error {
			if !r.Everywhere {
				return write(topic, event.Partition(r.Key, int32(b.partitions)), r, ev.Source.Time)
			}
			for p := range b.partitions {
				if err := write(topic, int32(p), r, ev.Source.Time); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	end := reader.Position()
	a.log.Info("read to the end of the binlog", zap.Strings("files", b.files), zap.Int("events", events),
		zap.String("file", end.File), zap.Uint64("pos", end.Pos), zap.String("gtids", end.GTIDs))
	return out.Flush()
}

// topicOf names a table's topic.
func (b *binlogFiles) topicOf(database, table string) string {
	pattern := b.topic
	if pattern == "" {
		pattern = "{name}.{database}.{table}"
	}
	name := strings.NewReplacer("{name}", b.name, "{database}", database, "{table}", table).Replace(pattern)
	return strings.Map(func(r rune) rune {
		if r < 0x80 && (r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r)) {
			return r
		}
		return '_'
	}, name)
}
