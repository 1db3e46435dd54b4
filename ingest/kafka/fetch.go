package kafka

import (
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gscd-io/gscd/ingest/change"
)

const (
	// A broker holds a fetch for which it has nothing for half the time that has
	// passed since a partition was assigned or resumed there, within these bounds:
	// what is assigned or resumed next does not wait for long, and a broker of
	// which all tables are read to the end gets one request in the longest wait.
	shortestWait = 20 * time.Millisecond
	longestWait  = 5 * time.Second
	// spareLead is how much earlier than the first connection's wait one on the
	// second ends, so that its partitions come back to the first.
	spareLead = 150 * time.Millisecond
	// rest is the time from one fetch of a broker to the next where little came,
	// so that a trickle is not asked for record by record.
	rest        = 10 * time.Millisecond
	littleBytes = 64 << 10

	// Bounds of what a fetch asks for, packed; a larger batch comes all the same.
	minResponse  = 64 << 10
	maxResponse  = 32 << 20
	minPartition = 32 << 10
	maxPartition = 8 << 20
	// firstRatio is taken for unpacked to packed bytes before the first fetch.
	firstRatio = 4
)

// reading is where the reading of one partition by one table stands.
type reading struct {
	c       *Consumer
	id      change.PartitionID
	topicID [16]byte

	// next is the position: behind what the table was given. ahead is behind
	// what was fetched, where the next fetch asks. next <= ahead.
	next, ahead int64
	end         int64   // the highest watermark heard of
	kept        []batch // fetched and not given, covers next to ahead
	bytes       int64   // of kept
	epoch       int32   // the leader epoch of the last record fetched, -1 for none

	paused bool
	// gone: it belongs to an earlier assignment; what comes for it is dropped.
	gone bool
	// stopped: nothing more is fetched until a fault is judged.
	stopped bool
	// unchecked: whether the leader has what was read is to be asked first.
	unchecked bool
	busy      bool // a fetch or a check is under way
	leader    leader
	asked     time.Time // the last fetch
	// fails counts the tries in a row that failed, since is when they began or
	// were last told of, retry is the time of the next try.
	fails        int
	since, retry time.Time
}

// batch is what one fetch brought of a partition: records may be missing in the
// stretch up to next, or all of them.
type batch struct {
	records []*kgo.Record
	next    int64
	bytes   int64
}

// lost tells that the partition has no leader that could be asked.
func (r *reading) lost() bool { return !r.gone && !r.stopped && r.leader.broker < 0 }

// node is a broker that leads partitions, and the fetches under way there. A
// broker answers the requests of a connection one after another, so while one
// waits for records there, what becomes ready is fetched over a second one.
type node struct {
	broker   int32
	readings map[*reading]bool
	busy     [2]bool
	until    time.Time // when the wait of the first ends
	rest     time.Time // no fetch before
	stirred  time.Time // a partition was assigned or resumed
	alarm    *time.Timer
}

// entry is a partition in a fetch, for all tables that are at the same offset.
type entry struct {
	id       change.PartitionID
	topicID  [16]byte
	offset   int64
	readings []*reading
}

// schedule starts the fetches that can be. The caller holds mu.
func (cl *Cluster) schedule() {
	for _, n := range cl.nodes {
		cl.scheduleNode(n)
	}
}

func (cl *Cluster) scheduleNode(n *node) {
	now := time.Now()
	for !cl.closed && (!n.busy[0] || !n.busy[1] && n.until.Sub(now) > 2*spareLead) {
		if wait := n.rest.Sub(now); wait > 0 {
			cl.wakeNode(n, wait)
			return
		}
		list, more := cl.ready(n, now)
		if len(list) == 0 {
			return
		}
		slot, wait := 0, min(max(now.Sub(n.stirred)/2, shortestWait), longestWait)
		if n.busy[0] {
			slot, wait = 1, min(wait, n.until.Sub(now)-spareLead)
		} else {
			n.until = now.Add(wait)
		}
		cl.send(n, slot, wait, list)
		if !more {
			return
		}
	}
}

// wakeNode schedules the node again after a time.
func (cl *Cluster) wakeNode(n *node, wait time.Duration) {
	if n.alarm != nil {
		n.alarm.Stop()
	}
	n.alarm = time.AfterFunc(wait, func() {
		cl.mu.Lock()
		defer cl.mu.Unlock()
		cl.scheduleNode(n)
	})
}

