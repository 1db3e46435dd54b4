package scd2_test

import (
	"testing"
)

// Case 27: many changes a day, a change that changes nothing, a delete and a return, and
// two keys with the same values.
func TestHistory(t *testing.T) {
	g := newRig(t)
	g.put(july(15, 1), id(1), level(1, 1))
	g.put(july(15, 1), id(2), level(2, 1))
	g.put(july(16, 2), id(1), level(1, 2))
	g.put(july(16, 3), id(1), level(1, 3))
	g.put(july(16, 4), id(1), level(1, 3))
	g.put(july(17, 1), id(1), nil)
	g.put(july(18, 1), id(1), level(1, 3))
	g.put(july(18, 2), id(2), level(2, 8))
	g.put(july(18, 3), id(2), level(2, 1))
	g.put(july(19, 1), id(2), level(2, 9))
	g.ingest()
	r := g.build()
	if len(r.Steps) != 4 || r.Last != "2022-07-18" {
		t.Errorf("%+v", r)
	}
	columns := []string{"id", "level", "valid_from", "valid_to", "is_current"}
	rows := []string{
		"1 1 2022-07-15 2022-07-16 false", "1 3 2022-07-16 2022-07-17 false", "1 3 2022-07-18 5999-01-01 true", "2 1 2022-07-15 5999-01-01 true",
	}
	want(t, "history", lines(t, g.out, columns...), rows...)
	g.check()
	before := versionOf(t, g.out)
	if r := g.build(); len(r.Steps) != 0 || r.Version != before {
		t.Errorf("the second run: %+v", r)
	}
	if now := versionOf(t, g.out); now != before {
		t.Errorf("the second run wrote version %d", now)
	}
}

// A day that was rolled back is undone and taken again.
func TestRollback(t *testing.T) {
	g := newRig(t)
	g.put(july(15, 1), id(1), level(1, 1))
	g.put(july(15, 1), id(2), level(2, 1))
	g.put(july(16, 2), id(1), level(1, 2))
	g.put(july(16, 2), id(2), nil)
	g.put(july(17, 3), id(3), level(3, 1))
	g.put(july(17, 3), id(1), level(1, 5))
	g.put(july(18, 3), id(3), level(3, 7))
	g.ingest()
	g.build()
	g.check()
	columns := []string{"id", "level", "valid_from", "valid_to", "is_current"}
	all := lines(t, g.out, columns...)
	want(t, "history", all, "1 1 2022-07-15 2022-07-16 false", "1 2 2022-07-16 2022-07-17 false", "1 5 2022-07-17 5999-01-01 true", "2 1 2022-07-15 2022-07-16 false", "3 1 2022-07-17 5999-01-01 true")
	g.rollback("2022-07-15")
	r := g.build()
	want(t, "undone", r.Undone, "2022-07-16", "2022-07-17")
	want(t, "history", lines(t, g.out, columns...), "1 1 2022-07-15 5999-01-01 true", "2 1 2022-07-15 5999-01-01 true")
	g.check()
	g.ingest()
	g.build()
	want(t, "history", lines(t, g.out, columns...), all...)
	g.check()
}
