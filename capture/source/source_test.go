package source

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/gscd-io/gscd/capture/event"
	"github.com/gscd-io/gscd/ddl"
)

func TestOpen(t *testing.T) {
	for _, address := range []string{"", "db:3306", "http://u@db", "mysql://db:3306", "mysql://u@", "mysql://u@db:0x", "mysql://u@db:70000", "mysql://u@db/shop", "mysql://u@db?x=1", "mysql://u:s3cr3t@db"} {
		if _, err := Open(address, Options{Password: "s3cr3t"}); !errors.Is(err, ErrAddress) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%s: %v", address, err)
		}
	}
	s, err := Open("mysql://u@[::1]", Options{Password: "s3cr3t"})
	if err != nil || s.Name() != "mysql://u@[::1]:3306" {
		t.Errorf("%v, %v", s, err)
	}
}

func TestRanges(t *testing.T) {
	table := &Table{&ddl.Table{
		Columns: []ddl.Column{{Name: "v", Type: "text"}, {Name: "b`", Type: "varchar(5)", Charset: "latin1"}, {Name: "a", Type: "bigint(20) unsigned"}, {Name: "c", Type: "varbinary(3)"}},
		Key:     []int{2, 1, 3},
	}, map[int]textColumn{1: {"latin1", "latin1_swedish_ci"}}}
	row := []event.Cell{{Kind: event.Null}, {Kind: event.Text, Bytes: []byte("é'")}, {Kind: event.Uint, Number: 1 << 63}, {Kind: event.Bytes, Bytes: []byte{0, 255}}}
	key := table.KeyOf(row)
	const b = "CONVERT(_utf8mb4 x'c3a927' USING latin1) COLLATE latin1_swedish_ci"
	if want := []string{"9223372036854775808", b, "x'00ff'"}; !slices.Equal(key, want) {
		t.Errorf("key %q, want %q", key, want)
	}
	got := Range{After: key, UpTo: []string{"2", "'x'", "3"}}.where(table)
	want := " WHERE (`a` > 9223372036854775808 OR (`a` = 9223372036854775808 AND (`b``` > " + b + " OR (`b``` = " + b + " AND `c` > x'00ff'))))" +
		" AND (`a` < 2 OR (`a` = 2 AND (`b``` < 'x' OR (`b``` = 'x' AND `c` <= 3))))"
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for _, typ := range []string{"enum('a')", "double", "time", "bit(3)", "json"} {
		if (&Table{&ddl.Table{Columns: []ddl.Column{{Name: "k", Type: typ}}, Key: []int{0}}, nil}).Keyed() {
			t.Errorf("a key of type %s is read in its order, which literals don't have", typ)
		}
	}
}

func TestVersions(t *testing.T) {
	for _, c := range []struct {
		version, than string
		older         bool
	}{{"10.11.19-MariaDB", "10.2", false}, {"10.1.48-MariaDB", "10.2", true}, {"5.6.51", "5.7", true}, {"8.4.3", "5.7", false}, {"11.4.2-MariaDB", "10.5", false}} {
		if older(c.version, c.than) != c.older {
			t.Errorf("%s is older than %s: want %v", c.version, c.than, c.older)
		}
	}
	if !sameGTIDs("0-1-5,1-2-7", "1-2-7, 0-1-5") || sameGTIDs("0-1-5", "0-1-6") || sameGTIDs("0-1-5", "0-1-5,1-1-1") {
		t.Error("sets of GTIDs")
	}
}

// What is received waits for room, and what was received is given before the error.
func TestBuffer(t *testing.T) {
	b := newBuffer(10)
	put := func(n int) error { return b.HandleEvent(&replication.BinlogEvent{RawData: make([]byte, n)}) }
	if err := errors.Join(put(6), put(4)); err != nil {
		t.Fatal(err)
	}
	waits := make(chan error)
	go func() { waits <- put(3) }()
	select {
	case <-waits:
		t.Fatal("it does not wait for room")
	case <-time.After(20 * time.Millisecond):
	}
	take := func() int {
		t.Helper()
		raw, err := b.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(raw)
	}
	if n := take(); n != 6 {
		t.Errorf("%d bytes", n)
	}
	if err := <-waits; err != nil {
		t.Fatal(err)
	}
	gone := errors.New("gone")
	b.fail(gone)
	if x, y := take(), take(); x != 4 || y != 3 {
		t.Errorf("%d and %d bytes", x, y)
	}
	if _, err := b.take(t.Context()); err != gone {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newBuffer(1).take(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if put(1) != gone {
		t.Error("a buffer that has ended takes events in")
	}
}