// ready gives what is to be fetched from a broker now. A partition stands in
// it once; more tells that another table wants it at another offset.
func (cl *Cluster) ready(n *node, now time.Time) (list []*entry, more bool) {
	var soonest time.Duration
	at := make(map[change.PartitionID]*entry)
	for r := range n.readings { // in no order: the first ones of a request are served best
		switch {
		case r.busy, r.stopped, r.paused, r.c.failed != nil:
			continue
		case r.retry.After(now):
			if wait := r.retry.Sub(now); soonest == 0 || wait < soonest {
				soonest = wait
			}
			continue
		case r.unchecked:
			cl.check(r)
			continue
		case !cl.affords(r):
			cl.starved = true
			continue
		}
		e := at[r.id]
		switch {
		case e == nil:
			e = &entry{id: r.id, topicID: r.topicID, offset: r.ahead, readings: []*reading{r}}
			at[r.id], list = e, append(list, e)
		case e.offset == r.ahead && e.topicID == r.topicID:
			e.readings = append(e.readings, r)
		default:
			more = true
			if r.asked.Before(e.readings[0].asked) {
				*e = entry{id: r.id, topicID: r.topicID, offset: r.ahead, readings: []*reading{r}}
			}
		}
	}
	if soonest > 0 {
		cl.wakeNode(n, soonest)
	}
	return list, more
}

// affords tells whether more may be fetched for a table. Each may hold as much
// as is left of the budget, so that none takes all of it; one that has nothing
// to take may always fetch, and what it has of paused partitions does not
// count against that: the others may be what it waits for.
func (cl *Cluster) affords(r *reading) bool {
	c := r.c
	if len(r.kept) > 0 && r.ahead >= r.end && !c.polling {
		return false // the table is busy, and read as far as is known
	}
	if c.takeable == 0 || c.buffered < cl.room() {
		return true
	}
	return cl.dropPaused() && c.buffered < cl.room()
}

// room is what is left of the budget, of which a quarter is for fetches under way.
func (cl *Cluster) room() int64 { return cl.opts.FetchBytes*3/4 - cl.buffered }

// dropPaused gives up what is kept of paused partitions where that is a good
// part of the budget; they are fetched again after Resume.
func (cl *Cluster) dropPaused() bool {
	var held int64
	for c := range cl.consumers {
		held += c.buffered - c.takeable
	}
	if held < cl.opts.FetchBytes/8 {
		return false
	}
	for c := range cl.consumers {
		for _, r := range c.reading {
			if r.paused {
				c.account(r, -r.bytes)
				r.kept, r.ahead = nil, r.next
			}
		}
	}
	return true
}

