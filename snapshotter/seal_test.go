package snapshotter

import "testing"

// TestSealScripts holds the contract's section "Splitting, holding, sealing".
func TestSealScripts(t *testing.T) { runScripts(t, "seal") }
