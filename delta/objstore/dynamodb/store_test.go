package dynamodb_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/dynamodb"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/objstore/storetest"
)

func TestMain(m *testing.M) {
	// The connections of clients that are gone wait for their idle time to pass.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

func commit(version int) string { return fmt.Sprintf("_delta_log/%020d.json", version) }

func TestConformance(t *testing.T) {
	f, n := newFake(t), 0
	storetest.Run(t, func(t *testing.T) objstore.Store {
		n++
		return f.client(t, f.options()).Store(mem.New(), fmt.Sprintf("s3a://lake/t%d", n))
	})
}

// What stands in the table and the bucket after commits is what Spark would leave.
func TestCommit(t *testing.T) {
	f, base := newFake(t), mem.New()
	s := f.open(t, base)
	for v := range 3 {
		if err := s.PutIfAbsent(t.Context(), commit(v), []byte{byte('a' + v)}); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.items) != 3 {
		t.Errorf("%d items", len(f.items))
	}
	i := f.items[[2]string{tablePath, "00000000000000000002.json"}]
	temp := i["tempPath"]["S"]
	if i["complete"]["S"] != "true" || i["expireTime"]["N"] == "" || len(i) != 5 ||
		!strings.HasPrefix(temp, ".tmp/00000000000000000002.json.") || len(temp) != len(".tmp/00000000000000000002.json.")+36 {
		t.Errorf("item %v", i)
	}
	var keys []string
	for o, err := range base.List(t.Context(), "", "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, o.Key)
	}
	if !slices.Equal(keys, []string{commit(0), commit(1), commit(2)}) {
		t.Errorf("in the bucket: %q", keys)
	}
	if err := s.PutIfAbsent(t.Context(), commit(2), []byte("x")); !errors.Is(err, objstore.ErrExist) {
		t.Errorf("a version that is there: %v", err)
	}
	if err := s.PutIfAbsent(t.Context(), commit(4), []byte("x")); err == nil || !strings.Contains(err.Error(), "the version before it is not in") {
		t.Errorf("a hole: %v", err)
	}
	f.ops = nil
	for range s.List(t.Context(), "part-", "") {
		t.Error("a part")
	}
	for range s.List(t.Context(), "_delta_log/_gscd/", "") {
		t.Error("a file")
	}
	if err := s.PutIfAbsent(t.Context(), "_delta_log/_gscd/x", nil); err != nil {
		t.Error(err)
	}
	if len(f.ops) != 0 {
		t.Errorf("DynamoDB was asked %v for what is no commit", f.ops)
	}
}

// An entry of another writer, as Spark and delta-rs leave it when they end after
// step 3 or 4, is finished by whoever comes along, by whichever call.
func TestRecovery(t *testing.T) {
	for _, copied := range []bool{false, true} {
		for name, come := range map[string]func(s *dynamodb.Store) error{
			"list": func(s *dynamodb.Store) error {
				n := 0
				for _, err := range s.List(t.Context(), "_delta_log/", "") {
					if err != nil {
						return err
					}
					n++
				}
				if n != 2 {
					return fmt.Errorf("%d commits are listed", n)
				}
				return nil
			},
			"get": func(s *dynamodb.Store) error {
				_, err := s.Get(t.Context(), commit(1))
				return err
			},
			"head": func(s *dynamodb.Store) error {
				_, err := s.Head(t.Context(), commit(1))
				return err
			},
			"next commit": func(s *dynamodb.Store) error {
				return s.PutIfAbsent(t.Context(), commit(2), []byte("next"))
			},
			"same commit": func(s *dynamodb.Store) error {
				if err := s.PutIfAbsent(t.Context(), commit(1), []byte("mine")); !errors.Is(err, objstore.ErrExist) {
					return fmt.Errorf("the loser is told %w", err)
				}
				return nil
			},
		} {
			f, base := newFake(t), mem.New()
			s := f.open(t, base)
			if err := s.PutIfAbsent(t.Context(), commit(0), []byte("first")); err != nil {
				t.Fatal(err)
			}
			put := func(key, data string) {
				if err := base.Put(t.Context(), key, []byte(data)); err != nil {
					t.Fatal(err)
				}
			}
			put("_delta_log/.tmp/"+"00000000000000000001.json.u", "theirs")
			if copied {
				put(commit(1), "theirs")
			}
			f.items[[2]string{tablePath, "00000000000000000001.json"}] = item{
				"tablePath": {"S": tablePath}, "fileName": {"S": "00000000000000000001.json"},
				"tempPath": {"S": ".tmp/00000000000000000001.json.u"}, "complete": {"S": "false"},
			}
			if err := come(s); err != nil {
				t.Errorf("copied %t, %s: %v", copied, name, err)
			}
			if got, err := base.Get(t.Context(), commit(1)); err != nil || string(got) != "theirs" {
				t.Errorf("copied %t, %s: the commit is %q, %v", copied, name, got, err)
			}
			// Reading what is there asks DynamoDB nothing, and leaves the entry as it is.
			if complete := f.entry(1); complete != "true" && !(copied && (name == "get" || name == "head" || name == "same commit")) {
				t.Errorf("copied %t, %s: the entry has complete = %q", copied, name, complete)
			}
		}
	}
}

// A version that a writer without DynamoDB put meanwhile stays, and is told.
func TestWriterPastDynamoDB(t *testing.T) {
	f, base := newFake(t), mem.New()
	s := f.open(t, base)
	f.set(func(_ http.ResponseWriter, op string) bool {
		if op == "PutItem" {
			_ = base.PutIfAbsent(t.Context(), commit(0), []byte("theirs")) // it is there at the second time
		}
		return false
	})
	if err := s.PutIfAbsent(t.Context(), commit(0), []byte("ours")); !errors.Is(err, objstore.ErrExist) {
		t.Errorf("error %v", err)
	}
	if got, err := s.Get(t.Context(), commit(0)); err != nil || string(got) != "theirs" {
		t.Errorf("the commit is %q, %v", got, err)
	}
	if err := s.PutIfAbsent(t.Context(), commit(1), []byte("ours")); err != nil {
		t.Errorf("the next one: %v", err)
	}
}

// Items of a table that is gone are told, not looped over.
func TestPastTable(t *testing.T) {
	f := newFake(t)
	s := f.open(t, mem.New())
	for v := range 2 {
		if err := s.PutIfAbsent(t.Context(), commit(v), []byte("old")); err != nil {
			t.Fatal(err)
		}
	}
	base := mem.New()
	anew := f.open(t, base)
	err := anew.PutIfAbsent(t.Context(), commit(0), []byte("new"))
	if err == nil || errors.Is(err, objstore.ErrExist) || !strings.Contains(err.Error(), "remove the items of this tablePath") {
		t.Errorf("version 0: %v", err)
	}
	if err := base.Put(t.Context(), commit(0), []byte("new")); err != nil {
		t.Fatal(err)
	}
	err = anew.PutIfAbsent(t.Context(), commit(1), []byte("new"))
	if err == nil || errors.Is(err, objstore.ErrExist) || !strings.Contains(err.Error(), "remove the items of this tablePath") {
		t.Errorf("version 1: %v", err)
	}
}

// What an item says is not to be trusted.
func TestBadItems(t *testing.T) {
	for name, i := range map[string]item{
		"leads out": {"tempPath": {"S": "../../other/file"}, "complete": {"S": "false"}},
		"no temp":   {"complete": {"S": "false"}},
		"a number":  {"tempPath": {"N": "1"}, "complete": {"S": "false"}},
		"is gone":   {"tempPath": {"S": ".tmp/gone"}, "complete": {"S": "false"}},
	} {
		f := newFake(t)
		s := f.open(t, mem.New())
		i["tablePath"], i["fileName"] = map[string]string{"S": tablePath}, map[string]string{"S": "00000000000000000000.json"}
		f.items[[2]string{tablePath, "00000000000000000000.json"}] = i
		var last error
		for _, err := range s.List(t.Context(), "_delta_log/", "") {
			last = err
		}
		if last == nil || !strings.Contains(last.Error(), "remove the item") && !strings.Contains(last.Error(), "remove it") {
			t.Errorf("%s: list: %v", name, last)
		}
		if err := s.PutIfAbsent(t.Context(), commit(0), nil); err == nil {
			t.Errorf("%s: a commit passes", name)
		}
	}
}

func TestSentences(t *testing.T) {
	f := newFake(t)
	c := f.client(t, f.options())
	if err := c.Check(t.Context()); err != nil {
		t.Error(err)
	}
	for code, says := range map[string]string{
		"AccessDeniedException":       "allow dynamodb:DescribeTable on the DynamoDB table delta_log",
		"UnrecognizedClientException": "does not take the credentials: check s3.access_key_id",
		"ExpiredTokenException":       "get a new one",
	} {
		f.set(func(w http.ResponseWriter, _ string) bool {
			refuse(w, 400, code, "no")
			return true
		})
		if err := c.Check(t.Context()); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", code, err)
		}
	}
	n := 0
	f.set(func(w http.ResponseWriter, _ string) bool {
		n++
		if n < 3 {
			refuse(w, 400, "ProvisionedThroughputExceededException", "slow")
		}
		return n < 3
	})
	if err := c.Check(t.Context()); err != nil || n != 3 {
		t.Errorf("throttled: %v after %d", err, n)
	}
	f.set(nil)
	o := f.options()
	o.Table = "elsewhere"
	err := f.client(t, o).Check(t.Context())
	if err == nil || !strings.Contains(err.Error(), "has no table elsewhere: create it with the keys tablePath (HASH) and fileName (RANGE)") {
		t.Errorf("no table: %v", err)
	}
	for name, c := range map[string]struct {
		o    dynamodb.Options
		says string
	}{
		"no region": {dynamodb.Options{}, "AWS_REGION"},
		"no URL":    {dynamodb.Options{Endpoint: "localhost:8000"}, "http://HOST:PORT"},
		"login":     {dynamodb.Options{Endpoint: "http://me:hush@host"}, "has a login in it"},
		"half":      {dynamodb.Options{Region: "x", AccessKeyID: "x"}, "go together"},
	} {
		if _, err := dynamodb.NewClient(t.Context(), c.o); !errors.Is(err, dynamodb.ErrOptions) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if text := fmt.Sprintf("%v %+v %#v", o, o, o); strings.Contains(text, "hush") {
		t.Errorf("options print %s", text)
	}
}
