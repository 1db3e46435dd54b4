package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/local"
)

// sixEvents is a recording of two partitions over two days.
func sixEvents() string {
	var b strings.Builder
	for i, e := range []struct {
		partition, offset, id, day int
	}{{0, 0, 1, 16}, {1, 0, 2, 16}, {0, 1, 1, 17}, {1, 1, 3, 17}, {0, 2, 4, 17}} {
		at := time.Date(2022, 7, e.day, 8, i, 0, 0, time.UTC).UnixMilli()
		fmt.Fprintf(&b, `{"topic":"users","partition":%d,"offset":%d,"ts":%d,"key":{"id":%d},"value":{"op":"u","before":null,"after":{"id":%d,"n":"v%d"},"source":{"name":"s","server_id":1,"ts_ms":%d,"file":"b.000001","pos":%d,"row":0,"db":"d","table":"users"},"ts_ms":%d}}`+"\n",
			e.partition, e.offset, at, e.id, e.id, i, at, 100+i, at)
	}
	return b.String()
}

func TestAdoptAndOffsets(t *testing.T) {
	dir := t.TempDir()
	input, location := filepath.Join(dir, "users.jsonl"), filepath.Join(dir, "users")
	if err := os.WriteFile(input, []byte(sixEvents()), 0o600); err != nil {
		t.Fatal(err)
	}
	gscd := func(want int, says string, args ...string) string {
		t.Helper()
		a, out, errs := newTestApp()
		code := run(append(args, "--log-level", "error"), a, commands)
		if all := out.String() + errs.String(); code != want || !strings.Contains(all, says) {
			t.Fatalf("gscd %s: exit %d, want %d with %q\n%s", strings.Join(args, " "), code, want, says, all)
		}
		return out.String()
	}
	ingest := []string{"ingest", "--location", location, "--timezone", "UTC", "--input", input}
	gscd(0, "", ingest...)

	// Offsets by hand.
	gscd(2, "users/9: the table has no such partition; it has users/0, users/1", "offsets", "set", "--table", location, "users/9=1", "--yes")
	gscd(2, "write TOPIC/PARTITION=OFFSET", "offsets", "set", "--table", location, "users/0", "--yes")
	gscd(2, "users/0 is named twice", "offsets", "set", "--table", location, "users/0=1,users/0=2", "--yes")
	gscd(1, "can't be asked whether it has 1; --force sets it all the same", "offsets", "set", "--table", location, "users/0=1", "--yes")
	gscd(1, "users/0 has 0 to 3, not 4", "offsets", "set", "--table", location, "--input", input, "users/0=4", "--yes")
	gscd(2, "give --yes, or --dry-run", "offsets", "set", "--table", location, "--input", input, "users/0=1")
	gscd(0, `"committed":null,"from":{"users/0":3},"to":{"users/0":1}`, "offsets", "set", "--table", location, "--input", input, "users/0=1", "--dry-run")
	gscd(0, `"from":{"users/0":3},"to":{"users/0":1},"incomplete":null`, "offsets", "set", "--table", location, "--input", input, "users/0=1", "--yes")
	gscd(0, "", ingest...)
	gscd(0, `"missing":0`, "status", "--table", location, "--input", input)
	rows := gscd(0, "", "query", "--table", location, "--order-by", "id")
	gscd(0, "nothing to do", "offsets", "set", "--table", location, "--input", input, "users/0=3", "--yes")

	// Another engine empties the table.
	store, err := local.New(location, local.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	table := delta.New(store, delta.WithEngineInfo("other/1"))
	snap, err := table.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tx := delta.NewTransaction(table, snap)
	tx.SetCommitInfo("WRITE", map[string]string{"mode": "Overwrite"}, nil, nil)
	for _, f := range snap.Files()[1:] {
		tx.Remove(delta.RemoveOf(f, time.Now(), true))
	}
	if out, err := tx.Commit(t.Context()); err != nil || !out.Committed {
		t.Fatal(out, err)
	}
	gscd(1, "`gscd adopt --label 2022-07-17` takes the rows as they are", ingest...)
	adopt := append([]string{"adopt", "--label", "2022-07-17"}, ingest[1:5]...)
	gscd(2, "give --yes, or --dry-run", adopt...)
	gscd(2, "exclude each other", append(adopt, "--at-end", "--offsets", "users/0=1")...)
	gscd(2, "give the label", append([]string{"adopt"}, ingest[1:5]...)...)
	gscd(0, `"offsets_kept":true,"offsets":{"users/0":3,"users/1":2}`, append(adopt, "--dry-run")...)
	gscd(0, `"operation":"WRITE","engine":"other/1"`, append(adopt, "--yes")...)
	gscd(1, "it is gscd's, with 2022-07-17 open", append(adopt, "--yes")...)
	gscd(0, "", ingest...)
	gscd(0, `"attributes":["incomplete","no load","foreign"]`, "snapshots", "--table", location)
	// What was lost is read again.
	gscd(0, "", "offsets", "set", "--table", location, "--input", input, "users/0=0", "users/1=0", "--yes")
	gscd(0, "", ingest...)
	if again := gscd(0, "", "query", "--table", location, "--order-by", "id"); again == rows {
		t.Error("records that the table has taken came back by their positions: the help says that they are duplicates")
	}

	// From the start of the topic, with the labels that there are.
	if snap, err = table.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	tx = delta.NewTransaction(table, snap)
	tx.SetCommitInfo("WRITE", map[string]string{"mode": "Overwrite"}, nil, nil)
	for _, f := range snap.Files() {
		tx.Remove(delta.RemoveOf(f, time.Now(), true))
	}
	if out, err := tx.Commit(t.Context()); err != nil || !out.Committed {
		t.Fatal(out, err)
	}
	gscd(0, `"first":"2022-07-16"`, append(adopt, "--start", "earliest", "--input", input, "--yes")...)
	gscd(0, "", ingest...)
	if again := gscd(0, "", "query", "--table", location, "--order-by", "id"); again != rows {
		t.Errorf("read again from the start:\n%s\nwas\n%s", again, rows)
	}
	gscd(0, `"missing":0`, "status", "--table", location, "--input", input)
	gscd(0, "", "check", "--table", location, "--deep")

	other := filepath.Join(dir, "other")
	gscd(1, "not a Delta table", "adopt", "--label", "2022-07-17", "--location", other, "--timezone", "UTC", "--key", "id", "--at-end", "--input", input, "--yes")
}
