package decode

import "fmt"

// Want is something that the exactness of a table rests on and that a record may lack.
type Want uint8

// What may be lacking.
const (
	// Position in the source's log.
	WantPosition Want = iota
	// WantEventTime: when the source made the change.
	WantEventTime
	// WantCommitTime: that this is the commit's.
	WantCommitTime
	// WantKey: the names of the key's columns.
	WantKey
	// WantOldKey: that an update which changes the key can be told.
	WantOldKey
	// WantReads: that rows of a load can be told from changes.
	WantReads
	// WantTruncate: that a TRUNCATE is seen.
	WantTruncate
	wants
)

var wantNames = [wants]string{"position", "event time", "commit time", "key", "old key", "reads", "truncate"}

func (w Want) String() string { return wantNames[w] }

// lackings say what a table without it is not promised.
var lackings = [wants]string{
	WantPosition:   "a record that was sent twice is applied twice; changes of one key on two partitions, and a load beside changes, are ordered by arrival; TRUNCATE needs a topic of one partition",
	WantEventTime:  "the broker's time stamp decides the day, and is counted as replaced",
	WantCommitTime: "event times are those of statements, most often in whole seconds: a transaction over the end of a day is in both days",
	WantKey:        "no record names the key: set key",
	WantOldKey:     "an update that changes the key can't be told from one that does not: the old row would stay",
	WantReads:      "rows of a load look like changes: an old one can override a newer change, and no day is marked as loaded",
	WantTruncate:   "a TRUNCATE at the source is not seen: the rows stay",
}

// what is what records of a format have: always, never, or by a setting at the source.
type what [wants]string

// The words of what; anything else is the setting that is needed.
const (
	always = "yes"
	never  = "no"
)

// gaps is what the records of each format have.
var gaps = map[string]what{
	"debezium-json": {WantPosition: always, WantEventTime: always, WantCommitTime: "MySQL's gtid_mode=ON", WantKey: always, WantOldKey: always, WantReads: always,
		WantTruncate: "skipped.operations=none"},
	DebeziumAvro: {WantPosition: always, WantEventTime: always, WantCommitTime: "MySQL's gtid_mode=ON", WantKey: always, WantOldKey: always, WantReads: always,
		WantTruncate: "skipped.operations=none"},
	GSCDJSON: {WantPosition: always, WantEventTime: always, WantCommitTime: "a server that logs it: MySQL 8", WantKey: always, WantOldKey: always, WantReads: always, WantTruncate: always},
	Binlog:   {WantPosition: "a ROTATE event in the record", WantEventTime: always, WantCommitTime: "MySQL 8's GTID event in the record", WantKey: "binlog_row_metadata=FULL", WantOldKey: always, WantReads: never, WantTruncate: "the statement's event"},
	DebeziumFlat: {WantPosition: "add.fields=file,pos,row,server_id,name", WantEventTime: "add.fields=source.ts_ms", WantCommitTime: "add.fields=gtid and MySQL's gtid_mode=ON",
		WantKey: always, WantOldKey: always, WantReads: "add.fields=op,snapshot", WantTruncate: never},
	"maxwell":     {WantPosition: "output_binlog_position=true", WantEventTime: always, WantCommitTime: never, WantKey: always, WantOldKey: always, WantReads: always, WantTruncate: never},
	CanalJSON:     {WantPosition: never, WantEventTime: always, WantCommitTime: never, WantKey: always, WantOldKey: always, WantReads: never, WantTruncate: always},
	CanalProtobuf: {WantPosition: always, WantEventTime: always, WantCommitTime: never, WantKey: always, WantOldKey: always, WantReads: never, WantTruncate: always},
	AWSDMS: {WantPosition: never, WantEventTime: "IncludeTransactionDetails=true", WantCommitTime: "IncludeTransactionDetails=true", WantKey: never,
		WantOldKey: "BeforeImageSettings", WantReads: always, WantTruncate: never},
	OGGJSON:      {WantPosition: never, WantEventTime: always, WantCommitTime: never, WantKey: "includePrimaryKeys=true", WantOldKey: "pkUpdateHandling=update", WantReads: never, WantTruncate: always},
	OpenProtocol: {WantPosition: never, WantEventTime: always, WantCommitTime: always, WantKey: always, WantOldKey: always, WantReads: never, WantTruncate: always},
}

// Gap is something that records of a format lack, always or unless the source is set so.
type Gap struct {
	Want Want
	// Unless is the setting at the source that brings it, "" where none does.
	Unless string
	// Means says what is then not promised.
	Means string
}

func (g Gap) String() string {
	if g.Unless == "" {
		return fmt.Sprintf("no %s: %s", g.Want, g.Means)
	}
	return fmt.Sprintf("no %s, unless the source has %s: %s", g.Want, g.Unless, g.Means)
}

// Gaps lists what records of the format lack of what exactness rests on, as far as
// the options don't make up for it. Of Auto nothing is known before a record came.
func Gaps(format string, o *Options) (out []Gap) {
	has, ok := gaps[format]
	if !ok {
		return nil
	}
	for w, word := range has {
		g := Gap{Want: Want(w), Means: lackings[w]}
		switch {
		case word == always, g.Want == WantKey && len(o.KeyColumns) > 0, g.Want == WantOldKey && format == AWSDMS && o.DMS.KeyChanges == "none":
			continue
		// What the configuration has chosen is no gap.
		case (g.Want == WantEventTime || g.Want == WantCommitTime) && o.EventTime != "" && o.EventTime != "source":
			continue
		case g.Want == WantPosition && format == DebeziumFlat && o.Tombstones == "delete": // which have none
		case word != never:
			g.Unless = word
		}
		out = append(out, g)
	}
	if format == DebeziumFlat && o.Tombstones == "ignore" {
		// Deletes that the connector drops leave the old row of a changed key too.
		g := Gap{Want: WantOldKey, Unless: "delete.tombstone.handling.mode=rewrite", Means: "deletes don't come through, and neither does the first half of a change of key: the old rows stay"}
		out = append(out, g)
	}
	return out
}
