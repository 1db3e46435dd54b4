package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// MembershipOptions say which group a process is a member of.
type MembershipOptions struct {
	// Group is its name. Type keeps groups of different programs apart, Protocol is
	// the one way of sharing that all its members know.
	Group, Type, Protocol string
	// Instance names the member for good (static membership): a process that is back
	// under this name within the session gets what it had, and nobody else hears of it.
	// No two members at a time have one name.
	Instance string
	// SessionTimeout is after which silence the group goes on without the member.
	// Default 10 s; brokers take 6 s to 30 min where they are not told otherwise.
	SessionTimeout time.Duration
	// RebalanceTimeout is how long the group waits for its members to join anew.
	// Default 30 s, at least SessionTimeout.
	RebalanceTimeout time.Duration
}

// GroupMember is a member of a group as its leader sees it.
type GroupMember struct {
	// ID is the coordinator's name for it, Instance its own.
	ID, Instance string
	// Subscription is what it said of itself when it joined.
	Subscription []byte
}

// Shares is whoever gives meaning to a membership. All calls come from the
// goroutine of Membership.Run.
type Shares interface {
	// Subscription is what the member says of itself; asked for before each join.
	Subscription(ctx context.Context) []byte
	// Share is asked of the leader of a generation: what each member, by its ID, is told.
	Share(generation int32, members []GroupMember) (map[string][]byte, error)
	// Assigned tells what the leader says to this member.
	Assigned(generation int32, assignment []byte)
	// Heard tells of each answer of the coordinator, nil, and of each failed try to get one.
	Heard(err error)
}

// Errors that end a membership.
var (
	// ErrReplaced: another process has joined under this member's name.
	ErrReplaced = errors.New("another process has joined the group under the name of this member: each needs a name of its own (scale_out.member)")
	// ErrGroupInUse: the group is one of another kind.
	ErrGroupInUse = errors.New("the group is in use by another kind of members, such as consumers: choose another scale_out.group")
)

// Membership keeps a process in a group by the classic group protocol, the one
// that Kafka Connect and the schema registries share their work out by. Make it
// with NewMembership; one Run, once.
//
// It speaks the protocol's requests itself: the library's group consumer shares
// topics out, not tables, and would hand a table over before it has stopped.
type Membership struct {
	opts   Options
	group  MembershipOptions
	client *kgo.Client
	rejoin chan struct{} // one token: a reason to join anew

	id         string // the coordinator's name for us
	generation int32
	joined     bool // once at least
}

// NewMembership makes a Membership without talking to the brokers. Of opts only
// the connection is used.
func NewMembership(opts Options, group MembershipOptions) (*Membership, error) {
	if err := opts.validateConnection(); err != nil {
		return nil, err
	}
	if group.SessionTimeout <= 0 {
		group.SessionTimeout = 10 * time.Second
	}
	if group.RebalanceTimeout <= 0 {
		group.RebalanceTimeout = 30 * time.Second
	}
	group.RebalanceTimeout = max(group.RebalanceTimeout, group.SessionTimeout)
	opts = opts.withDefaults()
	shared, err := opts.client(newLogin(&opts))
	if err != nil {
		return nil, err
	}
	// A coordinator that went silent is looked for elsewhere while the session lasts.
	client, err := kgo.NewClient(append(shared, kgo.RequestTimeoutOverhead(max(time.Second, group.SessionTimeout/3)))...)
	if err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	return &Membership{opts: opts, group: group, client: client, rejoin: make(chan struct{}, 1)}, nil
}

// Rejoin asks for a new sharing out: the member joins anew, with what it says then.
func (m *Membership) Rejoin() {
	select {
	case m.rejoin <- struct{}{}:
	default:
	}
}

// Close releases what Run, which was not called, would have.
func (m *Membership) Close() { m.client.Close() }

