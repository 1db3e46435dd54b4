package server

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/server/group"
)

// The status of a group: who is in it and who has which table, by its plan, and
// how each table stands, by what its process answers at /status?scope=pod.

// Bounds of asking the others.
const (
	askTimeout = 3 * time.Second
	askAtOnce  = 16
	askBytes   = 16 << 20
)

// podScope is the query by which a process tells of its own tables alone.
const podScope = "scope=pod"

// Asker asks the processes of a group. The zero Asker asks by plain HTTP.
type Asker struct {
	// Client holds what their certificates are checked by; nil: http.DefaultClient.
	Client *http.Client
	// Authorize, where set, adds what a request has to bring.
	Authorize func(*http.Request)
}

// TableStanding is what the process of a table tells of it; what it does not tell is nil.
type TableStanding struct {
	Table      string  `json:"table"`
	State      string  `json:"state"`
	Error      *string `json:"error"`
	WaitsFor   *string `json:"waits_for"`
	Version    *int64  `json:"version"`
	Open       *string `json:"open"`
	LastSealed *string `json:"last_sealed"`
	HeldBackBy *string `json:"held_back_by"`
	Rows       *int64  `json:"rows"`
	Partitions []struct {
		Lag *int64 `json:"lag"`
	} `json:"partitions"`
}

// lag is of all partitions, nil where it is not known of one.
func (t *TableStanding) lag() any {
	var sum int64
	for _, p := range t.Partitions {
		if p.Lag == nil {
			return nil
		}
		sum += *p.Lag
	}
	if len(t.Partitions) == 0 {
		return nil
	}
	return sum
}

// peerAnswer is what one process tells.
type peerAnswer struct {
	Group struct {
		Member string `json:"member"`
	} `json:"group"`
	Tables []TableStanding `json:"tables"`
	err    error
}

// ask asks one process for its tables.
func (a *Asker) ask(ctx context.Context, member group.ViewMember) (out peerAnswer) {
	fail := func(err error) peerAnswer { return peerAnswer{err: err} }
	if member.Address == "" {
		return fail(errors.New("it advertises no address: set scale_out.advertise, or http.address"))
	}
	if !strings.HasPrefix(member.Address, "http://") && !strings.HasPrefix(member.Address, "https://") {
		return fail(fmt.Errorf("its address %q is no URL", member.Address))
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(member.Address, "/")+"/status?"+podScope, nil)
	if err != nil {
		return fail(err)
	}
	if a.Authorize != nil {
		a.Authorize(req)
	}
	client := a.Client
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return fail(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fail(fmt.Errorf("%s answers %s", member.Address, resp.Status))
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, askBytes))
	if err == nil {
		err = json.Unmarshal(body, &out)
	}
	switch {
	case err != nil:
		return fail(fmt.Errorf("what %s answers can't be read: %w", member.Address, err))
	case out.Group.Member != member.Name:
		return fail(fmt.Errorf("%s is member %q: scale_out.advertise must be this process's own address", member.Address, out.Group.Member))
	}
	return out
}

// askAll asks all processes but ourselves, side by side.
func (a *Asker) askAll(ctx context.Context, v group.View) map[string]peerAnswer {
	var mu sync.Mutex
	var work sync.WaitGroup
	out := map[string]peerAnswer{}
	turns := make(chan struct{}, askAtOnce)
	for _, member := range v.Members {
		if member.Name == v.Member {
			continue
		}
		work.Go(func() {
			turns <- struct{}{}
			answer := a.ask(ctx, member)
			<-turns
			mu.Lock()
			defer mu.Unlock()
			out[member.Name] = answer
		})
	}
	work.Wait()
	return out
}

// Group is the group as v has it, with what its processes answer: members, each
// with its tables, in the order of their names. A process that does not answer has
// an error, and its tables by the plan.
func (a *Asker) Group(ctx context.Context, v group.View) output.Record {
	return groupRecord(v, a.askAll(ctx, v))
}

