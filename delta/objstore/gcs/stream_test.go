package gcs_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/attempt"
	"github.com/gscd-io/gscd/delta/objstore/storetest"
)

// threePieces are bytes of which no two pieces are the same, the last one not whole.
var threePieces = func() []byte {
	data := make([]byte, 2*objstore.PieceBytes+12345)
	for i := range data {
		data[i] = byte(i>>16 ^ i*7)
	}
	return data
}()

func stream(t *testing.T, s objstore.Streamer, key string, data []byte) error {
	t.Helper()
	w, err := s.Create(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for part := range bytes.SplitAfterSeq(data, []byte{0}) {
		if _, err := w.Write(part); err != nil {
			return err
		}
	}
	return w.Commit()
}

// Whatever answer of an upload in pieces is lost, and however little of a piece is taken:
// the object is whole.
func TestLostAnswersOfPieces(t *testing.T) {
	for name, before := range map[string]func(f *fake) storetest.Before{
		"lost":        func(f *fake) storetest.Before { return f.Lost },
		"broken":      func(*fake) storetest.Before { return storetest.Broken },
		"unavailable": func(*fake) storetest.Before { return unavailable },
	} {
		for n := int64(1); n <= 3; n++ {
			t.Run(fmt.Sprint(name, " ", n), func(t *testing.T) {
				f := newFake(t)
				s := f.open(t, "t")
				f.takes = 3 << 20
				f.Set(storetest.Once("PUT", n, before(f)))
				if err := stream(t, s, "large", threePieces); err != nil {
					t.Fatal(err)
				}
				got, err := s.Get(t.Context(), "large")
				if err != nil || !bytes.Equal(got, threePieces) {
					t.Errorf("%d bytes, %v", len(got), err)
				}
			})
		}
	}
	f := newFake(t)
	f.Set(storetest.Once("POST", 1, f.Lost)) // the session: another is begun
	if err := stream(t, f.open(t, "t"), "large", threePieces); err != nil {
		t.Error(err)
	}
}

// An upload that does not come to its end leaves no object, and its URL, which is a right
// to write, is in no error.
func TestPiecesThatFail(t *testing.T) {
	f := newFake(t)
	s := f.open(t, "t")
	for name, before := range map[string]storetest.Before{
		"broken": storetest.Broken,
		"gone": func(w http.ResponseWriter, _ *http.Request) bool {
			refuse(w, http.StatusGone, "gone", "the upload is over")
			return true
		},
	} {
		f.Set(func(w http.ResponseWriter, r *http.Request) bool { return r.Method == http.MethodPut && before(w, r) })
		err := stream(t, s, "large", threePieces)
		if err == nil || strings.Contains(err.Error(), "upload_id") {
			t.Errorf("%s: %v", name, err)
		}
		f.Set(nil)
		if _, err := s.Head(t.Context(), "large"); !errors.Is(err, objstore.ErrNotExist) {
			t.Errorf("%s: head: %v", name, err)
		}
	}
	for i, o := range f.sessions {
		if o != nil {
			t.Errorf("upload %d was not ended", i+1)
		}
	}
}

// Bytes that came otherwise than they were sent are told.
func TestDamagedPieces(t *testing.T) {
	f := newFake(t)
	s := f.open(t, "t")
	f.Set(storetest.Once("PUT", 2, func(http.ResponseWriter, *http.Request) bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.sessions[0].data[5]++
		return false
	}))
	if err := stream(t, s, "large", threePieces); !errors.Is(err, attempt.ErrDamaged) {
		t.Errorf("%v", err)
	}
}
