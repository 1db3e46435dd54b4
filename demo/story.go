package demo

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/savepoint"
	"github.com/gscd-io/gscd/snapshotter"
)

// The labels of the story.
const (
	day14 = "2022-07-14"
	day15 = "2022-07-15"
	day16 = "2022-07-16"
	day17 = "2022-07-17"
	day18 = "2022-07-18"
)

// story is the days of the demo, told in order.
type story struct {
	*stage
	*page
	folder *folder
	shop   *shop

	last *view // the table as it was last looked at
	// evening is what the connector misses on the 17th.
	evening []logged
	// bad is the name under which the first 17th stays readable.
	bad string
}

// tell plays the days. It stops at the first thing that goes wrong.
func (t *story) tell(ctx context.Context) error {
	t.shop = newShop()
	t.opening()
	for _, part := range []func(context.Context) error{
		t.load, t.nothingHappens, t.duplicatesAndDeadLetters, t.midnight, t.outage, t.rollback, t.ingestAgain, t.account,
	} {
		if err := part(ctx); err != nil {
			return err
		}
		if t.page.err != nil {
			return t.page.err
		}
	}
	return nil
}

func (t *story) opening() {
	t.title("gscd demo: five days of changes, one snapshot for each")
	t.say("A shop keeps its users, and the city in which each lives, in a MySQL table. Debezium writes every change to the "+
		"Kafka topic %s (%d partitions, keyed by id; here an embedded broker at %s). gscd reads the topic and keeps a Delta table "+
		"in step, such that the table as it was at the end of each day stays readable: %s",
		topic, partitions, t.address(), t.folder.table())
	t.say("A day is a day in %s. The clock is played back: five days take some seconds.", timezone)
}

// load: the source's rows are read, and the first changes come.
func (t *story) load(ctx context.Context) (err error) {
	t.heading("Thursday, 14 July 2022: the load")
	reads := t.shop.read(t.stage.at(14, "09:00"))
	if err := t.deliver(ctx, t.stage.at(14, "09:00:02"), reads...); err != nil {
		return err
	}
	if t.last, err = t.taken(ctx, day14); err != nil {
		return err
	}
	t.page.at("09:00", "Debezium reads the %d users that there are; from here on it follows the binlog.", len(reads))
	for _, e := range []logged{
		t.shop.move(t.stage.at(14, "10:20"), 4, beijing),
		t.shop.move(t.stage.at(14, "11:05"), 7, hangzhou),
		t.shop.join(t.stage.at(14, "16:40"), 10, "Xu Bo", hangzhou),
	} {
		if err := t.deliver(ctx, e.begun.Add(time.Second), e); err != nil {
			return err
		}
	}
	if t.last, err = t.taken(ctx, day14); err != nil {
		return err
	}
	t.page.at("16:40", "Two users have moved, and one has joined.")
	t.gscd("%d rows. All of this has the label %s: the day on which MySQL made a change decides, not the day on which it "+
		"arrives. Rows, Kafka offsets and all bookkeeping move in one Delta commit.", t.last.progress.Rows, t.last.open())
	return nil
}

// nothingHappens: a day is sealed by the clock, and an empty day follows.
func (t *story) nothingHappens(ctx context.Context) (err error) {
	t.heading("Friday, 15 July: nothing happens")
	t.setClock(t.stage.at(15, "00:15"))
	if t.last, err = t.taken(ctx, day15); err != nil {
		return err
	}
	entry, seal, err := t.last.seal(ctx, day14)
	if err != nil {
		return err
	}
	t.page.at("00:15", "Nobody has changed anything since.")
	t.gscd("All is read, and the clock is 15 minutes past midnight (drift.wait and drift.idle): the 14th is sealed. Version %d is its "+
		"savepoint, with %d rows, and stays readable. The seal notes %q: no event has shown that MySQL was alive after midnight.",
		entry.Version, seal.Rows, strings.Join(seal.Attributes, ", "))
	return nil
}

