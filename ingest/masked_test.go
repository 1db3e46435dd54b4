package ingest_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/deadletter"
	"github.com/gscd-io/gscd/ingest/transform"
	"github.com/gscd-io/gscd/snapshotter"
)

// everythingIn gives all that a store holds, as it is and unpacked.
func everythingIn(t *testing.T, store *mem.Store) string {
	t.Helper()
	var out bytes.Buffer
	for o, err := range store.List(context.Background(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		data, err := store.Get(context.Background(), o.Key)
		if err != nil {
			t.Fatal(err)
		}
		out.Write(data)
		if strings.HasSuffix(o.Key, ".zst") {
			r, err := zstd.NewReader(nil)
			if err != nil {
				t.Fatal(err)
			}
			if data, err = r.DecodeAll(data, nil); err != nil {
				t.Fatalf("%s: %v", o.Key, err)
			}
			out.Write(data)
			r.Close()
		}
	}
	return out.String()
}

// TestMaskedEverywhere: the values of a masked column are in nothing that is stored or
// told: rows, change data, statistics, held changes, dead letters, log. Held changes and
// dead letters come back whole for who has the secret.
func TestMaskedEverywhere(t *testing.T) {
	cal, err := snapshotter.NewCalendar("day", "UTC", "")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2022, 7, 16, 12, 0, 0, 0, time.UTC).UnixMilli()
	day := int64(24 * time.Hour / time.Millisecond)
	row := func(id int, email string) string { return fmt.Sprintf(`{"id":"%d","v":%q}`, id, email) }
	var records []*change.Record
	add := func(kind string, at int64, data, old string) {
		r := canalRecord(int64(len(records)), []canalRow{{kind: kind, at: at, data: data, old: old}})
		r.Value = bytes.Replace(r.Value, []byte(`"v":"int"`), []byte(`"v":"varchar(99)"`), 1)
		records = append(records, r)
	}
	add("INSERT", at, row(1, "planted-one@x"), "")
	add("INSERT", at, row(2, "planted-two@x"), "")
	add("UPDATE", at+1, row(1, "planted-three@x"), `{"v":"planted-one@x"}`)
	records = append(records, &change.Record{ // no JSON, which an error may quote
		Topic: "log", Offset: int64(len(records)), Timestamp: at + 600, Value: []byte(`planted-broken@x {"v":`),
	})
	add("INSERT", at+1, `{"id":"planted-value@x","v":"planted-value@x"}`, "") // id is an int
	add("INSERT", at+day, row(3, "planted-held@x"), "")                       // of the day after
	today := len(records)
	add("UPDATE", at+day+1, row(3, "planted-four@x"), `{"v":"planted-held@x"}`)
	add("INSERT", at+2*day, row(4, "planted-five@x"), "")
	for _, method := range []transform.Method{transform.HMAC, transform.SHA256, transform.Null, transform.KeepLast, transform.Constant, "plain"} {
		t.Run(string(method), func(t *testing.T) {
			mask := transform.Mask{Method: method}
			switch method {
			case transform.KeepLast:
				mask.Keep = 2
			case "plain":
				mask = transform.Mask{Method: transform.Constant, Text: "x"}
			}
			s := transform.Settings{Mask: map[string]transform.Mask{"v": mask}, Secret: []byte("a secret of enough bytes"), Key: []string{"id"}, Plain: method == "plain"}
			rules, err := transform.New(s)
			if err != nil {
				t.Fatal(err)
			}
			store, dead := mem.New(), mem.New()
			core, logs := observer.New(zapcore.DebugLevel)
			run := func(n int, now int64) {
				t.Helper()
				lane, err := ingest.New(ingest.Options{
					Name: "t", Store: store, DeadLetterStore: dead, Calendar: cal, UntilEnd: true, Format: "canal-json", Transform: rules, ChangeData: true,
					DriftWait: 10 * time.Minute, DriftIdle: 5 * time.Minute, MaxClockSkew: 5 * time.Minute, Log: zap.New(core),
					Now: func() time.Time { return time.UnixMilli(now) },
				}, &fixed{records: records[:n]})
				if err != nil {
					t.Fatal(err)
				}
				if err := lane.Run(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
			run(today, at+time.Hour.Milliseconds())
			stored := everythingIn(t, store)
			var entries []deadletter.Entry
			each := func() {
				t.Helper()
				entries = nil
				table := deadletter.Open(dead)
				if err := table.Refresh(context.Background()); err != nil {
					t.Fatal(err)
				}
				if err := table.Each(context.Background(), func(e deadletter.Entry) error { entries = append(entries, e); return nil }); err != nil {
					t.Fatal(err)
				}
			}
			each()
			var told strings.Builder
			for _, e := range entries {
				fmt.Fprintf(&told, "%s %s %s %s %v %v\n", e.Reason, e.Detail, e.Key, e.Value, e.Headers, e.Published())
			}
			for _, l := range logs.All() {
				fmt.Fprintln(&told, l.Message, l.ContextMap())
			}
			all := stored + everythingIn(t, dead) + told.String()
			if method == "plain" { // what looks for them finds them
				for _, want := range []string{"planted-held@x", "planted-broken@x", "planted-value@x"} {
					if !strings.Contains(all, want) {
						t.Errorf("%s is not where it is to be", want)
					}
				}
				return
			}
			if i := strings.Index(all, "planted"); i >= 0 {
				t.Errorf("told: …%q…", all[max(i-200, 0):min(i+100, len(all))])
			}
			if len(entries) != 2 || entries[0].Reason != "decode" {
				t.Errorf("dead letters: %+v", entries)
			}
			for _, e := range entries {
				if opened, err := rules.Open(e.Record()); err != nil || string(opened.Value) != string(records[e.Offset].Value) {
					t.Errorf("opened: %+v, %v", opened, err)
				}
			}
			// What was held is applied on its day.
			run(len(records), at+2*day+time.Hour.Milliseconds())
			rows, _ := sealedRows(t, store)
			if len(rows["2022-07-16"]) != 2 || len(rows["2022-07-17"]) != 3 {
				t.Errorf("rows %v", rows)
			}
			if all := everythingIn(t, store) + everythingIn(t, dead) + fmt.Sprint(rows); strings.Contains(all, "planted") {
				t.Error("told later")
			}
		})
	}
}
