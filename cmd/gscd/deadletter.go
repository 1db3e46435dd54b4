package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/deadletter"
	"github.com/gscd-io/gscd/ingest/decode"
	"github.com/gscd-io/gscd/ingest/settled"
	"github.com/gscd-io/gscd/ingest/transform"
	"github.com/gscd-io/gscd/query/output"
)

func newDeadLetterCommand(a *app) *cobra.Command {
	return group(&cobra.Command{
		Use:     "dead-letter",
		GroupID: groupChanging,
		Short:   "Look at the records that could not be applied, apply them, or give them up",
		Example: `  gscd dead-letter list
  gscd dead-letter show shop.user_dim/0/42
  gscd dead-letter replay --reason value
  gscd dead-letter dismiss shop.user_dim/0/42 --note "a test of the producer"`,
	}, newDeadLetterListCommand(a), newDeadLetterShowCommand(a), newDeadLetterReplayCommand(a), newDeadLetterDismissCommand(a))
}

// deadLetterFilter picks entries.
type deadLetterFilter struct {
	label, reason, state string
	limit                int
}

func newDeadLetterListCommand(a *app) *cobra.Command {
	var f deadLetterFilter
	c := &cobra.Command{
		Use:   "list",
		Short: "List the dead letters: where each record lies, and why it was not applied",
		Long: `Prints a record for each dead letter, by topic, partition and offset. label is the day that
lacks the record.

state is "active" where the record counts as a dead letter; "replayed", "superseded" or
"dismissed" where it does no more; "undone" where the table was rolled back behind it and
has not come past it again, or has applied it when it did.`,
		Example: `  gscd dead-letter list --label 2022-07-16
  gscd dead-letter list --state active
  gscd dead-letter list --reason decode --format csv`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return a.listDeadLetters(c.Context(), f) },
	}
	c.Flags().StringVar(&f.label, "label", "", "those that count in this `label`")
	c.Flags().StringVar(&f.reason, "reason", "", "those with this `reason`: decode, schema, key, future, late, partial, ...")
	c.Flags().StringVar(&f.state, "state", "", "those in this `state`: active, replayed, superseded, dismissed, undone")
	c.Flags().IntVar(&f.limit, "limit", 0, "print at most that `number` (default: all)")
	return c
}

func newDeadLetterShowCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "show TOPIC/PARTITION/OFFSET",
		Short: "Print one dead letter with the bytes of its record",
		Long: `Prints one dead letter. key, value and headers are text where the bytes are UTF-8, else
base64 under key_base64 and value_base64. What they say in Avro is in key_avro and
value_avro as JSON, where schema_registry is configured and answers.`,
		Example: `  gscd dead-letter show shop.user_dim/0/42`,
		Args:    cobra.ExactArgs(1),
		RunE:    func(c *cobra.Command, args []string) error { return a.showDeadLetter(c.Context(), args[0]) },
	}
}

// deadLetters opens the dead-letter table of a table.
func (a *app) deadLetters(ctx context.Context) (*openedTable, *deadletter.Table, error) {
	t, err := a.openTable(ctx)
	if err != nil {
		return nil, nil, err
	}
	store, err := a.openStore(ctx, deadLetterAddress(t.Address))
	if err != nil {
		return nil, nil, err
	}
	return t, deadletter.Open(store), nil
}

// deadLetterStates reads what became of a table's dead letters.
func (t *openedTable) deadLetterStates(ctx context.Context) (*deadletter.States, error) {
	states, err := deadletter.ReadStates(ctx, t.store, t.labels.Calendar, t.labels.Progress)
	if err != nil {
		return nil, fmt.Errorf("table %s: dead letters: %w", t.Name, err)
	}
	return states, nil
}

