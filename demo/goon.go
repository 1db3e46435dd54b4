package demo

import (
	"fmt"
	"path/filepath"
	"time"
)

// tryDir is the folder of the command lines where the demo leaves none.
const tryDir = "gscd-demo"

// goOn prints the command lines to go on with, ready to be copied.
func (t *story) goOn(took time.Duration) {
	dir := t.folder.path
	t.heading("Go on from here")
	if t.folder.keep {
		t.say("The table, its dead letters and the recorded topic (%s) are in %s. The story took %.1f s.", RecordingName, dir, took.Seconds())
	} else {
		dir = tryDir
		t.say("The story took %.1f s, and leaves nothing behind. With a folder it leaves the table, to look around in:", took.Seconds())
		t.gap()
		t.line("gscd demo --dir " + tryDir)
	}
	table := quoted(filepath.Join(dir, TableName))
	input := fmt.Sprintf("--input %s --topic %s --key id --timezone %s", quoted(filepath.Join(dir, RecordingName)), topic, timezone)
	command := func(comment, line string) {
		t.comment(comment)
		t.line(line)
	}
	t.gap()
	command("the users as they were at the end of a day", fmt.Sprintf("gscd query --table %s --as-of %s", table, day16))
	if t.folder.keep {
		command("the bad 17th", fmt.Sprintf("gscd query --table %s --as-of %s", table, t.bad))
	}
	command("the map with all its columns; why a day was sealed, and its late changes", fmt.Sprintf("gscd snapshots --table %s", table))
	t.line(fmt.Sprintf("gscd snapshots --table %s %s", table, day17))
	command("what could not be applied", fmt.Sprintf("gscd dead-letter list --table %s", table))
	command("roll back, and ingest again from the recorded topic", fmt.Sprintf("gscd rollback --table %s --to %s --yes", table, day15))
	t.line(fmt.Sprintf("gscd ingest --location %s %s --until-end", table, input))
	command("the whole story again, into a second table: the same days", fmt.Sprintf("gscd ingest --location %s %s --until-end", quoted(filepath.Join(dir, "again")), input))
	if t.folder.keep {
		if r, err := t.last.labels.Resolve(day17, true); err == nil {
			command("the same day in Spark, without a plug-in (Trino says FOR VERSION AS OF)", fmt.Sprintf("SELECT * FROM user_dim VERSION AS OF %d", r.Entry.Version))
		}
	}
}
