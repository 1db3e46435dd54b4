package deltalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/gscd-io/gscd/delta/objstore/mem"
)

// TestListing runs the scripts: "log" lays out files, "find" opens the newest
// version, "at" another one, "round" goes round its checkpoints one by one, "versions" names the readable ones.
func TestListing(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		ctx, store := context.Background(), mem.New()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "log":
				store = mem.New()
				for line := range strings.SplitSeq(strings.TrimSpace(d.Input), "\n") {
					putFiles(t, store, line)
				}
				return ""
			case "find":
				s, l, err := Find(ctx, store)
				if err != nil {
					return "error: " + err.Error()
				}
				return fmt.Sprintf("listed from %d\n%s", l.From, dump(s))
			case "at":
				var version int64
				d.ScanArgs(t, "v", &version)
				l, err := List(ctx, store, 0)
				if err != nil {
					return "error: " + err.Error()
				}
				s, err := l.Segment(version)
				if err != nil {
					return "error: " + err.Error()
				}
				return dump(s)
			case "round":
				var version int64
				d.ScanArgs(t, "v", &version)
				l, err := List(ctx, store, 0)
				if err != nil {
					return "error: " + err.Error()
				}
				s, err := l.Segment(version)
				var steps []string
				for err == nil && s.Checkpoint != nil {
					if s, err = l.SegmentWithout(s); err == nil {
						steps = append(steps, dump(s))
					}
				}
				return strings.Join(steps, "then\n")
			case "versions":
				l, err := List(ctx, store, 0)
				if err != nil {
					return "error: " + err.Error()
				}
				return Ranges(l.Versions())
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

// putFiles reads "json 0-9 11", "checkpoint 10", "part 10 1/2", "hint 10" and
// "file name content".
func putFiles(t *testing.T, store *mem.Store, line string) {
	fields := strings.Fields(line)
	put := func(key, content string) {
		if err := store.Put(context.Background(), key, []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	each := func(f func(v int64)) {
		for _, r := range fields[1:] {
			var from, to int64
			if n, _ := fmt.Sscanf(r, "%d-%d", &from, &to); n == 1 {
				to = from
			}
			for v := from; v <= to; v++ {
				f(v)
			}
		}
	}
	switch fields[0] {
	case "json":
		each(func(v int64) { put(CommitKey(v), "{}") })
	case "checkpoint":
		each(func(v int64) { put(CheckpointKey(v), "x") })
	case "part":
		var v, part, parts int64
		fmt.Sscanf(line, "part %d %d/%d", &v, &part, &parts)
		put(fmt.Sprintf("%s%020d.checkpoint.%010d.%010d.parquet", Dir, v, part, parts), "x")
	case "hint":
		put(HintKey, fmt.Sprintf(`{"version":%s,"size":1}`, fields[1]))
	case "file":
		put(Dir+fields[1], strings.Join(fields[2:], " "))
	default:
		t.Fatalf("unknown line %q", line)
	}
}

func dump(s *Segment) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version %d\n", s.Version)
	if s.Checkpoint != nil {
		for _, p := range s.Checkpoint.Parts {
			fmt.Fprintf(&b, "checkpoint %s\n", strings.TrimPrefix(p.Key, Dir))
		}
	}
	var versions []int64
	for _, c := range s.Commits {
		versions = append(versions, c.Version)
	}
	fmt.Fprintf(&b, "commits %s\n", Ranges(versions))
	for _, f := range s.Compacted {
		fmt.Fprintf(&b, "compacted %d-%d\n", f.Version, f.To)
	}
	return b.String()
}

// TestVersionsAreThoseWithASegment: Versions and Segment follow one rule.
func TestVersionsAreThoseWithASegment(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		store := mem.New()
		for v := range int64(12) {
			if rapid.IntRange(0, 3).Draw(rt, "json") > 0 {
				putFiles(t, store, fmt.Sprintf("json %d", v))
			}
			if rapid.IntRange(0, 3).Draw(rt, "checkpoint") == 0 {
				putFiles(t, store, fmt.Sprintf("checkpoint %d", v))
			}
		}
		l, err := List(context.Background(), store, 0)
		if err != nil {
			rt.Fatal(err)
		}
		var readable []int64
		for v := range int64(14) {
			s, err := l.Segment(v)
			if err == nil {
				readable = append(readable, v)
				if n := int64(len(s.Commits)); s.Checkpoint == nil && n != v+1 || s.Checkpoint != nil && n != v-s.Checkpoint.Version {
					rt.Fatalf("segment of %d: %s", v, dump(s))
				}
			} else if !errors.Is(err, ErrVersionNotFound) {
				rt.Fatal(err)
			}
		}
		if Ranges(readable) != Ranges(l.Versions()) {
			rt.Fatalf("segments for %s, versions says %s", Ranges(readable), Ranges(l.Versions()))
		}
	})
}

func TestReadCommitsStopsAtTheFirstError(t *testing.T) {
	ctx, store := context.Background(), mem.New()
	var commits []Commit
	for v := range int64(50) {
		content := fmt.Sprintf(`{"txn":{"appId":"a","version":%d}}`, v)
		if v == 40 {
			content = content[:10]
		}
		if err := store.Put(ctx, CommitKey(v), []byte(content)); err != nil {
			t.Fatal(err)
		}
		commits = append(commits, Commit{Version: v})
	}
	next := int64(0)
	for c, err := range ReadCommits(ctx, store, commits) {
		v := next
		next++
		if v == 40 {
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), CommitKey(40)) {
				t.Errorf("error %v", err)
			}
			continue
		}
		if err != nil || c.Txns[0].Version != v {
			t.Fatalf("%d: %+v, %v", v, c, err)
		}
	}
	if next != 41 {
		t.Errorf("ended before %d", next)
	}
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	for _, err := range ReadCommits(cancelled, store, commits) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	}
}
