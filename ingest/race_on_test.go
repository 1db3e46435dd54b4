//go:build race

package ingest_test

// underRace says that the race detector makes everything ten times slower.
const underRace = true