func (a *app) listDeadLetters(ctx context.Context, f deadLetterFilter) error {
	t, dead, err := a.deadLetters(ctx)
	if err != nil {
		return err
	}
	if f.label != "" {
		if _, err := t.labels.Calendar.Parse(f.label); err != nil {
			return fmt.Errorf("--label: %w", err)
		}
	}
	if f.state != "" && !slices.Contains(settled.States, settled.State(f.state)) {
		return usagef("--state %q is unknown: use active, replayed, superseded, dismissed or undone", f.state)
	}
	states, err := t.deadLetterStates(ctx)
	if err != nil {
		return err
	}
	var list []deadletter.Entry
	err = dead.Each(ctx, func(e deadletter.Entry) error {
		e.Copied = states.Of(&e)
		if f.state != "" && string(e.Copied.State) != f.state {
			return nil
		}
		if f.label != "" && e.Label != f.label || f.reason != "" && e.Reason != f.reason {
			return nil
		}
		e.Key, e.Value, e.Headers = nil, nil, nil // not listed, and they may be large
		list = append(list, e)
		return nil
	})
	if err != nil {
		return fmt.Errorf("table %s: dead letters: %w", t.Name, err)
	}
	slices.SortFunc(list, func(a, b deadletter.Entry) int { return a.Place().Compare(b.Place()) })
	if f.limit > 0 && len(list) > f.limit {
		a.noticef("%d of %d dead letters", f.limit, len(list))
		list = list[:f.limit]
	}
	w, err := a.printRecords("topic", "partition", "offset", "timestamp", "label", "open_label", "reason", "column", "detail", "length", "state", "row")
	if err != nil {
		return err
	}
	for i := range list {
		e := &list[i]
		if err := w.Write(e.Topic, e.Partition, e.Offset, brokerTime(e.Timestamp), e.Label, e.OpenLabel, e.Reason, orNull(e.Column), orNull(e.Detail),
			e.Length, string(e.Copied.State), e.Row); err != nil {
			return err
		}
	}
	return w.Close()
}

func (a *app) showDeadLetter(ctx context.Context, place string) error {
	at, err := parsePlace(place)
	if err != nil {
		return usagef("%w", err)
	}
	t, dead, err := a.deadLetters(ctx)
	if err != nil {
		return err
	}
	var found *deadletter.Entry
	err = dead.Each(ctx, func(e deadletter.Entry) error {
		if e.Place() == at {
			found = &e
			return errFound
		}
		return nil
	})
	switch {
	case err != nil && !errors.Is(err, errFound):
		return fmt.Errorf("table %s: dead letters: %w", t.Name, err)
	case found == nil:
		return fmt.Errorf("table %s has no dead letter at %s: `gscd dead-letter list` shows them", t.Name, place)
	}
	states, err := t.deadLetterStates(ctx)
	if err != nil {
		return err
	}
	encrypted := a.openDeadLetter(t, found)
	record := deadLetterRecord(found, states.Of(found))
	if encrypted {
		record = append(record, output.Item{Name: "encrypted", Value: true})
	}
	said, err := a.avroItems(t, found)
	if err != nil {
		a.log.Warn("what the record says in Avro can't be printed", zap.String("place", place), zap.Error(err))
	}
	return a.printObject(append(record, said...))
}

// openDeadLetter gives the entry its record as it came, where the table hides columns and
// the configuration has the secret. It reports an entry that stays encrypted.
func (a *app) openDeadLetter(t *openedTable, e *deadletter.Entry) (encrypted bool) {
	r := e.Record()
	if !transform.IsSealed(r) {
		return false
	}
	cfg, err := a.config()
	if err != nil || t.Config == nil {
		return true
	}
	rules, err := rulesOf(t.Config, cfg.Transform.HashSecret)
	if err == nil {
		r, err = rules.Open(r)
	}
	if err != nil {
		a.log.Warn("the record can't be decrypted", zap.String("topic", e.Topic), zap.Int32("partition", e.Partition), zap.Int64("offset", e.Offset), zap.Error(err))
		return true
	}
	e.Key, e.Value, e.Headers = r.Key, r.Value, r.Headers
	return false
}

