//go:build integration

package integration

import "testing"

// TestProof puts the promises to the proof on real servers, with the program
// itself: one broker for all, side by side, for most of it is waiting.
func TestProof(t *testing.T) {
	b := startBroker(t)
	for _, c := range []struct {
		name string
		run  func(t *testing.T, b *broker)
	}{
		{"kills", testKills},
		{"rolling restart", testRollingRestart},
		{"rolling update", testRollingUpdate},
		{"two owners", testTwoOwners},
		{"paused process", testPausedProcess},
		{"group", testGroup},
		{"store faults", testStoreFaults},
		{"network", testNetwork},
		{"disks", testDisks},
		{"broken answers", testBrokenAnswers},
		{"credentials", testCredentials},
		{"hanging transaction", testHangingTransaction},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, b)
		})
	}
}
