//go:build integration

package integration

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

const clusterProperties = `process.roles=broker,controller
node.id=%[1]d
controller.quorum.voters=%[2]s
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://%[3]s,CONTROLLER://%[4]s
advertised.listeners=PLAINTEXT://%[3]s
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
log.dirs=%[5]s/data
offsets.topic.replication.factor=3
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=3
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=3
group.initial.rebalance.delay.ms=0
auto.create.topics.enable=false
min.insync.replicas=2
broker.session.timeout.ms=3000
broker.heartbeat.interval.ms=500
replica.lag.time.max.ms=4000
`

// quorum is a Kafka of three nodes, each broker and controller.
type quorum struct {
	t     testing.TB
	nodes []*broker
}

// startQuorum starts the nodes; the broker that it gives stands for all of them.
func startQuorum(t testing.TB) (*quorum, *broker) {
	t.Helper()
	ports := freePorts(t, 6)
	q := &quorum{t: t}
	var voters []string
	for i := range 3 {
		voters = append(voters, fmt.Sprintf("%d@%s", i+1, ports[3+i]))
	}
	var id [16]byte
	rand.Read(id[:])
	id[0] &= 0x7f // its text must not begin with a hyphen, which makes it an option
	for i := range 3 {
		b := &broker{t: t, dir: t.TempDir(), address: ports[i], heap: "256m"}
		properties := fmt.Sprintf(clusterProperties, i+1, strings.Join(voters, ","), b.address, ports[3+i], b.dir)
		if err := os.WriteFile(b.file("server.properties"), []byte(properties), 0o600); err != nil {
			t.Fatal(err)
		}
		args := b.java("kafka.tools.StorageTool", "format", "-t", base64.RawURLEncoding.EncodeToString(id[:]), "-c", b.file("server.properties"))
		if out, err := exec.Command("java", args...).CombinedOutput(); err != nil {
			t.Fatalf("format a node's storage: %v\n%s", err, out)
		}
		q.nodes = append(q.nodes, b)
	}
	for _, b := range q.nodes {
		b.launch() // none serves before there are two
	}
	for _, b := range q.nodes {
		b.await()
	}
	return q, &broker{t: t, address: strings.Join(ports[:3], ","), replicas: 3}
}

// untilSettled waits until no transaction of a topic is open: the broker writes
// the markers when the producer has its answer already.
func (b *broker) untilSettled(t testing.TB, topic string) {
	t.Helper()
	for end := time.Now().Add(6 * time.Minute); b.unsettled(t, topic) > 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d partitions of %s have an open transaction", b.unsettled(t, topic), topic)
		}
	}
}

// unsettled is the number of partitions that have an open transaction.
func (b *broker) unsettled(t testing.TB, topic string) (n int) {
	t.Helper()
	admin := b.admin(t)
	defer admin.Close()
	stable, err := admin.ListCommittedOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	ends.Each(func(o kadm.ListedOffset) {
		if at, ok := stable.Lookup(o.Topic, o.Partition); !ok || at.Offset < o.Offset {
			n++
		}
	})
	return n
}

// leader gives the node that leads a partition.
func (q *quorum) leader(all *broker, topic string, partition int32) *broker {
	q.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		m, err := all.admin(q.t).Metadata(ctx, topic)
		if err == nil {
			if p, ok := m.Topics[topic].Partitions[partition]; ok && p.Err == nil && p.Leader > 0 {
				return q.nodes[p.Leader-1]
			}
		}
		if time.Now().After(end) {
			q.t.Fatalf("partition %d has no leader: %v, %+v", partition, err, m.Topics[topic])
		}
	}
}

// untilInSync waits until each partition has all its replicas.
func (q *quorum) untilInSync(all *broker, topic string) {
	q.t.Helper()
	admin := all.admin(q.t)
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		m, err := admin.Metadata(ctx, topic)
		synced := err == nil && len(m.Topics[topic].Partitions) > 0
		for _, p := range m.Topics[topic].Partitions {
			synced = synced && p.Err == nil && len(p.ISR) == 3
		}
		if synced {
			return
		}
		if time.Now().After(end) {
			q.t.Fatalf("the replicas of %s are not in sync: %v, %+v", topic, err, m.Topics[topic])
		}
	}
}

// The leader of a partition dies while it is read, another one hangs as if it
// were cut off, a third is restarted in good order: one process reads on, and
// every day is what it would have been.
func TestKafkaCluster(t *testing.T) {
	t.Parallel()
	q, all := startQuorum(t)
	f := newFleet(t, all, "cluster")
	p := f.start(f.gateway.url)
	f.untilOwner(p)
	f.load(150 * time.Millisecond)
	took := ""
	goesOn := func(what string) {
		t.Helper()
		version, sealed, began := f.version(), len(f.rig.sealed()), time.Now()
		defer func() { took += fmt.Sprintf("; %s: %s", what, time.Since(began).Round(time.Second)) }()
		f.until(what, 5*time.Minute, func() bool {
			select {
			case <-p.ended:
				t.Fatalf("%s: the process ended: %v\n%s", what, p.cmd.ProcessState, p.errors)
			default:
			}
			return f.version() > version+3 && len(f.rig.sealed()) > sealed
		})
	}
	goesOn("the days pass")

	var hit []string
	dead := q.leader(all, f.topic, 0)
	hit = append(hit, dead.address)
	dead.kill()
	goesOn("without the leader of partition 0")
	dead.start()
	q.untilInSync(all, f.topic)

	cut := q.leader(all, f.topic, 1)
	hit = append(hit, cut.address)
	if err := cut.process.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	goesOn("while the leader of partition 1 hangs")
	if err := cut.process.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	q.untilInSync(all, f.topic)
	goesOn("with all nodes again")

	last := q.leader(all, f.topic, 2)
	hit = append(hit, last.address)
	last.stop()
	goesOn("without the leader of partition 2")
	last.start()
	q.untilInSync(all, f.topic)

	p.end(t, syscall.SIGTERM)
	equal(t, "exit code", p.cmd.ProcessState.ExitCode(), 0)
	rows := f.finish()
	slices.Sort(hit)
	fmt.Printf("three nodes, %d of them hit: %d commits, %d days, %d records, %d rows compared%s\n",
		len(slices.Compact(hit)), f.version(), len(f.days()), f.sent, rows, took)
}
