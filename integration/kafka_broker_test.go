//go:build integration

package integration

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// broker is a real Kafka of one node, broker and controller in one process.
type broker struct {
	t   testing.TB
	dir string
	// address is that of clients, the same after a restart; secure wants TLS and
	// a password, mutual a client's certificate, tokens TLS and a token. Who asks at
	// behind is told to come to front, where a test may put a cable. At old the certificate
	// has expired.
	address, secure, mutual, tokens, behind, front, old string
	process                                             *process
	serves                                              chan bool // once; false where it ended before
	output                                              *tail
	// heap is the most memory of the Java machine (512m), replicas how many of each
	// partition there are (1).
	heap     string
	replicas int16
}

// The user that the secure listener knows, by each mechanism. The program must
// print the password nowhere.
const (
	brokerUser     = "gscd"
	brokerPassword = "s3cr3t-do-not-tell"
)

const brokerProperties = `process.roles=broker,controller
node.id=1
controller.quorum.voters=1@%[3]s
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://%[2]s,CONTROLLER://%[3]s,SECURE://%[4]s,MUTUAL://%[5]s,TOKENS://%[8]s,WIRED://%[9]s,OLD://%[11]s
advertised.listeners=PLAINTEXT://%[2]s,SECURE://%[4]s,MUTUAL://%[5]s,TOKENS://%[8]s,WIRED://%[10]s,OLD://%[11]s
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL,MUTUAL:SSL,TOKENS:SASL_SSL,WIRED:PLAINTEXT,OLD:SSL
inter.broker.listener.name=PLAINTEXT
ssl.keystore.type=PEM
ssl.keystore.location=%[1]s/broker.chain.pem
ssl.truststore.type=PEM
ssl.truststore.location=%[1]s/ca.pem
listener.name.mutual.ssl.client.auth=required
listener.name.old.ssl.keystore.type=PEM
listener.name.old.ssl.keystore.location=%[1]s/expired.chain.pem
listener.name.secure.scram-sha-512.connections.max.reauth.ms=4000
sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512,PLAIN
listener.name.secure.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.secure.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.secure.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_%[6]s="%[7]s";
listener.name.tokens.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.tokens.oauthbearer.sasl.jaas.config=org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;
listener.name.tokens.oauthbearer.sasl.server.callback.handler.class=org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler
listener.name.tokens.oauthbearer.connections.max.reauth.ms=3600000
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
allow.everyone.if.no.acl.found=true
log.dirs=%[1]s/data
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
transaction.state.log.num.partitions=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
group.min.session.timeout.ms=1000
auto.create.topics.enable=false
broker.session.timeout.ms=2000
broker.heartbeat.interval.ms=500
log.cleaner.backoff.ms=200
log.initial.task.delay.ms=500
`

// startBroker formats and starts a broker on free ports in a folder of the test's.
func startBroker(t testing.TB) *broker {
	t.Helper()
	ports := freePorts(t, 8)
	b := &broker{t: t, dir: t.TempDir(), address: ports[0], secure: ports[1], mutual: ports[2], tokens: ports[4], behind: ports[5], front: ports[6], old: ports[7]}
	writeCertificates(t, b.dir)
	properties := fmt.Sprintf(brokerProperties, b.dir, b.address, ports[3], b.secure, b.mutual, brokerUser, brokerPassword, b.tokens, b.behind, b.front, b.old)
	if err := os.WriteFile(b.file("server.properties"), []byte(properties), 0o600); err != nil {
		t.Fatal(err)
	}
	var id [16]byte
	rand.Read(id[:])
	id[0] &= 0x7f // its text must not begin with a hyphen, which makes it an option
	args := b.java("kafka.tools.StorageTool", "format", "-t", base64.RawURLEncoding.EncodeToString(id[:]), "-c", b.file("server.properties"))
	for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
		args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", mechanism, brokerUser, brokerPassword))
	}
	if out, err := exec.Command("java", args...).CombinedOutput(); err != nil {
		t.Fatalf("format the broker's storage: %v\n%s", err, out)
	}
	b.start()
	return b
}

func (b *broker) file(name string) string { return filepath.Join(b.dir, name) }

// java gives the arguments of java that run a class of Kafka's.
func (b *broker) java(class string, args ...string) []string {
	jars := filepath.Join(component(b.t, "kafka"), "*")
	return append([]string{
		"-Xmx" + cmp.Or(b.heap, "512m"), "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", jars,
		"-Dlog4j2.configurationFile=" + engineFile(b.t, "log4j2.properties"), class,
	}, args...)
}

// start starts the broker and waits until it serves.
func (b *broker) start() {
	b.t.Helper()
	b.launch()
	b.await()
}

// launch starts the broker, await waits until it serves.
func (b *broker) launch() {
	b.t.Helper()
	b.process = startProcess(b.t, "java", b.java("kafka.Kafka", b.file("server.properties"))...)
	output, started := &tail{}, make(chan bool, 1)
	b.output, b.serves = output, started
	out := bufio.NewScanner(b.process.stdout)
	out.Buffer(nil, 1<<20)
	go func() {
		for out.Scan() {
			fmt.Fprintf(output, "%s\n", out.Text())
			if strings.Contains(out.Text(), "Kafka Server started") {
				started <- true
			}
		}
		started <- false
	}()
}

func (b *broker) await() {
	b.t.Helper()
	select {
	case ok := <-b.serves:
		if !ok {
			b.t.Fatalf("the broker ended before it served:\n%s%s", b.output, b.process.errors)
		}
	case <-time.After(2 * time.Minute):
		b.t.Fatalf("the broker does not serve after two minutes:\n%s", b.output)
	}
}

// seeds are the addresses of all nodes.
func (b *broker) seeds() []string { return strings.Split(b.address, ",") }

// stop ends the broker in good order, kill without any.
func (b *broker) stop() { b.process.end(b.t, syscall.SIGTERM) }
func (b *broker) kill() { b.process.end(b.t, syscall.SIGKILL) }

// client gives a client for one test.
func (b *broker) client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(b.seeds()...), kgo.RecordPartitioner(kgo.ManualPartitioner())}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func (b *broker) admin(t testing.TB) *kadm.Client { return kadm.NewClient(b.client(t)) }

// createTopic makes a topic that keeps records of any age.
func (b *broker) createTopic(t testing.TB, topic string, partitions int32) {
	t.Helper()
	text := func(s string) *string { return &s }
	_, err := b.admin(t).CreateTopic(ctx, partitions, max(b.replicas, 1), map[string]*string{
		"retention.ms": text("-1"), "max.message.bytes": text("16777216"),
	}, topic)
	if err != nil {
		t.Fatal(err)
	}
}

// freePorts gives addresses of ports that nobody listened on a moment ago. All
// are held until the last one is found: one given back may be given out again.
func freePorts(t testing.TB, n int) []string {
	t.Helper()
	addresses := make([]string, n)
	for i := range addresses {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		addresses[i] = l.Addr().String()
	}
	return addresses
}
