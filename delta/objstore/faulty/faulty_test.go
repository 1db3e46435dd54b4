package faulty_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/faulty"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/objstore/storetest"
)

func TestConformanceWithoutRules(t *testing.T) {
	storetest.Run(t, func(*testing.T) objstore.Store { return faulty.New(mem.New()) })
}

// script is a small writer: the calls it makes are 1 to 7.
func script(t *testing.T, s objstore.Store) error {
	ctx := t.Context()
	if err := s.Put(ctx, "a", []byte("1")); err != nil {
		return err
	}
	if err := s.PutIfAbsent(ctx, "log/0", []byte("2")); err != nil {
		return err
	}
	if _, err := s.Get(ctx, "a"); err != nil {
		return err
	}
	if _, err := s.GetRange(ctx, "a", 0, 1); err != nil {
		return err
	}
	if _, err := s.Head(ctx, "a"); err != nil {
		return err
	}
	for _, err := range s.List(ctx, "", "") {
		if err != nil {
			return err
		}
	}
	return s.Delete(ctx, "a")
}

func there(t *testing.T, s objstore.Store) (keys []string) {
	for o, err := range s.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, o.Key)
	}
	return keys
}

func TestEveryCallCanFail(t *testing.T) {
	effects := [][]string{{}, {"a"}, {"a", "log/0"}, {"a", "log/0"}, {"a", "log/0"}, {"a", "log/0"}, {"a", "log/0"}}
	for n := int64(1); ; n++ {
		below := mem.New()
		s := faulty.New(below, faulty.Nth(n, faulty.Fault{}))
		err := script(t, s)
		if err == nil {
			if n != 8 || s.Count() != 7 {
				t.Errorf("the script made %d calls, failed at %d of them", s.Count(), n-1)
			}
			return
		}
		if !errors.Is(err, faulty.ErrInjected) || s.Count() != n {
			t.Errorf("call %d: %v after %d calls", n, err, s.Count())
		}
		if got := there(t, below); !slices.Equal(got, effects[n-1]) {
			t.Errorf("call %d failed and left %q, want %q", n, got, effects[n-1])
		}
	}
}

func TestLostAnswer(t *testing.T) {
	ctx := t.Context()
	for _, c := range []struct {
		fault faulty.Fault
		want  []string
	}{{faulty.LostAnswer, []string{"_delta_log/0.json"}}, {faulty.NeverArrived, nil}} {
		below := mem.New()
		s := faulty.New(below, faulty.Times(1, faulty.On(faulty.PutIfAbsent, "_delta_log/*.json", c.fault)))
		if err := s.PutIfAbsent(ctx, "_delta_log/0.json", []byte("x")); !errors.Is(err, objstore.ErrUnknownOutcome) {
			t.Errorf("error %v", err)
		}
		if got := there(t, below); !slices.Equal(got, c.want) {
			t.Errorf("left %q, want %q", got, c.want)
		}
		if err := s.PutIfAbsent(ctx, "_delta_log/1.json", nil); err != nil {
			t.Errorf("the rule goes on: %v", err)
		}
	}
	below := mem.New()
	if err := below.Put(ctx, "k", nil); err != nil {
		t.Fatal(err)
	}
	s := faulty.New(below, faulty.On(faulty.PutIfAbsent, "", faulty.LostAnswer))
	if err := s.PutIfAbsent(ctx, "k", nil); !errors.Is(err, objstore.ErrExist) {
		t.Errorf("a key that is taken: %v", err)
	}
}

func TestCrashAndHeal(t *testing.T) {
	below := mem.New()
	s := faulty.New(below, faulty.Nth(2, faulty.Fault{Applied: true, Crash: true}))
	if err := script(t, s); !errors.Is(err, faulty.ErrInjected) {
		t.Errorf("the crash: %v", err)
	}
	if _, err := s.Get(t.Context(), "a"); !errors.Is(err, faulty.ErrCrashed) {
		t.Errorf("after the crash: %v", err)
	}
	var last error
	for _, err := range s.List(t.Context(), "", "") {
		last = err
	}
	if !errors.Is(last, faulty.ErrCrashed) {
		t.Errorf("list after the crash: %v", last)
	}
	if got := there(t, below); !slices.Equal(got, []string{"a", "log/0"}) {
		t.Errorf("left %q", got)
	}
	s.Heal()
	if data, err := s.Get(t.Context(), "log/0"); err != nil || string(data) != "2" {
		t.Errorf("healed: %q, %v", data, err)
	}
	s.Crash()
	if err := s.Delete(t.Context(), "a"); !errors.Is(err, faulty.ErrCrashed) || len(there(t, below)) != 2 {
		t.Errorf("crashed again: %v", err)
	}
}

func TestRules(t *testing.T) {
	below, ctx := mem.New(), t.Context()
	s := faulty.New(below)
	put := func(key string) bool { return s.Put(ctx, key, nil) == nil }
	s.Fail(faulty.After(1, faulty.On(faulty.Put, "p/*", faulty.Fault{})))
	if !put("p/1") || put("p/2") || put("p/3") || !put("q/1") || !put("p/x/y") {
		t.Error("the second and later of p fail, and no other")
	}
	s.Heal()
	s.Fail(faulty.On(faulty.List, "p/", faulty.Fault{After: 1}))
	var keys []string
	var last error
	for o, err := range s.List(ctx, "p/", "") {
		if last = err; err == nil {
			keys = append(keys, o.Key)
		}
	}
	if !slices.Equal(keys, []string{"p/1"}) || !errors.Is(last, faulty.ErrInjected) {
		t.Errorf("listed %q, then %v", keys, last)
	}
	if s.Count(faulty.Put) != 5 || s.Count(faulty.Writes...) != 5 || s.Count() != 6 {
		t.Errorf("%d calls, %d writes", s.Count(), s.Count(faulty.Writes...))
	}
	if c := s.Calls()[5]; c.String() != "call 6: list p/" {
		t.Errorf("last call %s", c)
	}
	s.Fail(faulty.From(8, faulty.Fault{}))
	if !put("a") || put("b") || put("c") {
		t.Error("calls from the eighth fail")
	}
	if s.String() != below.String() {
		t.Error("the name is another")
	}
}
