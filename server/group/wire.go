package group

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"time"
)

// What members write to each other goes through the coordinator, which keeps it
// in one record for the whole group (1 MiB where brokers are not told otherwise):
// so it is JSON, packed. Unknown names are passed over, so that versions mix.

// maxUnpacked bounds what a member is made to unpack.
const maxUnpacked = 16 << 20

// subscription is what a member says of itself.
type subscription struct {
	Address string `json:"address,omitempty"`
	// Asks counts the times that the member asked for a new sharing out: the
	// coordinator begins one only where a member says something new.
	Asks   int                 `json:"asks"`
	Tables map[string]int      `json:"tables"`
	Claims map[string][2]int64 `json:"claims,omitempty"` // generation, Unix seconds
}

// assignment is what the leader tells every member: the whole plan.
type assignment struct {
	Generation int32        `json:"generation"`
	Leader     string       `json:"leader"`
	Members    []planMember `json:"members"`
	// Tables are by their name: the places of their members in Members. From is one
	// of those, or -1.
	Tables map[string]planPlace `json:"tables"`
}

type planMember struct {
	Name    string `json:"name"`
	Address string `json:"address,omitempty"`
	// Sum is of the names of its tables, as the leader knows them.
	Sum uint64 `json:"sum"`
}

type planPlace struct {
	Member int   `json:"member"`
	Since  int64 `json:"since,omitempty"` // Unix seconds
	From   int   `json:"from"`
}

// sumOf is of the names of tables.
func sumOf(tables map[string]int) uint64 {
	h := fnv.New64a()
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		io.WriteString(h, name) // never fails
		h.Write([]byte{0})
	}
	return h.Sum64()
}

func pack(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, flate.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err = w.Write(text); err == nil {
		err = w.Close()
	}
	return out.Bytes(), err
}

// errTooLarge: what was sent unpacks to more than any member would send.
var errTooLarge = errors.New("it unpacks to more than 16 MiB")

func unpack(data []byte, v any) error {
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(data)), maxUnpacked+1))
	if err != nil {
		return err
	}
	if len(text) > maxUnpacked {
		return errTooLarge
	}
	return json.Unmarshal(text, v)
}

// candidate reads what a member said of itself.
func candidate(name string, data []byte) (Candidate, planMember, error) {
	var s subscription
	if err := unpack(data, &s); err != nil {
		return Candidate{}, planMember{}, fmt.Errorf("what member %s says of itself can't be read: %w", name, err)
	}
	c := Candidate{Name: name, Tables: s.Tables, Claims: map[string]Claim{}}
	for table, claim := range s.Claims {
		c.Claims[table] = Claim{Generation: int32(claim[0]), Since: time.Unix(claim[1], 0).UTC()}
	}
	return c, planMember{Name: name, Address: s.Address, Sum: sumOf(s.Tables)}, nil
}

// written is the plan as members are told it.
func (p Plan) written(a *assignment) {
	index := map[string]int{"": -1}
	for i, m := range a.Members {
		index[m.Name] = i
	}
	a.Tables = map[string]planPlace{}
	for table, place := range p {
		w := planPlace{Member: index[place.Member], From: index[place.From]}
		if !place.Since.IsZero() {
			w.Since = place.Since.Unix()
		}
		a.Tables[table] = w
	}
}

// plan is what the leader told.
func (a *assignment) plan() (Plan, error) {
	name := func(i int) (string, error) {
		switch {
		case i == -1:
			return "", nil
		case i < 0 || i >= len(a.Members):
			return "", fmt.Errorf("the plan names member %d of %d", i, len(a.Members))
		}
		return a.Members[i].Name, nil
	}
	p := Plan{}
	for table, w := range a.Tables {
		var place Place
		var err error
		if place.Member, err = name(w.Member); err == nil {
			place.From, err = name(w.From)
		}
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", table, err)
		}
		if w.Since != 0 {
			place.Since = time.Unix(w.Since, 0).UTC()
		}
		p[table] = place
	}
	return p, nil
}
