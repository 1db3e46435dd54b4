//go:build integration

package integration

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

// The program ingests a recording into Google Cloud Storage and into Azure, and
// answers each day, by itself and in SQL, as from a local disk.
func TestProgramOnEmulatedStorages(t *testing.T) {
	stream := recordedStreams(t)[2]
	azureURL := startAzure(t)
	environment := []string{
		"GSCD_GCS_ENDPOINT=" + startGoogle(t), "GSCD_GCS_ANONYMOUS=true",
		"GSCD_AZURE_ACCOUNT=" + azureAccount, "GSCD_AZURE_ENDPOINT=" + azureURL, "GSCD_AZURE_ACCOUNT_KEY=" + azureKey,
	}
	type answers struct {
		labels []string
		rows   map[string]string
	}
	at := func(location string) (a answers) {
		t.Helper()
		args := []string{
			"ingest", "--location", location, "--topic", "s3.shop.stock", "--timezone", "UTC", "--key", strings.Join(stream.key, ","),
			"--batch-rows", "25", "--now", recordedEnd.Format(time.RFC3339), "--log-level", "warn",
		}
		for _, path := range stream.paths(t) {
			args = append(args, "--input", path)
		}
		gscdIn(t, environment, args...)
		gscdIn(t, environment, args...) // a second run finds the first one's end
		a.rows = map[string]string{}
		for line := range strings.Lines(string(gscdIn(t, environment, "snapshots", "--table", location, "--format", "jsonl"))) {
			var day struct{ Label, State string }
			if err := json.Unmarshal([]byte(line), &day); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			a.labels = append(a.labels, day.Label+" "+day.State)
			rows := gscdIn(t, environment, "query", "--table", location, "--as-of", day.Label, "--format", "csv", "--order-by", strings.Join(stream.key, ","))
			a.rows[day.Label] = string(rows)
		}
		a.rows["SQL"] = string(gscdIn(t, environment, "query", "--table", location, "--format", "csv", "SELECT dt, count(*) AS n FROM stock GROUP BY dt ORDER BY dt"))
		return a
	}
	want := at(t.TempDir() + "/stock")
	if len(want.labels) < 2 {
		t.Fatalf("days: %q", want.labels)
	}
	for _, location := range []string{"gs://" + googleBucket + "/dim/stock", "az://" + azureContainer + "/dim/stock"} {
		got := at(location)
		if !slices.Equal(got.labels, want.labels) {
			t.Errorf("%s has the days %q, want %q", location, got.labels, want.labels)
		}
		for name, rows := range want.rows {
			if got.rows[name] != rows {
				t.Errorf("%s, %s:\n got %.400s\nwant %.400s", location, name, got.rows[name], rows)
			}
		}
	}
}