// duplicatesAndDeadLetters: what must not get into a day.
func (t *story) duplicatesAndDeadLetters(ctx context.Context) (err error) {
	t.heading("Saturday, 16 July: a day with everything in it")
	if err := t.deliver(ctx, t.stage.at(16, "00:12:01"), t.shop.move(t.stage.at(16, "00:12"), 3, wuhan)); err != nil {
		return err
	}
	t.setClock(t.stage.at(16, "00:15"))
	if t.last, err = t.taken(ctx, day16); err != nil {
		return err
	}
	entry, seal, err := t.last.seal(ctx, day15)
	if err != nil {
		return err
	}
	t.page.at("00:12", "The first change since Thursday.")
	t.gscd("The 15th is sealed too (version %d, %q). No day is missing from the map, so a query of the 15th has an answer.",
		entry.Version, strings.Join(seal.Attributes, ", "))

	morning := []logged{
		t.shop.move(t.stage.at(16, "09:30"), 2, hangzhou),
		t.shop.leave(t.stage.at(16, "10:10"), 9),
		t.shop.move(t.stage.at(16, "10:45"), 5, wuhan),
	}
	for _, e := range morning {
		if err := t.deliver(ctx, e.begun.Add(time.Second), e); err != nil {
			return err
		}
	}
	if t.last, err = t.taken(ctx, day16); err != nil {
		return err
	}
	applied := t.last.progress.Totals.Applied
	if err := t.deliver(ctx, t.stage.at(16, "12:00"), morning...); err != nil {
		return err
	}
	if t.last, err = t.taken(ctx, day16); err != nil {
		return err
	}
	t.page.at("12:00", "Two users have moved and one has left; then the connector restarts, and sends these changes a second time.")
	t.gscd("%d duplicates, known by their binlog positions; %d more changes applied.",
		t.last.progress.Counts.Duplicates, t.last.progress.Totals.Applied-applied)

	// A MySQL host whose clock is two days ahead stamps its binlog with it.
	if err := t.deliver(ctx, t.stage.at(16, "15:00:01"), t.shop.move(t.stage.at(18, "15:00"), 6, beijing)); err != nil {
		return err
	}
	whole, err := t.connector.records(t.stage.at(16, "15:20"), t.shop.move(t.stage.at(16, "15:20"), 4, wuhan))
	if err != nil {
		return err
	}
	if err := t.send(ctx, t.stage.at(16, "15:20:01"), []*change.Record{cutOff(whole[0])}); err != nil {
		return err
	}
	if t.last, err = t.taken(ctx, day16); err != nil {
		return err
	}
	t.page.at("15:20", "One change is dated two days ahead, and one message breaks off in the middle.")
	t.gscd("Neither can be given a day. %d records are put aside with their bytes, in a dead-letter table, and counted with the day. "+
		"Nothing else waits for them:", t.last.progress.Totals.DeadLetters)
	t.gap()
	return printDeadLetters(ctx, t.stage, t.page)
}

