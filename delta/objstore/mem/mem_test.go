package mem_test

import (
	"errors"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/objstore/storetest"
)

func TestConformance(t *testing.T) {
	storetest.Run(t, func(*testing.T) objstore.Store { return mem.New() })
}

func TestCloneIsTheStoreAtThatMoment(t *testing.T) {
	s, ctx := mem.New(), t.Context()
	for _, k := range []string{"a", "b"} {
		if err := s.Put(ctx, k, []byte("1")); err != nil {
			t.Fatal(err)
		}
	}
	c := s.Clone()
	s.Put(ctx, "a", []byte("2"))
	s.Delete(ctx, "b")
	c.Put(ctx, "c", []byte("3"))
	if got, err := c.Get(ctx, "a"); string(got) != "1" || err != nil {
		t.Errorf("clone's a = %q, %v", got, err)
	}
	if _, err := c.Get(ctx, "b"); err != nil {
		t.Errorf("clone lost b: %v", err)
	}
	if _, err := s.Get(ctx, "c"); !errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("origin sees the clone's write: %v", err)
	}
}

func TestClock(t *testing.T) {
	s, ctx := mem.New(), t.Context()
	at := time.Date(2022, 7, 16, 23, 59, 59, 0, time.UTC)
	s.SetClock(func() time.Time { return at })
	s.Put(ctx, "k", nil)
	if o, err := s.Head(ctx, "k"); err != nil || !o.Modified.Equal(at) {
		t.Errorf("head = %+v, %v", o, err)
	}
	old := at.AddDate(0, 0, -8)
	if err := s.SetModified("k", old); err != nil {
		t.Fatal(err)
	}
	for o, err := range s.List(ctx, "", "") {
		if err != nil || !o.Modified.Equal(old) {
			t.Errorf("list = %+v, %v", o, err)
		}
	}
	if err := s.SetModified("absent", old); !errors.Is(err, objstore.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}
