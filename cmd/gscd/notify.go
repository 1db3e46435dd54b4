package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/kafka"
	"github.com/gscd-io/gscd/notify"
	"github.com/gscd-io/gscd/server"
)

func newNotifyCommand(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:     "notify",
		GroupID: groupMain,
		Short:   "Try notifications, or tell what was not told yet",
		Example: `  gscd notify test
  gscd notify send --timeout 5m`,
	}, newNotifyTestCommand(a), newNotifySendCommand(a))
}

func newNotifyTestCommand(a *app) *cobra.Command {
	var sink string
	c := &cobra.Command{
		Use:   "test",
		Short: "Send a test event to every sink of the section notify",
		Long: `Sends one event of the kind test to every sink, or to that of --sink, once, and prints how
each has answered. Exits with 1 where one did not take it.`,
		Example: `  gscd notify test -c gscd.yaml
  gscd notify test --sink webhook`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.notifyTest(c.Context(), sink) },
	}
	c.Flags().StringVar(&sink, "sink", "", "the `name` of the only sink to send to")
	return c
}

func newNotifySendCommand(a *app) *cobra.Command {
	var timeout string
	c := &cobra.Command{
		Use:   "send",
		Short: "Tell the seals and rollbacks that no sink was told yet",
		Long: `Tells every sink what the maps of the configured tables, or of that of --table, have and it
was not told. gscd ingest does so by itself; this is for tables that other commands fill,
gscd load among them. The first run tells nothing: it notes where the table stands. Exits
with 1 where something is left at the timeout, or a sink does not take it.`,
		Example: `  gscd load --snapshot 2022-07-16 day.parquet && gscd notify send --timeout 5m`,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			d, err := config.ParseDuration(timeout)
			if err != nil {
				return usagef("--timeout: %w", err)
			}
			return a.notifySend(c.Context(), d)
		},
	}
	c.Flags().StringVar(&timeout, "timeout", "1m", "longest `duration` to try")
	return c
}

// sinks are those of the section notify. close gives their connections up.
func (a *app) sinks(cfg *config.Config) (sinks []*notify.Sink, close func(), err error) {
	var topics []*kafka.Sink
	close = func() {
		for _, t := range topics {
			t.Close()
		}
	}
	for i := range cfg.Notify {
		n := &cfg.Notify[i]
		s := &notify.Sink{Name: n.Name, Tables: n.Tables, LateChanges: int64(n.LateChanges), StallAfter: n.StallAfter}
		for _, on := range n.On {
			s.On = append(s.On, notify.Kind(on))
		}
		switch {
		case n.Webhook != nil:
			s.Sender, err = webhookOf(n.Webhook, a.environ)
		case n.Topic != nil:
			var topic *kafka.Sink
			if topic, err = a.topicOf(cfg, n.Topic); err == nil {
				topics = append(topics, topic)
				s.Sender = &notify.Topic{Name: n.Topic.Name, To: topic}
			}
		default:
			hook := &notify.Exec{Command: n.Exec.Command, Timeout: n.Exec.Timeout}
			s.Sender, err = hook, hook.Check()
		}
		if err != nil {
			return nil, close, usagef("notify[%d] (%s): %w", i, n.Name, err)
		}
		sinks = append(sinks, s)
	}
	return sinks, close, nil
}

func webhookOf(w *config.NotifyWebhook, environ []string) (*notify.Webhook, error) {
	o := notify.WebhookOptions{URL: w.URL, KeyID: w.KeyID, CAFile: w.CAFile, Timeout: w.Timeout, UserAgent: "gscd/" + fmt.Sprint(buildVersion()[0].Value)}
	if w.URLFile != "" {
		data, err := os.ReadFile(w.URLFile)
		if err != nil {
			return nil, fmt.Errorf("url_file: %w", err)
		}
		o.URL = strings.TrimSpace(string(data))
	}
	switch {
	case w.SecretFile != "": // read at each attempt: it may be exchanged meanwhile
		o.Secret = func() ([]byte, error) { return secretOf(os.ReadFile(w.SecretFile)) }
	case w.SecretEnv != "":
		value := (&app{environ: environ}).getenv(w.SecretEnv)
		o.Secret = func() ([]byte, error) { return secretOf([]byte(value), nil) }
	}
	if o.Secret != nil {
		if _, err := o.Secret(); err != nil {
			return nil, fmt.Errorf("the secret: %w", err)
		}
	}
	return notify.NewWebhook(o)
}

func secretOf(data []byte, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	if data = bytes.TrimRight(data, "\r\n"); len(data) == 0 {
		return nil, errors.New("it is empty")
	}
	return data, nil
}

