package deadletter

import (
	"bytes"
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/alloctest"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/ingest/settled"
)

func entries() []Entry {
	return []Entry{
		{
			Topic: "t", Partition: 3, Offset: 7, Timestamp: 1657958400000, Reason: "value", Detail: "d", Column: "c", Label: "2022-07-16", OpenLabel: "2022-07-17",
			Key: []byte(`{"id":1}`), Value: []byte("no envelope"), Length: 19, Headers: []change.Header{{Key: "h", Value: []byte{0, 255}}}, Made: 4,
		},
		{Topic: "t", Offset: 8, Row: 2, Timestamp: -1, Reason: "decode", Made: -1, Copied: settled.Resolution{State: settled.Dismissed, At: 5, Version: 6, Note: "n"}},
	}
}

// What another program has made of a file of the table is rows or an error.
func FuzzFile(f *testing.F) {
	ctx := context.Background()
	store := mem.New()
	table := Open(store)
	if err := table.Write(ctx, entries()); err != nil {
		f.Fatal(err)
	}
	add := table.snap.Files()[0]
	data, err := store.Get(ctx, add.Path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(bytes.Replace(data, []byte("gscd.sha256"), []byte("other.sha25"), 1)) // without a sum
	f.Add(data[:len(data)/2])
	f.Fuzz(func(t *testing.T, data []byte) {
		store, damaged := mem.New(), *add
		if err := store.Put(ctx, add.Path, data); err != nil {
			t.Fatal(err)
		}
		damaged.Size = int64(len(data))
		// A page may say that it unpacks to 64 MiB, and there are 19 columns.
		alloctest.Within(t, len(data), 1<<14, 512<<20, func() {
			n := 0
			_ = Open(store).eachOf(ctx, &damaged, func(Entry) error {
				if n++; n > 1<<16 {
					return context.Canceled
				}
				return nil
			})
		})
	})
}

// An entry's columns give the entry back, and columns of any kind one or an error.
func FuzzEntry(f *testing.F) {
	f.Add("t", int32(3), int64(7), "value", "detail", "2022-07-16", []byte("key"), []byte("value"), `[{"Key":"h","Value":"AA=="}]`, int64(4), int64(9))
	f.Add("", int32(-1), int64(-1), "", "", "", []byte{}, []byte(nil), `{"x":`, int64(-1), int64(-1))
	f.Fuzz(func(t *testing.T, topic string, partition int32, offset int64, reason, detail, label string, key, value []byte, headers string, made, at int64) {
		valid := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
		e := Entry{
			Topic: valid(topic), Partition: partition, Offset: offset, Row: partition, Timestamp: max(-1, at%(1<<40)), Reason: valid(reason), Detail: valid(detail),
			Label: valid(label), OpenLabel: valid(label), Key: key, Value: value, Length: offset, Made: max(-1, made),
			Copied: settled.Resolution{State: settled.State(valid(reason)), Note: valid(detail)},
		}
		back, err := entryOf(e.cells())
		if err != nil || !reflect.DeepEqual(e, back) {
			t.Fatalf("%+v came back as %+v, %v", e, back, err)
		}
		cells := e.cells()
		cells[12] = schema.StringValue(headers)
		alloctest.Within(t, len(headers)+len(topic)+2*len(reason)+2*len(detail)+2*len(label)+len(key)+len(value), 256, 1<<20, func() { _, _ = entryOf(cells) })
	})
}
