package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Cluster is what the tables of a process share of one Kafka cluster: the
// connections, the requests that read, what is known of topics and leaders, and
// the budget of what was fetched and not yet taken. It is safe for concurrent
// use. Close releases it.
type Cluster struct {
	opts   Options
	shared []kgo.Opt
	// client asks for everything, and fetches; a second one (see spare) fetches
	// beside it where the first is busy waiting.
	client *kgo.Client
	login  *login
	unzip  kgo.Decompressor
	// ctx ends with Close, and work then.
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	// refresh holds a token while recent asks.
	refresh chan struct{}

	// mu guards all below, and the state of all consumers.
	mu        sync.Mutex
	closed    bool
	withLast  bool // it is closed with its last consumer,
	retired   bool // which has happened
	consumers map[*Consumer]bool
	spare     *kgo.Client

	nodes    map[int32]*node
	buffered int64 // bytes fetched and not taken, of all consumers
	ratio    float64
	// starved tells that a partition was not fetched for want of budget.
	starved bool
	looking bool // a look at the leaders is under way or planned
	misses  int  // looks in a row after which a partition was still without

	known   map[string]heard // of topics
	pending *round           // the one that has not begun
	asking  bool             // a round is under way
}

// heard is what was told of a topic, and when it was asked for.
type heard struct {
	topicMeta
	at time.Time
}