func (a *app) topicOf(cfg *config.Config, t *config.NotifyTopic) (*kafka.Sink, error) {
	own := *cfg
	if len(t.Brokers) > 0 {
		own.Kafka.Brokers = t.Brokers
	}
	o, err := a.kafkaOptions(&own, nil)
	if err != nil {
		return nil, err
	}
	return kafka.NewSink(o, t.Name)
}

// notifierOf tells the sinks of a configuration; nil where there are none. close gives what
// is under way a moment.
func (a *app) notifierOf(cfg *config.Config) (n *notify.Notifier, close func(), err error) {
	if len(cfg.Notify) == 0 {
		return nil, func() {}, nil
	}
	sinks, closeSinks, err := a.sinks(cfg)
	if err != nil {
		closeSinks()
		return nil, nil, err
	}
	n = notify.New(sinks, a.log)
	return n, func() {
		ctx, cancel := context.WithTimeout(context.Background(), lastWords)
		defer cancel()
		n.Close(ctx)
		closeSinks()
	}, nil
}

// lastWords is how long the end of the program waits for sinks that answer.
const lastWords = 5 * time.Second

// watch has a table's events told; o gets its Observer.
func (a *app) watch(ctx context.Context, t *config.Table, o *ingest.Options) (rest func(), err error) {
	if a.notifier == nil {
		return func() {}, nil
	}
	w, err := a.notifier.Watch(ctx, notify.TableOptions{
		Name: t.Name, Location: o.Store.String(), Store: o.Store, Idle: t.Drift.Idle, Next: o.Observer, Recorded: o.UntilEnd,
		Why: func(v ingest.View) string {
			return server.Stand(server.Facts{
				Progress: v.Progress, Calendar: v.Calendar, Ends: v.Ends, Asked: len(v.Ends) >= len(v.Progress.State.Partitions),
				Clock: v.Clock, Idle: t.Drift.Idle, Proof: t.Seal.Proof,
			}).Holds
		},
	})
	if err != nil {
		return nil, err
	}
	o.Observer = w
	return w.Rest, nil
}

// tableFailed tells that a table is not started again.
func (a *app) tableFailed(table, location string, err error) {
	if a.notifier != nil {
		a.notifier.Failed(table, location, err)
	}
}

// notified gives the figures of the sinks.
func notified(n *notify.Notifier) func() []server.Notified {
	if n == nil {
		return nil
	}
	return func() []server.Notified {
		var out []server.Notified
		for _, s := range n.Stats() {
			out = append(out, server.Notified(s))
		}
		return out
	}
}

func (a *app) notifyTest(ctx context.Context, name string) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	if len(cfg.Notify) == 0 {
		return usagef("no sink is configured: see notify in docs/notifications.md")
	}
	sinks, closeSinks, err := a.sinks(cfg)
	defer closeSinks()
	if err != nil {
		return err
	}
	if name != "" {
		i := slices.IndexFunc(sinks, func(s *notify.Sink) bool { return s.Name == name })
		if i < 0 {
			return usagef("--sink %s: no sink of the section notify is called so", name)
		}
		sinks = sinks[i : i+1]
	}
	w, err := a.printRecords("sink", "result", "milliseconds", "error")
	if err != nil {
		return err
	}
	event, failed := notify.TestEvent(), 0
	for _, s := range sinks {
		began := time.Now()
		result, fault := "delivered", any(nil)
		if err := s.Sender.Send(ctx, event); err != nil {
			result, fault = "failed", err.Error()
			failed++
		}
		if err := w.Write(s.Name, result, time.Since(began).Milliseconds(), fault); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d sinks did not take the test event", failed, len(sinks))
	}
	return nil
}

func (a *app) notifySend(ctx context.Context, timeout time.Duration) error {
	cfg, err := a.config()
	if err != nil {
		return err
	}
	if len(cfg.Notify) == 0 {
		return usagef("no sink is configured: see notify in docs/notifications.md")
	}
	names, err := a.tablesToShow()
	if err != nil {
		return err
	}
	n, closeSinks, err := a.notifierOf(cfg)
	if err != nil {
		return err
	}
	defer closeSinks()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	left := 0
	for _, name := range names {
		ref, err := a.resolveTable(name)
		if err != nil {
			return err
		}
		store, err := a.openStore(ctx, ref.Address)
		if err != nil {
			return err
		}
		t, err := n.Watch(ctx, notify.TableOptions{Name: ref.Name, Location: store.String(), Store: store, Recorded: true})
		if err != nil {
			return fmt.Errorf("table %s: %w", ref.Name, err)
		}
		left += t.CatchUp(ctx)
	}
	w, err := a.printRecords("sink", "delivered", "failed", "undelivered")
	if err != nil {
		return err
	}
	for _, s := range n.Stats() {
		if err := w.Write(s.Sink, s.Delivered, s.Failed, s.Undelivered); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if left > 0 {
		return fmt.Errorf("%d events were not taken; they are told at the next run", left)
	}
	return nil
}
