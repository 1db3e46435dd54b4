package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/server"
)

// errNotSealed is the answer no of --sealed.
var errNotSealed = errors.New("not sealed")

// printWhys prints the answers: an object for each table, sentences for a
// person, the causes as rows of csv.
func (a *app) printWhys(list []*whyNot, sealed bool) error {
	format, err := output.Resolve(a.flags.format, a.stdout)
	if err != nil {
		return err
	}
	switch format {
	case output.Table:
		for i, w := range list {
			if i > 0 {
				fmt.Fprintln(a.stdout)
			}
			if err = a.printWhy(w); err != nil {
				return err
			}
		}
	case output.CSV:
		var rows []output.Record
		for _, w := range list {
			rows = append(rows, w.rows()...)
		}
		err = output.WriteRecords(format, a.stdout, rows)
	default:
		var records []output.Record
		for _, w := range list {
			records = append(records, w.record())
		}
		if len(records) == 1 {
			err = a.printObject(records[0])
		} else {
			err = output.WriteRecords(format, a.stdout, records)
		}
	}
	if err != nil {
		return err
	}
	for _, w := range list {
		if sealed && w.state != string(savepoint.Sealed) {
			return silently(exitNo, errNotSealed)
		}
	}
	return nil
}

func (w *whyNot) record() output.Record {
	causes := []output.Record{}
	for i := range w.causes {
		causes = append(causes, causeRecord(&w.causes[i]))
	}
	var version any
	if w.version >= 0 {
		version = w.version
	}
	partitions := w.partitions
	if partitions == nil {
		partitions = []output.Record{}
	}
	return output.Record{
		{Name: "table", Value: w.table}, {Name: "label", Value: orNull(w.label)}, {Name: "state", Value: w.state},
		{Name: "version", Value: version}, {Name: "sealed_at", Value: w.sealedAt},
		{Name: "starts", Value: w.starts}, {Name: "ends", Value: w.ends}, {Name: "clock", Value: w.clock.Truncate(time.Second)},
		{Name: "answer", Value: w.answer}, {Name: "earliest", Value: w.earliest}, {Name: "by_clock", Value: w.byClock},
		{Name: "causes", Value: causes}, {Name: "partitions", Value: partitions},
		{Name: "unknown", Value: append([]string{}, w.unknown...)}, {Name: "process", Value: orNull(w.process)},
	}
}

func causeRecord(c *server.CauseStatus) output.Record {
	var topic, partition any
	if c.Topic != nil && c.Partition != nil {
		topic, partition = *c.Topic, *c.Partition
	}
	return output.Record{
		{Name: "rule", Value: string(c.Rule)}, {Name: "topic", Value: topic}, {Name: "partition", Value: partition},
		{Name: "since", Value: orZero(c.Since)}, {Name: "earliest", Value: orZero(c.Earliest)},
		{Name: "why", Value: c.Why}, {Name: "do", Value: c.Do},
	}
}

// rows are the causes; one without a rule where there is none.
func (w *whyNot) rows() (rows []output.Record) {
	head := output.Record{{Name: "table", Value: w.table}, {Name: "label", Value: orNull(w.label)}, {Name: "state", Value: w.state}}
	for i := range w.causes {
		rows = append(rows, append(append(output.Record{}, head...), causeRecord(&w.causes[i])...))
	}
	if rows == nil {
		none := causeRecord(&server.CauseStatus{Why: w.answer})
		none[0].Value, none[len(none)-1].Value = nil, nil
		rows = append(rows, append(append(output.Record{}, head...), none...))
	}
	return rows
}

// printWhy prints an answer in sentences: a table would cut them.
func (a *app) printWhy(w *whyNot) error {
	say := func(format string, args ...any) { fmt.Fprintf(a.stdout, format+"\n", args...) }
	say("%s: %s", w.table, w.answer)
	for i := range w.causes {
		c := &w.causes[i]
		say("\n  %d. [%s] %s", i+1, c.Rule, c.Why)
		say("     What to do: %s", c.Do)
	}
	if w.state == string(savepoint.Sealed) || w.label == "" {
		return nil
	}
	if w.state == string(savepoint.Open) || w.state == future {
		say("\nIt can be sealed %s.", canSeal(w))
	}
	for _, u := range w.unknown {
		say("Not known: %s", u)
	}
	if len(w.partitions) == 0 {
		return nil
	}
	return output.WriteRecords(output.Table, a.stdout, w.partitions)
}

// canSeal says when a label can be sealed.
func canSeal(w *whyNot) string {
	at := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	text := "when what is named above is mended"
	if !w.earliest.IsZero() {
		text = "from " + at(w.earliest) + " on"
	}
	if !w.byClock.IsZero() {
		text += "; where every partition is read to its end, the clock seals it at " + at(w.byClock)
	}
	return text
}