// send starts a fetch. The caller holds mu.
func (cl *Cluster) send(n *node, slot int, wait time.Duration, list []*entry) {
	client := cl.client
	if slot == 1 {
		if cl.spare == nil {
			spare, err := kgo.NewClient(cl.shared...)
			if err != nil {
				return // the same options made the first one
			}
			cl.spare = spare
		}
		client = cl.spare
	}
	// All brokers together may bring half of what is left, and the second
	// connections an eighth.
	perRequest := cl.room() / int64(2*len(cl.nodes))
	if slot == 1 {
		perRequest /= 4
	}
	perRequest = min(max(int64(float64(perRequest)/cl.ratio), minResponse), maxResponse)
	req := kmsg.NewPtrFetchRequest()
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(wait.Milliseconds()), 1, int32(perRequest)
	req.IsolationLevel, req.SessionEpoch = committed, -1
	perPartition := int32(min(max(perRequest/2, minPartition), maxPartition))
	topics, ids := make(map[string]int), true
	now := time.Now()
	for _, e := range list {
		i, ok := topics[e.id.Topic]
		if !ok {
			i = len(req.Topics)
			topics[e.id.Topic] = i
			t := kmsg.NewFetchRequestTopic()
			t.Topic, t.TopicID = e.id.Topic, e.topicID
			ids = ids && e.topicID != [16]byte{}
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes = e.id.Partition, e.offset, perPartition
		p.CurrentLeaderEpoch = e.readings[0].leader.epoch
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
		for _, r := range e.readings {
			r.busy, r.asked = true, now
		}
	}
	n.busy[slot] = true
	var out kmsg.Request = req
	if !ids {
		out = &fetchByName{req}
	}
	cl.begin(func() {
		resp, err := cl.request(client, n.broker, out)
		came := make(map[change.PartitionID]arrival)
		size := 0
		if err == nil {
			got := resp.(*kmsg.FetchResponse)
			err = kerr.ErrorForCode(got.ErrorCode)
			size = cl.unpack(got, list, came)
		}
		if err != nil && slot == 1 {
			// This client learns the brokers' addresses by itself only now and then.
			brokers := kmsg.NewPtrMetadataRequest()
			brokers.Topics = []kmsg.MetadataRequestTopic{}
			_, _ = brokers.RequestWith(cl.ctx, client)
		}
		cl.mu.Lock()
		defer cl.mu.Unlock()
		n.busy[slot] = false
		if cl.pack(size, came) < littleBytes {
			n.rest = now.Add(rest)
		}
		for _, e := range list {
			for _, r := range e.readings {
				r.busy = false
				if r.gone || r.ahead != e.offset {
					continue // of an earlier assignment, or given up meanwhile
				}
				a, ok := came[e.id]
				switch {
				case err != nil:
					r.failed(cl, err)
				case !ok:
					r.failed(cl, errors.New("the partition was not answered"))
				default:
					cl.arrived(r, a)
				}
			}
		}
		if err != nil {
			cl.look()
		}
		cl.scheduleNode(n)
	})
}

// request asks a broker once, unless the login was refused just now.
func (cl *Cluster) request(client *kgo.Client, broker int32, req kmsg.Request) (kmsg.Response, error) {
	if err := cl.login.held(); err != nil {
		return nil, err
	}
	resp, err := client.Broker(int(broker)).Request(cl.ctx, req)
	return resp, cl.login.judge(err)
}

// fetchByName is a fetch for brokers that know no topic IDs.
type fetchByName struct{ *kmsg.FetchRequest }

// MaxVersion is the last version in which topics have names.
func (*fetchByName) MaxVersion() int16 { return 12 }

// arrival is what came of a partition, unpacked.
type arrival struct {
	kgo.FetchPartition
	next  int64 // behind all that was looked at
	bytes int64 // of the records
	code  error // what the broker says
}

// unpack reads an answer, without the lock, and gives its size.
func (cl *Cluster) unpack(resp *kmsg.FetchResponse, list []*entry, came map[change.PartitionID]arrival) (size int) {
	asked := make(map[change.PartitionID]*entry, len(list))
	names := make(map[[16]byte]string)
	for _, e := range list {
		asked[e.id], names[e.topicID] = e, e.id.Topic
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		topic := t.Topic
		if resp.Version > 12 {
			topic = names[t.TopicID]
		}
		for j := range t.Partitions {
			p := &t.Partitions[j]
			e := asked[change.PartitionID{Topic: topic, Partition: p.Partition}]
			if e == nil {
				continue
			}
			size += len(p.RecordBatches)
			a := arrival{code: kerr.ErrorForCode(p.ErrorCode)}
			a.FetchPartition, a.next = kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
				Offset: e.offset, IsolationLevel: kgo.ReadCommitted(), Topic: topic, Partition: p.Partition,
			}, p, cl.unzip, nil)
			for _, k := range a.Records {
				a.bytes += recordBytes + int64(len(k.Key)+len(k.Value))
				for _, h := range k.Headers {
					a.bytes += int64(len(h.Key) + len(h.Value))
				}
			}
			came[e.id] = a
		}
	}
	return size
}

// arrived takes what came of a partition. The caller holds mu.
func (cl *Cluster) arrived(r *reading, a arrival) {
	r.end = max(r.end, a.HighWatermark)
	switch {
	case a.code != nil:
		cl.refused(r, a.code)
		return
	case a.LogStartOffset > r.ahead, len(a.Records) > 0 && a.Records[0].Offset < r.ahead:
		r.c.fault(r, errBackwards)
		return
	}
	if a.next > r.ahead {
		b := batch{records: a.Records, next: a.next, bytes: a.bytes}
		if n := len(a.Records); n > 0 {
			r.epoch = a.Records[n-1].LeaderEpoch
		}
		r.kept = append(r.kept, b)
		r.ahead = a.next
		r.c.account(r, b.bytes)
		r.c.signal()
	}
	if a.Err != nil {
		// What came before the damage is good.
		r.c.fault(r, a.Err)
		return
	}
	r.fails, r.since = 0, time.Time{}
}

