package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gscd-io/gscd/query/sql"
)

// The scripts call this test binary as gscd.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"gscd": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(env *testscript.Env) error {
			repo, err := filepath.Abs("../..")
			env.Setenv("REPO", repo)
			return err
		},
		UpdateScripts: os.Getenv("GSCD_TEST_UPDATE") != "",
		Condition: func(name string) (bool, error) {
			if name != "sql" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			return sql.Built, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":  exits,
			"bucket": newBucket,
		},
	})
}

// exits CODE ARGS... runs gscd and wants the exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: exits CODE ARGS...")
	}
	code := "0"
	if err := ts.Exec("gscd", args[1:]...); err != nil {
		code = exitStatus(err)
	}
	if code != args[0] {
		ts.Fatalf("gscd %v: exit %s, want %s", args[1:], code, args[0])
	}
}

// newBucket NAME starts an S3 storage with a bucket, and sets S3 to its URL.
func newBucket(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: bucket NAME")
	}
	backend := s3mem.New()
	ts.Check(backend.CreateBucket(args[0]))
	server := httptest.NewServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	ts.Defer(server.Close)
	ts.Setenv("S3", server.URL)
	// What the machine has set must not come in between.
	for _, name := range []string{"AWS_PROFILE", "AWS_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"} {
		ts.Setenv(name, "")
	}
}
