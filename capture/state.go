package capture

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gscd-io/gscd/capture/source"
	"github.com/gscd-io/gscd/ddl"
	"github.com/gscd-io/gscd/ingest/change"
)

// The keys of the state topic: "position", "load", "load/DATABASE.TABLE", "topic/NAME"
// and "schema/NUMBER", which are never deleted: they are the history.
const (
	keyPosition = "position"
	keyLoad     = "load"
	tableLoads  = "load/"
	topicSizes  = "topic/"
	schemas     = "schema/"
)

const stateVersion = 1

// savedPosition is where the stream goes on.
type savedPosition struct {
	Version  int    `json:"version"`
	Name     string `json:"name"`
	ServerID uint32 `json:"server_id"`
	UUID     string `json:"server_uuid,omitempty"`
	File     string `json:"file"`
	Pos      uint64 `json:"pos"`
	GTIDs    string `json:"gtids,omitempty"`
	// Skip is how many events behind the position are written already.
	Skip int64 `json:"skip,omitempty"`
	// Schemas is the number of entries of the history up to the position.
	Schemas int64 `json:"schemas"`
	// Reload: the load that this position belongs to was given up, and begins anew.
	Reload bool `json:"reload,omitempty"`
	// At is when it was written.
	At string `json:"at"`
}

func (p *savedPosition) position() source.Position {
	return source.Position{File: p.File, Pos: p.Pos, GTIDs: p.GTIDs}
}

func (p *savedPosition) identity() source.Identity {
	return source.Identity{ServerID: p.ServerID, UUID: p.UUID}
}

// savedLoad is a load of tables that were read as of one position.
type savedLoad struct {
	ServerID uint32 `json:"server_id"`
	File     string `json:"file"`
	Pos      uint64 `json:"pos"`
	GTIDs    string `json:"gtids,omitempty"`
	// Time is the server's clock at the position, in microseconds.
	Time int64 `json:"time"`
	Done bool  `json:"done,omitempty"`
	// Extra: of tables that were not wanted at the beginning.
	Extra bool `json:"extra,omitempty"`
	// Rounds is how often reading was begun, from 1.
	Rounds int `json:"rounds"`
}

// savedSchema is an entry of the history: what a table was from a position on.
type savedSchema struct {
	File string `json:"file"`
	Pos  uint64 `json:"pos"`
	// Database and Name are the table's before.
	Database  string     `json:"database"`
	Name      string     `json:"name"`
	Table     *ddl.Table `json:"table"` // null: it is gone
	Statement string     `json:"statement,omitempty"`
}

// state is what the topic keeps, and what is to be written with the next commit.
type state struct {
	position *savedPosition
	load     *savedLoad
	loads    map[string]*tableLoad
	topics   map[string]int32
	history  map[int64]*savedSchema
	schemas  int64 // entries that are valid

	pending map[string]any // by key; nil deletes
}

func newState() *state {
	return &state{loads: map[string]*tableLoad{}, topics: map[string]int32{}, history: map[int64]*savedSchema{}, pending: map[string]any{}}
}

// ErrState: what the state topic holds can't be used.
var ErrState = errors.New("the state topic can't be used")

// take takes a record of the state topic.
func (s *state) take(r *change.Record) error {
	key := string(r.Key)
	var into any
	switch {
	case key == keyPosition:
		s.position = &savedPosition{}
		into = s.position
	case key == keyLoad:
		s.load = &savedLoad{}
		into = s.load
	case strings.HasPrefix(key, tableLoads):
		t := &tableLoad{}
		s.loads[strings.TrimPrefix(key, tableLoads)] = t
		into = t
	case strings.HasPrefix(key, topicSizes):
		n := new(int32)
		defer func() { s.topics[strings.TrimPrefix(key, topicSizes)] = *n }()
		into = n
	case strings.HasPrefix(key, schemas):
		var n int64
		if _, err := fmt.Sscanf(strings.TrimPrefix(key, schemas), "%d", &n); err != nil {
			return fmt.Errorf("%w: topic %s offset %d: key %.100q", ErrState, r.Topic, r.Offset, key)
		}
		s.history[n] = &savedSchema{}
		into = s.history[n]
	default:
		return fmt.Errorf("%w: topic %s offset %d has the key %.100q: name a topic that only this capture writes", ErrState, r.Topic, r.Offset, key)
	}
	if r.Value == nil {
		s.drop(key)
		return nil
	}
	if err := json.Unmarshal(r.Value, into); err != nil {
		return fmt.Errorf("%w: topic %s offset %d, %s: %w", ErrState, r.Topic, r.Offset, key, err)
	}
	return nil
}

func (s *state) drop(key string) {
	switch {
	case key == keyPosition:
		s.position = nil
	case key == keyLoad:
		s.load = nil
	case strings.HasPrefix(key, tableLoads):
		delete(s.loads, strings.TrimPrefix(key, tableLoads))
	}
}

// ready looks at what was taken.
func (s *state) ready(name string) error {
	p := s.position
	switch {
	case p == nil:
		return nil
	case p.Version != stateVersion:
		return fmt.Errorf("%w: it is of version %d, and this program knows %d", ErrState, p.Version, stateVersion)
	case p.Name != name:
		return fmt.Errorf("%w: it is that of the capture %q, not of %q: name another one with capture.state_topic", ErrState, p.Name, name)
	}
	s.schemas = p.Schemas
	if p.Reload {
		s.position, s.load = nil, nil
	}
	return nil
}

// restart notes that all begins anew, behind the history.
func (s *state) restart() {
	p := *s.position
	p.Reload, p.At = true, time.Now().UTC().Format(time.RFC3339)
	s.put(keyPosition, &p)
}

// tables are those at the position.
func (s *state) tables() []*ddl.Table {
	tables := map[source.TableName]*ddl.Table{}
	for _, n := range slices.Sorted(maps.Keys(s.history)) {
		if n > s.schemas { // written behind the position, and then the process ended
			continue
		}
		h := s.history[n]
		delete(tables, source.TableName{Database: h.Database, Name: h.Name})
		if h.Table != nil {
			tables[source.TableName{Database: h.Table.Database, Name: h.Table.Name}] = h.Table
		}
	}
	return slices.Collect(maps.Values(tables))
}

// put notes a record for the next commit.
func (s *state) put(key string, value any) { s.pending[key] = value }

// schema adds an entry to the history.
func (s *state) schema(e *savedSchema) {
	s.schemas++
	s.put(fmt.Sprintf("%s%012d", schemas, s.schemas), e)
}

// at notes the position.
func (s *state) at(o *Options, id source.Identity, p source.Position, skip int64) {
	s.position = &savedPosition{
		Version: stateVersion, Name: o.Name, ServerID: id.ServerID, UUID: id.UUID, File: p.File, Pos: p.Pos, GTIDs: p.GTIDs,
		Skip: skip, Schemas: s.schemas, At: time.Now().UTC().Format(time.RFC3339),
	}
	s.put(keyPosition, s.position)
}

// records are what is to be written now, the position last: without transactions nothing
// counts before it.
func (s *state) records() (out []*change.Record, err error) {
	keys := slices.SortedFunc(maps.Keys(s.pending), func(a, b string) int {
		if (a == keyPosition) != (b == keyPosition) {
			if a == keyPosition {
				return 1
			}
			return -1
		}
		return strings.Compare(a, b)
	})
	for _, key := range keys {
		r := &change.Record{Key: []byte(key)}
		if v := s.pending[key]; v != nil {
			if r.Value, err = json.Marshal(v); err != nil {
				return nil, err
			}
		}
		out = append(out, r)
	}
	return out, nil
}