// pack notes how much more records take than what came over the wire: at once
// where it is more than before, slowly where it is less. It gives what they
// take. The caller holds mu.
func (cl *Cluster) pack(size int, came map[change.PartitionID]arrival) (unpacked int64) {
	for _, a := range came {
		unpacked += a.bytes
	}
	if size > 0 && unpacked > 0 {
		ratio := max(float64(unpacked)/float64(size), 1)
		cl.ratio = max(ratio, cl.ratio*0.9+ratio*0.1)
	}
	return unpacked
}

// recordBytes is what a record takes in memory beside its content.
const recordBytes = 128

// refused takes a broker's refusal to give a partition's records.
func (cl *Cluster) refused(r *reading, code error) {
	switch code {
	case kerr.UnknownTopicID, kerr.InconsistentTopicID, kerr.UnknownTopicOrPartition, kerr.UnknownServerError:
		r.c.fault(r, code) // whether the topic is another one now is found out by asking
		cl.look()
	default:
		if !kerr.IsRetriable(code) {
			r.c.fault(r, code)
			return
		}
		r.failed(cl, code)
		cl.look()
	}
}

// failed plans another try, and tells the table of it where nothing else has
// helped for as long as a request may take. The caller holds mu.
func (r *reading) failed(cl *Cluster, err error) {
	now := time.Now()
	r.fails++
	r.retry = now.Add(cl.opts.backoff(r.fails))
	if isLogin(err) {
		r.retry = now.Add(firstHold) // and then it may be too early still, see held
	}
	if r.since.IsZero() {
		r.since = now
	}
	if retry, _ := Classify(err); !retry || now.Sub(r.since) >= cl.opts.RequestTimeout {
		r.since = now
		r.c.tell(r, err)
	}
}

// check asks a new leader how far it has the records of the epoch that the last
// record read was of. One that has less was elected without them.
func (cl *Cluster) check(r *reading) {
	req := kmsg.NewPtrOffsetForLeaderEpochRequest()
	req.ReplicaID = -1
	t := kmsg.NewOffsetForLeaderEpochRequestTopic()
	t.Topic = r.id.Topic
	p := kmsg.NewOffsetForLeaderEpochRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.LeaderEpoch = r.id.Partition, r.leader.epoch, r.epoch
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	broker, asked := r.leader.broker, r.leader
	r.busy = true
	cl.begin(func() {
		end := int64(-1)
		resp, err := cl.request(cl.client, broker, req)
		if err == nil {
			got := resp.(*kmsg.OffsetForLeaderEpochResponse)
			if len(got.Topics) != 1 || len(got.Topics[0].Partitions) != 1 {
				err = fmt.Errorf("topic %s partition %d: ask for the end of a leader epoch: it was not answered", r.id.Topic, r.id.Partition)
			} else {
				err = kerr.ErrorForCode(got.Topics[0].Partitions[0].ErrorCode)
				end = got.Topics[0].Partitions[0].EndOffset
			}
		}
		cl.mu.Lock()
		defer cl.mu.Unlock()
		r.busy = false
		switch {
		case r.gone:
			return
		case err != nil && !kerr.IsRetriable(err) && errors.As(err, new(*kerr.Error)) && !errors.Is(err, kerr.UnsupportedVersion):
			r.c.fault(r, err)
		case err != nil && !errors.Is(err, kerr.UnsupportedVersion):
			r.failed(cl, err)
			cl.look()
		case end >= 0 && end < r.ahead:
			r.c.fault(r, &kgo.ErrDataLoss{Topic: r.id.Topic, Partition: r.id.Partition, ConsumedTo: r.ahead, ConsumedToEpoch: r.epoch, ResetTo: end})
		case r.leader == asked:
			r.unchecked = false
		}
		if r.leader.broker >= 0 {
			cl.scheduleNode(cl.node(r.leader.broker))
		}
	})
}
