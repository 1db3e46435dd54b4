package deltalog_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/gscd-io/gscd/alloctest"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore/mem"
)

// Whatever _last_checkpoint says, the newest version is found without it.
func FuzzHint(f *testing.F) {
	f.Add([]byte(`{"version":1,"size":12,"sizeInBytes":900,"numOfAddFiles":3,"checksum":"x"}`))
	f.Add([]byte(`{"version":9223372036854775807,"parts":2147483647}`))
	f.Add([]byte(`{"version":-1}`))
	f.Add([]byte(`{"version":1e400,"v2Checkpoint":{"path":"../x"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		ctx, store := context.Background(), mem.New()
		for v := range int64(3) {
			if err := store.Put(ctx, deltalog.CommitKey(v), []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
		if err := store.Put(ctx, deltalog.HintKey, data); err != nil {
			t.Fatal(err)
		}
		alloctest.Within(t, len(data), 64, 1<<20, func() { _, _, _ = deltalog.ReadHint(ctx, store) })
		h, ok, err := deltalog.ReadHint(ctx, store)
		if err != nil || ok && h.Version < 0 {
			t.Fatalf("%+v, %v, %v", h, ok, err)
		}
		if ok {
			if err := deltalog.WriteHint(ctx, store, h); err != nil {
				t.Fatal(err)
			}
			back, ok, err := deltalog.ReadHint(ctx, store)
			if h.Checksum = back.Checksum; err != nil || !ok || !reflect.DeepEqual(back, h) {
				t.Fatalf("%+v came back as %+v, %v, %v", h, back, ok, err)
			}
		}
		if s, _, err := deltalog.Find(ctx, store); err != nil || s.Version != 2 {
			t.Fatalf("found %+v, %v", s, err)
		}
	})
}