// Run is a member of the group until ctx ends, and then nil; the member does not
// leave the group, which waits for it until its session ends. An error says why
// it can't be a member: before the first join also that no broker answers.
func (m *Membership) Run(ctx context.Context, s Shares) error {
	defer m.client.Close()
	for {
		err := m.join(ctx, s)
		if err == nil {
			m.joined = true
			err = m.stay(ctx, s)
		}
		if ctx.Err() != nil {
			return nil
		}
		switch {
		case errors.Is(err, errJoinAgain):
			s.Heard(nil)
		case errors.Is(err, kerr.FencedInstanceID):
			return fmt.Errorf("group %s, member %s: %w", m.group.Group, m.group.Instance, ErrReplaced)
		default:
			if retry, _ := Classify(err); !retry || !m.joined {
				return fmt.Errorf("group %s, member %s: %w", m.group.Group, m.group.Instance, m.explained(err))
			}
			s.Heard(err)
			if !sleep(ctx, m.opts.maxBackoff) {
				return nil
			}
		}
	}
}

// errJoinAgain: the group shares out anew, or has gone on without us.
var errJoinAgain = errors.New("join the group again")

// verdict is what the coordinator's answer means to a member.
func (m *Membership) verdict(code int16) error {
	err := kerr.ErrorForCode(code)
	switch {
	case errors.Is(err, kerr.RebalanceInProgress), errors.Is(err, kerr.IllegalGeneration):
		return errJoinAgain
	case errors.Is(err, kerr.UnknownMemberID):
		m.id = "" // our session has ended: what we had may be another's
		return errJoinAgain
	}
	return err
}

// join takes part in a sharing out, from the join to the assignment.
func (m *Membership) join(ctx context.Context, s Shares) error {
	select {
	case <-m.rejoin: // this is the join that was asked for
	default:
	}
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.ProtocolType, req.MemberID = m.group.Group, m.group.Type, m.id
	req.SessionTimeoutMillis = int32(m.group.SessionTimeout.Milliseconds())
	req.RebalanceTimeoutMillis = int32(m.group.RebalanceTimeout.Milliseconds())
	if m.group.Instance != "" {
		req.InstanceID = &m.group.Instance
	}
	protocol := kmsg.NewJoinGroupRequestProtocol()
	protocol.Name, protocol.Metadata = m.group.Protocol, s.Subscription(ctx)
	req.Protocols = append(req.Protocols, protocol)
	resp, err := req.RequestWith(ctx, m.client)
	if err != nil {
		return err
	}
	if errors.Is(kerr.ErrorForCode(resp.ErrorCode), kerr.MemberIDRequired) {
		m.id = resp.MemberID
		return errJoinAgain
	}
	if err := m.verdict(resp.ErrorCode); err != nil {
		return err
	}
	m.id, m.generation = resp.MemberID, resp.Generation
	s.Heard(nil)

	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation, sync.InstanceID = m.group.Group, m.id, m.generation, req.InstanceID
	sync.ProtocolType, sync.Protocol = &m.group.Type, &m.group.Protocol
	// A leader that is back within its session is told to leave all as it is.
	if resp.LeaderID == m.id && !resp.SkipAssignment {
		if sync.GroupAssignment, err = m.lead(s, resp); err != nil {
			return err
		}
	}
	answer, err := sync.RequestWith(ctx, m.client)
	if err != nil {
		return err
	}
	if err := m.verdict(answer.ErrorCode); err != nil {
		return err
	}
	s.Heard(nil)
	s.Assigned(m.generation, answer.MemberAssignment)
	return nil
}

// lead lets the leader share out.
func (m *Membership) lead(s Shares, resp *kmsg.JoinGroupResponse) (out []kmsg.SyncGroupRequestGroupAssignment, err error) {
	members := make([]GroupMember, 0, len(resp.Members))
	for _, r := range resp.Members {
		one := GroupMember{ID: r.MemberID, Subscription: r.ProtocolMetadata}
		if r.InstanceID != nil {
			one.Instance = *r.InstanceID
		}
		members = append(members, one)
	}
	shares, err := s.Share(m.generation, members)
	if err != nil {
		return nil, fmt.Errorf("share out as the leader: %w", err)
	}
	for _, member := range members {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = member.ID, shares[member.ID]
		out = append(out, a)
	}
	return out, nil
}

// stay keeps the session alive until there is a reason to join again. A
// coordinator that does not answer is none: it is asked again and again, and may
// have kept us all the same.
func (m *Membership) stay(ctx context.Context, s Shares) error {
	beat := time.NewTicker(m.heartbeat())
	defer beat.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.rejoin:
			return errJoinAgain
		case <-beat.C:
		}
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.MemberID, req.Generation = m.group.Group, m.id, m.generation
		if m.group.Instance != "" {
			req.InstanceID = &m.group.Instance
		}
		try, cancel := context.WithTimeout(ctx, m.group.SessionTimeout/3)
		resp, err := req.RequestWith(try, m.client)
		cancel()
		if err == nil {
			if err = m.verdict(resp.ErrorCode); errors.Is(err, errJoinAgain) {
				return err
			}
		}
		if retry, _ := Classify(err); err != nil && !retry {
			return err
		}
		s.Heard(err)
	}
}

