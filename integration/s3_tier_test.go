//go:build integration

package integration

import (
	"bytes"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/maintain"
	"github.com/gscd-io/gscd/savepoint"
)

// A server that keeps storage classes: gscd maintain moves the files of old days to another
// one, with the same bytes, and every day reads as before.
func TestS3Tier(t *testing.T) {
	t.Parallel()
	store := startAmazon(t).bucket(t, "user_dim")
	topic := newTopic(0)
	r := rigOn(t, store, mem.New(), topic)
	offset := int64(0)
	for day := 1; day <= 4; day++ { // each replaces the one row, which is larger than what is left where it is
		text := make([]byte, 150<<10)
		if _, err := rand.Read(text); err != nil {
			t.Fatal(err)
		}
		at := time.Date(2022, 7, day, 3, 0, 0, 0, time.UTC).Format(time.RFC3339)
		record := numbered(t, 0, 0, 1, at)[0]
		r.send(edited(t, record, offset, 0, `"pos":100`, fmt.Sprintf(`"pos":%d`, 100+100*offset), `"name":"A"`, fmt.Sprintf(`"name":"%x"`, text)))
		offset++
		r.mustWork()
	}
	days := daysBetween(t, "2022-07-01", "2022-07-03")
	before := map[string][]row{}
	for _, day := range days {
		before[day] = r.mustAsOf(day)
	}
	bytesOf := func(key string) []byte {
		data, err := store.Get(ctx, key)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	content := map[string][]byte{}
	for o, err := range store.List(ctx, "", "") {
		if err != nil {
			t.Fatal(err)
		}
		content[o.Key] = bytesOf(o.Key)
	}
	table := delta.New(store)
	o := maintain.Options{
		Layout: ingest.Layout, Retention: savepoint.Policy{Forever: true}, History: 24 * time.Hour, Grace: time.Hour,
		// In Shanghai the 2nd ended at 16:00 of UTC.
		Tier: &maintain.Tier{After: 24 * time.Hour, Class: "GLACIER_IR"}, Now: time.Date(2022, 7, 3, 16, 30, 0, 0, time.UTC),
		Thresholds: maintain.Thresholds{ExtraFiles: 100},
	}
	for range 2 {
		if _, err := maintain.Run(ctx, table, o); err != nil {
			t.Fatal(err)
		}
	}
	moved := 0
	for o, err := range store.ListClasses(ctx, "") {
		if err != nil {
			t.Fatal(err)
		}
		if o.Class == "GLACIER_IR" {
			moved++
			if !bytes.Equal(bytesOf(o.Key), content[o.Key]) {
				t.Errorf("%s has other bytes than before", o.Key)
			}
		}
	}
	equal(t, "files that were moved", moved, 2) // of the 1st and the 2nd
	for _, day := range days {
		sameRows(t, "as of "+day, r.mustAsOf(day), before[day])
	}
	equal(t, "faults", len(r.checkFaults()), 0)
}
