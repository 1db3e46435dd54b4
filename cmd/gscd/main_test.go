package main

import (
	"os"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The scripts call this test binary as gscd.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"gscd": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: os.Getenv("GSCD_TEST_UPDATE") != "",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
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