// midnight: changes of two days arrive mixed.
func (t *story) midnight(ctx context.Context) (err error) {
	t.heading("Sunday, 17 July: midnight, in disorder")
	// Partition 2 lags; this is what it holds back.
	lagging := t.shop.move(t.stage.at(16, "23:57"), 5, beijing)
	if err := t.deliver(ctx, t.stage.at(17, "00:02:01"),
		t.shop.move(t.stage.at(17, "00:01"), 1, hangzhou),
		t.shop.move(t.stage.at(17, "00:02"), 10, beijing),
	); err != nil {
		return err
	}
	// A transaction over midnight: MySQL stamps its events with the statement's start.
	if err := t.deliver(ctx, t.stage.at(17, "00:03:01"), t.shop.move(t.stage.at(16, "23:58:50"), 8, beijing)); err != nil {
		return err
	}
	if t.last, err = t.taken(ctx, day16); err != nil {
		return err
	}
	t.page.at("00:03", "Changes of the 17th arrive on partitions 0 and 1. Partition 2 lags: its last change of the 16th is still "+
		"to come. And a transaction that began at 23:58 is committed only now.")
	t.gscd("The 16th stays open. %d changes of the 17th are held: stored with the table, safe from a crash, but not among its rows. "+
		"The change of 23:58 is drift (%d) and goes where it belongs, into the 16th.", t.last.progress.Totals.Held, t.last.progress.Counts.Drift)

	if err := t.deliver(ctx, t.stage.at(17, "00:07"), lagging); err != nil {
		return err
	}
	if t.last, err = t.taken(ctx, day16); err != nil {
		return err
	}
	t.page.at("00:07", "Partition 2 delivers what was changed at 23:57, in time for the 16th.")

	if err := t.deliver(ctx, t.stage.at(17, "00:12:30"),
		t.shop.move(t.stage.at(17, "00:11"), 3, beijing),
		t.shop.move(t.stage.at(17, "00:12"), 6, wuhan),
		t.shop.move(t.stage.at(17, "00:12:20"), 4, hangzhou),
	); err != nil {
		return err
	}
	if t.last, err = t.taken(ctx, day17); err != nil {
		return err
	}
	entry, seal, err := t.last.seal(ctx, day16)
	if err != nil {
		return err
	}
	t.page.at("00:12", "Every partition has brought a change from after 00:10, midnight and drift.wait.")
	t.gscd("So the 16th is complete, proven by %d of %d partitions and not by a clock: sealed, version %d. Only now are the held changes "+
		"of the 17th applied, so that no version mixes two days. The users as of %s (the two of the dead letters are where they were):",
		provenBy(seal), len(seal.Partitions), entry.Version, day16)
	t.gap()
	return t.last.printRows(ctx, t.page, day16)
}

// provenBy counts the partitions whose watermark agreed to a seal.
func provenBy(e *progress.Evidence) int {
	n := 0
	for _, p := range e.Partitions {
		if p.Rule == snapshotter.ByWatermark {
			n++
		}
	}
	return n
}

// outage: a late change, and an evening that comes only the next morning.
func (t *story) outage(ctx context.Context) (err error) {
	t.heading("Sunday, 17 July: a late change, and a connector that stops")
	if err := t.deliver(ctx, t.stage.at(17, "00:40:01"), t.shop.move(t.stage.at(16, "23:50"), 7, wuhan)); err != nil {
		return err
	}
	if t.last, err = t.taken(ctx, day17); err != nil {
		return err
	}
	t.page.at("00:40", "A long transaction ends; its change is of 23:50 on the 16th, which is sealed.")
	t.gscd("A sealed day never changes. The change is late (%d), and folded into the open day: %s.", t.last.progress.Counts.Late, t.last.open())

	for _, e := range []logged{
		t.shop.move(t.stage.at(17, "10:00"), 2, wuhan),
		t.shop.join(t.stage.at(17, "14:00"), 11, "Guo Jun", beijing),
		t.shop.move(t.stage.at(17, "16:30"), 5, wuhan),
	} {
		if err := t.deliver(ctx, e.begun.Add(time.Second), e); err != nil {
			return err
		}
	}
	t.page.at("18:00", "The connector stops, and nobody notices. The shop goes on.")
	t.evening = []logged{
		t.shop.move(t.stage.at(17, "19:30"), 1, wuhan),
		t.shop.join(t.stage.at(17, "20:15"), 12, "Ma Lin", hangzhou),
		t.shop.move(t.stage.at(17, "21:40"), 2, beijing),
	}
	if t.last, err = t.taken(ctx, day17); err != nil {
		return err
	}
	t.setClock(t.stage.at(18, "00:15"))
	if t.last, err = t.taken(ctx, day18); err != nil {
		return err
	}
	entry, seal, err := t.last.seal(ctx, day17)
	if err != nil {
		return err
	}
	t.bad = fmt.Sprintf("%s@%d", entry.Name, entry.Version)
	t.page.at("00:15", "It is Monday, and the topic has been silent for hours.")
	t.gscd("The 17th is sealed (version %d, %d rows), and again the seal notes %q. This time that hides something.",
		entry.Version, seal.Rows, strings.Join(seal.Attributes, ", "))
	return nil
}

