//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap/zaptest"

	"github.com/gscd-io/gscd/capture"
	"github.com/gscd-io/gscd/capture/event"
	dbserver "github.com/gscd-io/gscd/capture/source"
	"github.com/gscd-io/gscd/ingest/kafka"
)

// plainForm writes what an event says, for the eye.
type plainForm struct{}

func (plainForm) HeartbeatTopic() string { return "" }

func (plainForm) Append(e *event.Event, emit func(capture.Message) error) error {
	var key []byte
	row := e.After
	if row == nil {
		row = e.Before
	}
	if e.Table != nil && row != nil {
		for _, i := range e.Table.Key {
			key = append(key, eventCell(row[i])...)
		}
	}
	s := e.Source
	value := fmt.Sprintf("%d %s:%d:%d first=%v lot=%v last=%v t=%d %v %s", e.Op, s.File, s.Pos, s.Row, s.First, s.LastOfTable, s.Last, s.Time, eventCells(row), e.Statement)
	return emit(capture.Message{Key: key, Value: []byte(value), Everywhere: e.Op == event.Schema})
}

func TestCaptureRuns(t *testing.T) {
	m := startMaria(t)
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SleepOutOfOrder())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	m.run("CREATE DATABASE shop", "USE shop", "CREATE TABLE shop.a (id INT PRIMARY KEY, v VARCHAR(20))", "CREATE TABLE shop.nokey (v INT)", "CREATE TABLE shop.`empty` (id INT PRIMARY KEY)",
		"INSERT INTO shop.a SELECT seq, CONCAT('v', seq) FROM seq_1_to_1000", "INSERT INTO shop.nokey VALUES (1), (1), (2)")
	o := capture.Options{
		Name: "s", Servers: []*dbserver.Server{m.server()}, ServerID: 77, Tables: []string{"shop.*"},
		Form:  func() capture.Form { return plainForm{} },
		Load:  capture.LoadOptions{Parallel: 3, ChunkRows: 100},
		Kafka: kafka.Options{Brokers: cluster.ListenAddrs()}, Writer: kafka.WriterOptions{StateTopic: "state"},
		Topics: kafka.NewTopic{Partitions: 2}, UntilEnd: true, Log: zaptest.NewLogger(t), Heartbeat: time.Second,
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	if err := capture.Run(ctx, o); err != nil {
		t.Fatal(err)
	}
	m.run("UPDATE shop.a SET v = 'new' WHERE id < 4", "ALTER TABLE shop.a ADD COLUMN w INT DEFAULT 3", "DELETE FROM shop.a WHERE id = 5", "FLUSH LOGS")
	if err := capture.Run(ctx, o); err != nil {
		t.Fatal(err)
	}
	m.run("INSERT INTO shop.a VALUES (5000, 'x', 4)")
	o.UntilEnd = false
	short, stop := context.WithTimeout(ctx, 4*time.Second)
	defer stop()
	if err := capture.Run(short, o); err != nil {
		t.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics("s.shop.a", "s.shop.nokey", "state"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	n := map[string]int{}
	for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
		short, stop := context.WithTimeout(ctx, time.Second)
		f := cl.PollFetches(short)
		stop()
		f.EachRecord(func(r *kgo.Record) {
			n[r.Topic]++
			if v := string(r.Value); r.Topic != "s.shop.a" || !strings.HasPrefix(v, "4 ") || strings.Contains(v, "=true") {
				t.Logf("%s/%d@%d %s = %.300s", r.Topic, r.Partition, r.Offset, r.Key, v)
			}
		})
	}
	t.Log(n)
}
