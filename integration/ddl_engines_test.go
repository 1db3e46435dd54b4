//go:build integration

package integration

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/capture/event"
	"github.com/gscd-io/gscd/ddl"
	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
)

// Columns that the source renames and drops have, in every engine, the names of the day:
// a rename turns on column mapping, old files and versions stay as they are. One that was
// widened is of its new type from then on.
func TestDDLInOtherEngines(t *testing.T) {
	t.Parallel()
	topic := newTopic(0, 1)
	r := localRig(t, topic, func(o *ingest.Options) { o.Format, o.Key = "gscd-json", []string{"id"} })
	catalog, session := ddl.NewCatalog(), ddl.Session{Database: "shop", MariaDB: true}
	encoder, err := event.NewEncoder(event.GSCD)
	if err != nil {
		t.Fatal(err)
	}
	pos, now := uint64(100), time.Time{}
	send := func(ev *event.Event, partitions ...int32) {
		t.Helper()
		ev.Source = event.Source{Name: "shop", ServerID: 1, File: "bin.000001", Pos: pos, Time: now.UnixMicro()}
		pos += 10
		for _, p := range partitions {
			topic.send(&change.Record{
				Topic: topicName, Partition: p, Offset: topic.partition(p).end, Timestamp: now.UnixMilli(),
				Key: encoder.AppendKey(nil, ev), Value: encoder.Append(nil, ev),
			})
		}
	}
	run := func(statement string) {
		t.Helper()
		effects, err := catalog.Apply(statement, session)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range ddl.Outcomes(effects) {
			if o.Name.Table == "user_dim" {
				send(&event.Event{Op: event.Schema, Table: o.New, Old: o.Old, Statement: statement}, 0, 1)
			}
		}
	}
	row := func(partition int32, id int, cells ...string) {
		t.Helper()
		after := []event.Cell{{Kind: event.Int, Number: uint64(id)}}
		for _, c := range cells {
			after = append(after, event.Cell{Kind: event.Text, Bytes: []byte(c)})
		}
		send(&event.Event{Op: event.Insert, Table: catalog.Table("shop", "user_dim"), After: after}, partition)
	}
	at := func(day, hour int) { now = time.Date(2022, 7, day, hour-8, 0, 0, 0, time.UTC) }

	at(16, 9)
	run("CREATE TABLE user_dim (id int primary key, name varchar(20), city varchar(20), note varchar(20))")
	row(0, 2, "ann", "rome", "x")
	row(1, 1, "bob", "oslo", "y")
	at(17, 9)
	run("ALTER TABLE user_dim CHANGE city `home town` varchar(30)")
	row(0, 4, "cid", "bonn", "z")
	row(1, 3, "dan", "kyiv", "w")
	at(18, 9)
	for _, statement := range []string{ // gh-ost
		"CREATE TABLE _user_dim_gho LIKE user_dim",
		"ALTER TABLE _user_dim_gho DROP note, RENAME COLUMN name TO nick, ADD note varchar(5)",
		"RENAME TABLE user_dim TO _user_dim_del, _user_dim_gho TO user_dim",
	} {
		run(statement)
	}
	row(0, 6, "eve", "lima", "new")
	row(1, 5, "fay", "rabat", "new")
	at(19, 9)
	row(0, 8, "gus", "cairo", "8")
	row(1, 7, "hal", "delhi", "7")
	r.workAt("2022-07-19T02:00:00Z")
	gscd(t, "widen", "--table", r.store.Store.String(), "id=bigint")
	at(19, 11)
	run("ALTER TABLE user_dim MODIFY id bigint")
	row(0, 5_000_000_000, "ida", "quito", "9")
	at(20, 9)
	row(0, 10, "joe", "turku", "10")
	row(1, 9, "kim", "varna", "9")
	r.workAt("2022-07-20T02:00:00Z")

	days := map[string][]string{
		"2022-07-16": {"id name city note", "1 bob oslo y", "2 ann rome x"},
		"2022-07-17": {"id name home town note", "1 bob oslo y", "2 ann rome x", "3 dan kyiv w", "4 cid bonn z"},
		"2022-07-18": {"id nick home town note", "1 bob oslo NULL", "2 ann rome NULL", "3 dan kyiv NULL", "4 cid bonn NULL", "5 fay rabat new", "6 eve lima new"},
		"2022-07-19": {"id nick home town note", "1 bob oslo NULL", "2 ann rome NULL", "3 dan kyiv NULL", "4 cid bonn NULL", "5 fay rabat new", "5000000000 ida quito 9", "6 eve lima new", "7 hal delhi 7", "8 gus cairo 8"},
	}
	text := func(c *content) []string {
		var names, rows []string
		for _, column := range c.Columns {
			names = append(names, column[0])
		}
		for _, cells := range c.Rows {
			var row []string
			for _, cell := range cells {
				if cell == nil {
					row = append(row, "NULL")
				} else {
					row = append(row, *cell)
				}
			}
			rows = append(rows, strings.Join(row, " "))
		}
		slices.Sort(rows)
		return append([]string{strings.Join(names, " ")}, rows...)
	}
	engines := []*engine{startEngine(t, "delta-rs"), startEngine(t, "Spark"), startEngine(t, "DuckDB")}
	table := delta.New(r.store.Store)
	for label, want := range days {
		resolved, err := r.labels().Resolve(label, true)
		if err != nil {
			t.Fatal(err)
		}
		snap, err := table.SnapshotAt(t.Context(), resolved.Entry.Version)
		if err != nil {
			t.Fatal(err)
		}
		own := ownContent(t, r.store.Store, snap, nil)
		sameList(t, "gscd, "+label, text(own), want)
		for _, e := range engines {
			got, err := e.read(t, r.store.Store.String(), resolved.Entry.Version, "true", own)
			if err != nil {
				t.Errorf("%s, %s: %v", e.name, label, err)
				continue
			}
			sameList(t, e.name+", "+label, text(got), want)
		}
		said := string(gscd(t, "query", "--table", r.store.Store.String(), "--as-of", label, "--order-by", "id", "--format", "csv"))
		header, _, _ := strings.Cut(said, "\n")
		equal(t, "query --as-of "+label, strings.ReplaceAll(header, ",", " "), want[0])
	}
	gscd(t, "check", "--table", r.store.Store.String(), "--deep")
	// A column is one by its identity, under the name of the second day and of the newest.
	changed := string(gscd(t, "diff", "2022-07-17", "2022-07-18", "--table", r.store.Store.String(), "--format", "jsonl"))
	if want := `{"change":"inserted","key":{"id":5},"changed":[],"old":null,"new":{"id":5,"nick":"fay","home town":"rabat","note":"new"}}`; !strings.Contains(changed, want) || strings.Count(changed, "\n") != 2 {
		t.Errorf("diff:\n%s", changed)
	}
	across := string(gscd(t, "query", "SELECT dt, nick, \"home town\" FROM t WHERE dt <= '2022-07-18' AND id = 1 ORDER BY dt", "--table", r.store.Store.String(), "--format", "csv"))
	if want := "dt,nick,home town\n2022-07-16,bob,oslo\n2022-07-17,bob,oslo\n2022-07-18,bob,oslo\n"; across != want {
		t.Errorf("across days:\n%s", across)
	}
}