// avroItems are what the key and the value of a record in Avro say, where a registry
// is configured. A record that was cut off can't be read.
func (a *app) avroItems(t *openedTable, e *deadletter.Entry) (items output.Record, err error) {
	cfg, err := a.config()
	if err != nil || cfg.SchemaRegistry.URL == "" || int64(len(e.Value)) < e.Length {
		return nil, err
	}
	schemas, err := a.schemas(cfg)
	if err != nil {
		return nil, err
	}
	frame := decode.Avro{}
	if t.Config != nil {
		frame = decode.Avro{Frame: t.Config.Avro.Frame, ID: t.Config.Avro.ID}
	}
	key, value, err := decode.AvroText(&change.Record{Key: e.Key, Value: e.Value, Headers: e.Headers}, frame, schemas)
	if key != "" {
		items = append(items, output.Item{Name: "key_avro", Value: key})
	}
	if value != "" {
		items = append(items, output.Item{Name: "value_avro", Value: value})
	}
	return items, err
}

var errFound = errors.New("found")

// parsePlace reads TOPIC/PARTITION/OFFSET, and /ROW of a record that holds several rows.
func parsePlace(text string) (settled.Place, error) {
	parts := strings.Split(text, "/")
	if len(parts) == 3 {
		parts = append(parts, "0")
	}
	if len(parts) == 4 && parts[0] != "" {
		p, err1 := strconv.ParseUint(parts[1], 10, 31)
		o, err2 := strconv.ParseUint(parts[2], 10, 63)
		r, err3 := strconv.ParseUint(parts[3], 10, 31)
		if err1 == nil && err2 == nil && err3 == nil {
			return settled.Place{Topic: parts[0], Partition: int32(p), Offset: int64(o), Row: int32(r)}, nil
		}
	}
	return settled.Place{}, fmt.Errorf("%q is no place of a record: write TOPIC/PARTITION/OFFSET, or TOPIC/PARTITION/OFFSET/ROW", text)
}

func deadLetterRecord(e *deadletter.Entry, became settled.Resolution) output.Record {
	var at, version any
	if became.At != 0 {
		at, version = became.Time(), became.Version
	}
	headers := output.Record{}
	for _, h := range e.Headers {
		headers = append(headers, bytesItem(h.Key, h.Value))
	}
	return output.Record{
		{Name: "topic", Value: e.Topic},
		{Name: "partition", Value: e.Partition},
		{Name: "offset", Value: e.Offset},
		{Name: "timestamp", Value: brokerTime(e.Timestamp)},
		{Name: "state", Value: string(became.State)},
		{Name: "resolved_at", Value: at},
		{Name: "resolved_version", Value: version},
		{Name: "note", Value: orNull(became.Note)},
		{Name: "label", Value: e.Label},
		{Name: "open_label", Value: e.OpenLabel},
		{Name: "reason", Value: e.Reason},
		{Name: "column", Value: orNull(e.Column)},
		{Name: "detail", Value: orNull(e.Detail)},
		{Name: "length", Value: e.Length},
		{Name: "row", Value: e.Row},
		{Name: "headers", Value: headers},
		bytesItem("key", e.Key),
		bytesItem("value", e.Value),
	}
}

// bytesItem gives bytes as text where they are, else as base64 under another name.
func bytesItem(name string, b []byte) output.Item {
	switch {
	case b == nil:
		return output.Item{Name: name}
	case utf8.Valid(b):
		return output.Item{Name: name, Value: string(b)}
	}
	return output.Item{Name: name + "_base64", Value: base64.StdEncoding.EncodeToString(b)}
}

// brokerTime gives a broker timestamp in milliseconds, null where there is none.
func brokerTime(ms int64) any {
	if ms < 0 {
		return nil
	}
	return time.UnixMilli(ms)
}

// orNull gives an empty text as null.
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}