// heartbeat is from one sign of life to the next: a new sharing out is heard of by
// the answer, so it bounds how long one takes to begin.
func (m *Membership) heartbeat() time.Duration {
	return min(2*time.Second, m.group.SessionTimeout/4)
}

// explained says what to do about an answer of the coordinator.
func (m *Membership) explained(err error) error {
	switch {
	case errors.Is(err, kerr.InconsistentGroupProtocol):
		return fmt.Errorf("%w: %w", ErrGroupInUse, err)
	case errors.Is(err, kerr.InvalidSessionTimeout):
		return fmt.Errorf("scale_out.session_timeout is %s: the brokers take group.min.session.timeout.ms (6 s) to group.max.session.timeout.ms (30 min): %w", m.group.SessionTimeout, err)
	case errors.Is(err, kerr.GroupMaxSizeReached):
		return fmt.Errorf("the group has group.max.size members already: %w", err)
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return fmt.Errorf("the right READ on the group is missing: grant it to gscd's user: %w", err)
	}
	return err
}

// PartitionCounts gives how many partitions topics have; those that the brokers
// don't tell of are missing.
func (m *Membership) PartitionCounts(ctx context.Context, topics []string) (map[string]int, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, t := range topics {
		r := kmsg.NewMetadataRequestTopic()
		r.Topic = kmsg.StringPtr(t)
		req.Topics = append(req.Topics, r)
	}
	resp, err := req.RequestWith(ctx, m.client)
	if err != nil {
		return nil, fmt.Errorf("ask for the partitions of the topics: %w", err)
	}
	out := map[string]int{}
	for _, t := range resp.Topics {
		if t.Topic != nil && t.ErrorCode == 0 {
			out[*t.Topic] = len(t.Partitions)
		}
	}
	return out, nil
}

// Group is a group as its coordinator knows it.
type Group struct {
	// State is the coordinator's word: Stable, PreparingRebalance, CompletingRebalance,
	// Empty or Dead; Type is the kind of its members, "" where there are none.
	State, Type string
	Members     []DescribedMember
}

// DescribedMember is a member with what it was told last.
type DescribedMember struct {
	GroupMember
	// Host is where its connection comes from.
	Host       string
	Assignment []byte
}

// DescribeGroup asks the coordinator for a group; one that does not exist is Dead.
// Of opts only the connection is used: one client a call.
func DescribeGroup(ctx context.Context, opts Options, group string) (*Group, error) {
	if err := opts.validateConnection(); err != nil {
		return nil, err
	}
	opts = opts.withDefaults()
	shared, err := opts.client(newLogin(&opts))
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(shared...)
	if err != nil {
		return nil, fmt.Errorf("kafka client: %w", err)
	}
	defer client.Close()
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{group}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("group %s: %w", group, err)
	}
	if len(resp.Groups) != 1 {
		return nil, fmt.Errorf("group %s: the coordinator tells of %d groups", group, len(resp.Groups))
	}
	g := resp.Groups[0]
	switch err := kerr.ErrorForCode(g.ErrorCode); {
	case errors.Is(err, kerr.GroupIDNotFound):
		return &Group{State: "Dead"}, nil
	case errors.Is(err, kerr.GroupAuthorizationFailed):
		return nil, fmt.Errorf("group %s: the right DESCRIBE on the group is missing: grant it to gscd's user: %w", group, err)
	case err != nil:
		return nil, fmt.Errorf("group %s: %w", group, err)
	}
	out := &Group{State: g.State, Type: g.ProtocolType}
	for _, r := range g.Members {
		one := DescribedMember{GroupMember: GroupMember{ID: r.MemberID, Subscription: r.ProtocolMetadata}, Host: r.ClientHost, Assignment: r.MemberAssignment}
		if r.InstanceID != nil {
			one.Instance = *r.InstanceID
		}
		out.Members = append(out.Members, one)
	}
	return out, nil
}
