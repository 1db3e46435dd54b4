package main

import (
	"errors"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/gscd-io/gscd/ingest/kafka"
	"github.com/gscd-io/gscd/ingest/recording"
)

// recordFlags are the settings that reach the brokers.
var recordFlags = []settingFlag{
	{"brokers", "kafka.brokers", "host:port", "Kafka `brokers`, host:port, comma between"},
}

func newRecordCommand(a *app) *cobra.Command {
	var kcat bool
	c := &cobra.Command{
		Use:     "record TOPIC...",
		GroupID: groupMain,
		Short:   "Write what topics hold now as JSON lines, to be replayed",
		Long: `Reads every partition of the topics from its oldest offset to the end that it has now, and
writes one record a line to standard output. "gscd ingest --input FILE" reads it in place of
the broker. Records of transactions that are still open are left out.`,
		Example: `  gscd record shop.user_dim --brokers kafka:9092 > user_dim.jsonl
  gscd record shop.user_dim -c gscd.yaml | zstd > user_dim.jsonl.zst`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, topics []string) error {
			cfg, err := a.config(settings(c.Flags(), recordFlags)...)
			if err != nil {
				return err
			}
			o, err := a.kafkaOptions(cfg, topics)
			if err != nil {
				return err
			}
			if err := o.Validate(); err != nil {
				return usagef("%w", err)
			}
			form := recording.Readable
			if kcat {
				form = recording.Kcat
			}
			began, w := time.Now(), recording.NewWriter(a.stdout, form)
			n, err := kafka.Record(c.Context(), o, w)
			if err = errors.Join(err, w.Flush()); err != nil {
				return brokerFault(c.Context(), cfg, err)
			}
			a.log.Info("recorded", zap.Strings("topics", topics), zap.Int64("records", n), zap.Duration("in", time.Since(began).Round(time.Millisecond)))
			return nil
		},
	}
	addSettingFlags(c.Flags(), recordFlags)
	c.Flags().BoolVar(&kcat, "kcat", false, "write the form of kcat -J: key and payload as strings")
	return c
}