func groupRecord(v group.View, answers map[string]peerAnswer) output.Record {
	r := groupHead(v)
	members := []output.Record{}
	for _, m := range v.Members {
		answer, asked := answers[m.Name]
		var fault any
		if answer.err != nil {
			fault = answer.err.Error()
		}
		tables := []output.Record{}
		for _, t := range m.Tables {
			tables = append(tables, tableInGroup(t, answer.of(t.Name), asked && answer.err == nil))
		}
		members = append(members, output.Record{
			{Name: "member", Value: m.Name}, {Name: "address", Value: textOrNil(m.Address)}, {Name: "self", Value: m.Name == v.Member},
			{Name: "error", Value: fault}, {Name: "tables", Value: tables},
		})
	}
	return append(r, output.Item{Name: "members", Value: members})
}

func groupHead(v group.View) output.Record {
	return output.Record{
		{Name: "group", Value: v.Group}, {Name: "member", Value: textOrNil(v.Member)}, {Name: "leader", Value: textOrNil(v.Leader)},
		{Name: "generation", Value: v.Generation}, {Name: "joined", Value: v.Joined}, {Name: "error", Value: textOrNil(coordinatorAway(v))},
	}
}

// coordinatorAway says since when the coordinator does not answer, and why; "" where it does.
func coordinatorAway(v group.View) string {
	if v.Away == nil {
		return ""
	}
	return fmt.Sprintf("the coordinator does not answer, since %s: %v", rfc3339(v.AwaySince), v.Away)
}

func (p *peerAnswer) of(table string) *TableStanding {
	for i := range p.Tables {
		if p.Tables[i].Table == table {
			return &p.Tables[i]
		}
	}
	return nil
}

// tableInGroup is a table where it belongs. told: its process has answered.
func tableInGroup(t group.ViewTable, s *TableStanding, told bool) output.Record {
	r := output.Record{{Name: "table", Value: t.Name}, {Name: "since", Value: t.Since}, {Name: "waits_for_member", Value: textOrNil(t.From)}}
	var state any
	if s != nil {
		state = s.State
	} else {
		s = &TableStanding{}
		if told && t.From == "" {
			state = string(Waiting)
		}
	}
	return append(r,
		output.Item{Name: "state", Value: state}, output.Item{Name: "error", Value: orNil(s.Error)}, output.Item{Name: "waits_for", Value: orNil(s.WaitsFor)},
		output.Item{Name: "version", Value: orNil(s.Version)}, output.Item{Name: "open", Value: orNil(s.Open)}, output.Item{Name: "last_sealed", Value: orNil(s.LastSealed)},
		output.Item{Name: "held_back_by", Value: orNil(s.HeldBackBy)}, output.Item{Name: "rows", Value: orNil(s.Rows)}, output.Item{Name: "lag", Value: s.lag()},
	)
}

func textOrNil(text string) any {
	if text == "" {
		return nil
	}
	return text
}

func orNil[T any](v *T) any {
	if v == nil {
		return nil
	}
	return *v
}

// groupStatus is the group of this process for /status: asked of the others where
// others is set.
func (s *Server) groupStatus(ctx context.Context, others bool) output.Record {
	v := s.o.Group.View()
	if !others {
		return groupHead(v)
	}
	answers := s.o.Peers.askAll(ctx, v)
	answers[v.Member] = s.ownAnswer()
	return groupRecord(v, answers)
}

// ownAnswer is what this process would answer.
func (s *Server) ownAnswer() (out peerAnswer) {
	var body bytes.Buffer
	err := output.WriteObject(output.JSON, &body, s.status())
	if err == nil {
		err = json.Unmarshal(body.Bytes(), &out)
	}
	out.err = err
	return out
}

// ungrouped says why this process can't be told its tables, nil where it was.
func (s *Server) ungrouped() (wrong []string) {
	if s.o.Group != nil && !s.o.Group.View().Joined {
		wrong = append(wrong, "the group has not shared out its tables to this process yet")
	}
	return wrong
}
