package snapshotter

import "testing"

// TestJudgeScripts holds every rule of the contract's section "From record to
// label" that depends on what came before.
func TestJudgeScripts(t *testing.T) { runScripts(t, "judge") }