// NewCluster makes a Cluster without talking to the brokers. Of opts all that
// concerns the connection is used, and FetchBytes, which bounds what all tables
// together have fetched and not taken.
func NewCluster(opts Options) (*Cluster, error) {
	if err := opts.validateConnection(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	login := newLogin(&opts)
	shared, err := opts.client(login)
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(shared...)
	if err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	return &Cluster{
		opts: opts, shared: shared, client: client, login: login, unzip: kgo.DefaultDecompressor(), ctx: ctx, stop: stop,
		refresh:   make(chan struct{}, 1),
		consumers: make(map[*Consumer]bool), nodes: make(map[int32]*node), known: make(map[string]heard),
	}, nil
}

// Consumer makes the reader of one table. Of opts all that does not concern the
// connection is used. The consumer must be closed before the Cluster.
func (cl *Cluster) Consumer(opts Options) (*Consumer, error) {
	if err := opts.validateTopics(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	c := &Consumer{opts: opts, cluster: cl, wake: make(chan struct{}, 1), done: make(chan struct{}), topicIDs: make(map[string]string)}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if cl.closed || cl.retired {
		return nil, ErrClosed
	}
	cl.consumers[c] = true
	return c, nil
}

// CloseWithLast lets the Cluster close itself when the last of its consumers is
// closed; Consumer then answers ErrClosed. Before the first one it does nothing.
func (cl *Cluster) CloseWithLast() {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.withLast = true
}

// Close ends everything, consumers too. Blocks stay valid.
func (cl *Cluster) Close() error {
	cl.mu.Lock()
	if cl.closed {
		cl.mu.Unlock()
		return nil
	}
	cl.closed = true
	consumers := slices.Collect(maps.Keys(cl.consumers))
	spare := cl.spare
	cl.mu.Unlock()
	for _, c := range consumers {
		c.end()
	}
	cl.stop()
	for _, client := range []*kgo.Client{cl.client, spare} {
		if client != nil {
			client.Close()
		}
	}
	cl.work.Wait()
	return nil
}

// begin runs f beside the caller, unless the Cluster is closed; Close waits for
// it. The caller holds mu.
func (cl *Cluster) begin(f func()) {
	if !cl.closed {
		cl.work.Go(f)
	}
}

// round is one asking of the brokers for what several tables want to know.
type round struct {
	topics map[string]bool
	done   chan struct{}

	meta         metadata
	starts, ends *offsets
	err          error
}

// ask gives metadata and offsets that were asked for after the call began.
// Calls that come while the brokers are being asked share the next round.
func (cl *Cluster) ask(ctx context.Context, topics []string) (*round, error) {
	cl.mu.Lock()
	if cl.closed {
		cl.mu.Unlock()
		return nil, ErrClosed
	}
	r := cl.pending
	if r == nil {
		r = &round{topics: make(map[string]bool), done: make(chan struct{})}
		cl.pending = r
	}
	for _, t := range topics {
		r.topics[t] = true
	}
	if !cl.asking {
		cl.asking = true
		cl.begin(cl.rounds)
	}
	cl.mu.Unlock()
	select {
	case <-r.done:
		return r, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// rounds asks until nobody waits.
func (cl *Cluster) rounds() {
	for {
		cl.mu.Lock()
		r := cl.pending
		cl.pending = nil
		if r == nil {
			cl.asking = false
			cl.mu.Unlock()
			return
		}
		cl.mu.Unlock()
		began := time.Now()
		r.meta, r.err = cl.loadMetadata(cl.ctx, slices.Sorted(maps.Keys(r.topics)))
		if r.err == nil {
			cl.hear(r.meta, began)
			good := r.meta.readable()
			r.starts = listOffsets(cl.ctx, cl.client, good, atEarliest, uncommitted)
			r.ends = listOffsets(cl.ctx, cl.client, good, atEnd, uncommitted)
		}
		close(r.done)
	}
}

// loadMetadata asks for topics, unless the login was refused just now.
func (cl *Cluster) loadMetadata(ctx context.Context, topics []string) (metadata, error) {
	if err := cl.login.held(); err != nil {
		return metadata{}, err
	}
	m, err := loadMetadata(ctx, cl.client, topics)
	return m, cl.login.judge(err)
}

// recent gives metadata of the topics that is at most maxAge old; where it is
// older that of all consumers' topics is asked for.
func (cl *Cluster) recent(ctx context.Context, topics []string, maxAge time.Duration) (metadata, error) {
	select {
	case cl.refresh <- struct{}{}:
		defer func() { <-cl.refresh }()
	case <-ctx.Done():
		return metadata{}, ctx.Err()
	}
	for try := 0; ; try++ {
		cl.mu.Lock()
		fresh := true
		m := metadata{topics: make(map[string]topicMeta, len(topics))}
		for _, t := range topics {
			h := cl.known[t]
			fresh = fresh && time.Since(h.at) <= maxAge
			m.topics[t] = h.topicMeta
		}
		closed, all := cl.closed, cl.topics()
		cl.mu.Unlock()
		switch {
		case closed:
			return m, ErrClosed
		case fresh || try > 0:
			return m.of(topics)
		}
		began := time.Now()
		got, err := cl.loadMetadata(ctx, all)
		if err != nil {
			return m, err
		}
		cl.hear(got, began)
	}
}

// topics are those of all consumers, each once. The caller holds mu.
func (cl *Cluster) topics() []string {
	all := make(map[string]bool)
	for c := range cl.consumers {
		for _, t := range c.opts.Topics {
			all[t] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// hear keeps what was told, and lets reading follow the leaders.
func (cl *Cluster) hear(m metadata, at time.Time) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	for t, meta := range m.topics {
		if old, ok := cl.known[t]; !ok || at.After(old.at) {
			cl.known[t] = heard{meta, at}
		}
	}
	for c := range cl.consumers {
		for id, r := range c.reading {
			if meta, ok := m.topics[id.Topic]; ok {
				cl.follow(r, meta)
			}
		}
	}
	cl.schedule()
}

// errNoLeader: an election is under way, or no replica is alive.
var errNoLeader = errors.New("the partition has no leader at present")

// follow takes up what was told of a partition's topic. The caller holds mu.
func (cl *Cluster) follow(r *reading, meta topicMeta) {
	if meta.err != nil {
		return // whoever asks for the topic learns that
	}
	if r.topicID != meta.id {
		// Another topic of the same name: its offsets are not ours.
		r.c.fault(r, errOtherTopic)
		return
	}
	l, ok := meta.leaders[r.id.Partition]
	if !ok {
		l = leader{-1, -1}
	}
	switch {
	case l.epoch >= 0 && l.epoch < r.leader.epoch:
		return // an old answer
	case l.epoch > r.leader.epoch && r.leader.epoch >= 0 && r.epoch >= 0 || r.leader.epoch < 0 && l.broker != r.leader.broker && r.epoch >= 0:
		r.unchecked = true // whether the new leader has what was read
	}
	if r.leader == l {
		return
	}
	if n := cl.nodes[r.leader.broker]; n != nil {
		delete(n.readings, r)
	}
	r.leader = l
	if l.broker >= 0 {
		n := cl.node(l.broker)
		n.readings[r], n.stirred = true, time.Now()
	}
}

// node gives the state of a broker. The caller holds mu.
func (cl *Cluster) node(broker int32) *node {
	n := cl.nodes[broker]
	if n == nil {
		n = &node{broker: broker, readings: make(map[*reading]bool)}
		cl.nodes[broker] = n
	}
	return n
}

// look asks for the leaders of what can't be read, soon. The caller holds mu.
func (cl *Cluster) look() {
	if cl.looking {
		return
	}
	cl.looking = true
	wait := cl.opts.backoff(cl.misses + 1)
	cl.begin(func() {
		if !sleep(cl.ctx, wait) {
			return
		}
		cl.mu.Lock()
		var topics []string
		for c := range cl.consumers {
			for id, r := range c.reading {
				if (r.lost() || r.fails > 0) && !slices.Contains(topics, id.Topic) {
					topics = append(topics, id.Topic)
				}
			}
		}
		cl.mu.Unlock()
		began := time.Now()
		m, err := metadata{}, error(nil)
		if len(topics) > 0 {
			m, err = cl.loadMetadata(cl.ctx, topics)
		}
		if err == nil {
			cl.hear(m, began)
		}
		cl.mu.Lock()
		defer cl.mu.Unlock()
		cl.looking = false
		lost := false
		for c := range cl.consumers {
			for _, r := range c.reading {
				if r.lost() {
					lost = true
					if err != nil {
						r.failed(cl, err)
					} else {
						r.failed(cl, errNoLeader)
					}
				}
			}
		}
		cl.misses++
		if !lost && err == nil {
			cl.misses = 0
		} else if !cl.closed {
			cl.look()
		}
	})
}

// sleep waits; false where ctx ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