// rollback: the evening arrives, too late for its day; the operator goes back.
func (t *story) rollback(ctx context.Context) (err error) {
	t.heading("Monday, 18 July: the bad day is rolled back")
	morning := []logged{
		t.shop.move(t.stage.at(18, "07:20"), 8, hangzhou),
		t.shop.move(t.stage.at(18, "07:50"), 10, wuhan),
	}
	if err := t.deliver(ctx, t.stage.at(18, "08:00"), append(t.evening, morning...)...); err != nil {
		return err
	}
	if t.last, err = t.taken(ctx, day18); err != nil {
		return err
	}
	t.page.at("08:00", "The connector is started again, and sends what it missed: the evening of the 17th and the early morning.")
	t.gscd("The evening's %d changes are late now, and folded into the 18th. The newest rows are right, but the snapshot of the 17th "+
		"lacks its evening. The map of days and versions shows where to look, by its late changes and by its clock:", t.last.progress.Counts.Late)
	t.gap()
	if err := t.last.printMap(ctx, t.page); err != nil {
		return err
	}
	t.gap()

	t.setClock(t.stage.at(18, "08:30"))
	plan, err := savepoint.Rollback(ctx, t.last.table, day16, savepoint.RollbackOptions{Now: t.clock()})
	if err != nil {
		return err
	}
	t.page.at("08:30", "An operator goes back to the last good day: gscd rollback --to %s", day16)
	t.gscd("One commit, version %d: rows (%d now, %d before), schema, Kafka offsets and held changes are those of the seal of the 16th. "+
		"Rolled back: %s.", plan.Committed, plan.RowsThen, plan.RowsNow, strings.Join(plan.Labels, " and "))
	if t.last, err = t.look(ctx); err != nil {
		return err
	}
	if _, err := t.last.labels.Resolve(day17, false); err != nil {
		t.say("Whoever asks for the 17th now is told: %q.", err)
	}
	return nil
}

// ingestAgain: the running ingester meets the rollback and goes on from there.
func (t *story) ingestAgain(ctx context.Context) (err error) {
	rolledBack := t.last.snapshot.Version()
	if err := t.deliver(ctx, t.stage.at(18, "09:00:01"), t.shop.move(t.stage.at(18, "09:00"), 3, hangzhou)); err != nil {
		return err
	}
	if t.last, err = t.taken(ctx, day18); err != nil {
		return err
	}
	entry, seal, err := t.last.seal(ctx, day17)
	if err != nil {
		return err
	}
	t.page.at("09:00", "The next change arrives. The ingester was running all the time, and nobody has to tell it anything.")
	t.gscd("Its commit meets the rollback's. It drops what it has in hand, takes the restored offsets and reads the topic again from "+
		"there: the evening comes before the 18th now. %d versions later all is read, and the 17th is sealed anew (version %d, %d rows), "+
		"proven by %d of %d partitions. The days are what they would be had the connector never stopped:",
		t.last.snapshot.Version()-rolledBack, entry.Version, seal.Rows, provenBy(seal), len(seal.Partitions))
	t.gap()
	if err := t.last.printMap(ctx, t.page); err != nil {
		return err
	}
	t.gap()
	t.say("The bad 17th can still be read, as %s. Where the users lived at the end of each day:", t.bad)
	t.gap()
	return t.last.printCities(ctx, t.page, day14, day16, t.bad, day17)
}

// account shows that every record has its fate, and records the topic.
func (t *story) account(ctx context.Context) error {
	n, err := t.record(ctx, t.folder.recording())
	if err != nil {
		return fmt.Errorf("record the topic: %w", err)
	}
	c := t.last.progress.Totals
	var fates []string
	for _, f := range []struct {
		n    int64
		what string
	}{
		{c.Applied, "applied"}, {c.Superseded, "superseded"}, {c.Duplicates, "duplicates"}, {c.Tombstones, "tombstones behind deletes"},
		{c.DeadLetters, "dead letters"}, {c.Held, "held"},
	} {
		if f.n > 0 {
			fates = append(fates, fmt.Sprintf("%d %s", f.n, f.what))
		}
	}
	t.gap()
	t.say("Every record has one fate: the topic has %d, and of these are %s; %d are missing.", n, strings.Join(fates, ", "), c.Missing())
	return nil
}
