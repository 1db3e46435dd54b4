package config

import (
	"slices"
	"testing"
)

func TestHTTPAddress(t *testing.T) {
	for text, want := range map[string]string{
		"9090": "127.0.0.1:9090", ":9090": "127.0.0.1:9090", "0.0.0.0:9090": "0.0.0.0:9090", "[::1]:0": "[::1]:0", "": "",
	} {
		cfg, err := Load(Input{
			Data:   []byte("calendar: {timezone: UTC}\ntables: [{location: ./t, topics: [t]}]\n"),
			Flags:  []Flag{{"--http", "http.address", text}},
			Checks: checks,
		})
		if err != nil || cfg.HTTP.Address != want {
			t.Errorf("%q: %q, %v, want %q", text, cfg.HTTP.Address, err, want)
		}
	}
}

// What a running program can't change is named key by key.
func TestDifferences(t *testing.T) {
	load := func(text string) *Config {
		t.Helper()
		cfg, err := Load(Input{Data: []byte(text), Checks: checks})
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	a := load("calendar: {timezone: UTC}\nkafka: {brokers: [a:1], sasl: {mechanism: plain, username: u, password: p}}\ntables: [{location: ./t, topics: [t]}]\n")
	same := load("calendar: {timezone: UTC}\nkafka: {brokers: [a:1], sasl: {mechanism: plain, username: u, password: p}}\ntables: [{location: ./other, topics: [t]}]\n")
	if d := a.Differences(same); d != nil {
		t.Errorf("the same but for a table: %v", d)
	}
	b := load("calendar: {timezone: Asia/Shanghai}\nkafka: {brokers: [a:1, b:1], tls: {}, sasl: {mechanism: plain, username: u, password: q}}\nprocess: {batch_memory: 2GiB}\ntables: [{location: ./t, topics: [t]}]\n")
	want := []string{"kafka.brokers", "kafka.tls", "kafka.sasl.password", "calendar.timezone", "process.batch_memory"}
	if d := a.Differences(b); !slices.Equal(d, want) {
		t.Errorf("%v, want %v", d, want)
	}
}
