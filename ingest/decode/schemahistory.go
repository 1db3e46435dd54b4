package decode

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gscd-io/gscd/ingest/change"
)

// SchemaHistory is what the records of a Debezium connector's DDL topic say: how
// each table was defined from which place in the binlog on. Decoders share one; it
// is safe for concurrent use.
type SchemaHistory struct {
	topic string
	skew  int64 // microseconds by which clocks of two servers may differ

	mu     sync.Mutex
	tables map[tableName][]*definition // in the order of the topic
	read   bool
}

type tableName struct{ database, table string }

// definition is a table from one place on.
type definition struct {
	offset int64 // of the record in the topic
	from   place
	// fields are the columns' encodings; nil: the table was dropped. unknown are the
	// columns whose types are not known. kind is the same for definitions whose
	// columns have the same types.
	fields  map[string]codec
	unknown map[string]string
	kind    string
	// used is the furthest place that it was given for.
	used place
}

// place is where and when an event stands in the source: the connector's name, the
// server (0: that of a snapshot, whichever it is), the position, and the event's
// time in microseconds.
type place struct {
	connector string
	server    int64
	pos       change.Position
	at        int64
}

// NewSchemaHistory makes the empty history of a topic. skew is how far the clocks
// of two servers may be apart, in microseconds.
func NewSchemaHistory(topic string, skew int64) *SchemaHistory {
	return &SchemaHistory{topic: topic, skew: skew, tables: map[tableName][]*definition{}}
}

// schemaChange is a record of the topic.
type schemaChange struct {
	Source *struct {
		Name     string `json:"name"`
		ServerID int64  `json:"server_id"`
		File     string `json:"file"`
		Pos      int64  `json:"pos"`
		TsMs     int64  `json:"ts_ms"`
	} `json:"source"`
	DDL          *string       `json:"ddl"`
	TableChanges []tableChange `json:"tableChanges"`
	Payload      *schemaChange `json:"payload"`
}

type tableChange struct {
	Type  string `json:"type"`
	ID    string `json:"id"`
	Table *struct {
		Columns []tableColumn `json:"columns"`
	} `json:"table"`
}

type tableColumn struct {
	Name   string `json:"name"`
	Type   string `json:"typeName"`
	Length *int   `json:"length"`
	Scale  *int   `json:"scale"`
}

// Add takes the topic's next record. Late tells that a table was defined anew in
// front of rows for which an older definition has been given, of other types.
func (h *SchemaHistory) Add(rec *change.Record, o *Options) (late bool, err error) {
	var c schemaChange
	if err := json.Unmarshal(rec.Value, &c); err != nil {
		return false, fmt.Errorf("offset %d: no record of a Debezium schema change topic: %w", rec.Offset, err)
	}
	if c.Payload != nil {
		c = *c.Payload
	}
	if c.Source == nil || c.DDL == nil {
		return false, fmt.Errorf("offset %d: no record of a Debezium schema change topic: source or ddl is missing", rec.Offset)
	}
	from := place{connector: c.Source.Name, server: c.Source.ServerID, at: c.Source.TsMs * 1000}
	number, _ := integer([]byte(c.Source.File[strings.LastIndexByte(c.Source.File, '.')+1:]))
	from.pos = change.Position{File: number, Pos: c.Source.Pos}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range c.TableChanges {
		name, err := parseTableID(t.ID)
		if err != nil {
			return late, fmt.Errorf("offset %d: %w", rec.Offset, err)
		}
		d := &definition{offset: rec.Offset, from: from}
		if t.Table != nil && t.Type != "DROP" {
			d.define(t.Table.Columns, o)
		}
		for _, older := range h.tables[name] {
			if older.kind != d.kind && older.used != (place{}) && h.before(d, older.used) == yes {
				late = true
			}
		}
		h.tables[name] = append(h.tables[name], d)
	}
	return late, nil
}

// Clear forgets everything, to be read again.
func (h *SchemaHistory) Clear() {
	h.mu.Lock()
	h.read = false
	clear(h.tables)
	h.mu.Unlock()
}

// MarkRead tells that the topic was read to its end.
func (h *SchemaHistory) MarkRead() {
	h.mu.Lock()
	h.read = true
	h.mu.Unlock()
}

// parseTableID reads "db"."table", whose quotes are doubled inside.
func parseTableID(id string) (tableName, error) {
	var parts []string
	for rest := id; ; {
		if !strings.HasPrefix(rest, `"`) {
			break
		}
		var part strings.Builder
		i := 1
		for ; i < len(rest); i++ {
			if rest[i] == '"' {
				if i+1 >= len(rest) || rest[i+1] != '"' {
					break
				}
				i++
			}
			part.WriteByte(rest[i])
		}
		if i >= len(rest) {
			break
		}
		parts = append(parts, part.String())
		if rest = rest[i+1:]; rest == "" && len(parts) == 2 {
			return tableName{parts[0], parts[1]}, nil
		}
		if !strings.HasPrefix(rest, ".") {
			break
		}
		rest = rest[1:]
	}
	return tableName{}, fmt.Errorf("%.80q is no table of a database", id)
}

// define fills in the encodings of columns.
func (d *definition) define(columns []tableColumn, o *Options) {
	d.fields, d.unknown = make(map[string]codec, len(columns)), map[string]string{}
	hints := o.Debezium
	if hints.Decimals == "" {
		hints.Decimals = "base64" // decimal.handling.mode is precise
	}
	for _, c := range columns {
		text := c.sqlType()
		spec, err := ParseColumnType(text)
		if err != nil {
			d.unknown[c.Name] = text
			continue
		}
		d.fields[c.Name] = spec.codec.hinted(hints)
	}
	var kind strings.Builder
	for _, name := range slices.Sorted(maps.Keys(d.fields)) {
		c := d.fields[name]
		fmt.Fprintf(&kind, "%q %d %v %d %d %d %d %d %d\n", name, c.enc, c.typ, c.lo, c.hi, c.precision, c.scale, c.length, c.unit)
	}
	for _, name := range slices.Sorted(maps.Keys(d.unknown)) {
		fmt.Fprintf(&kind, "%q %q\n", name, d.unknown[name])
	}
	d.kind = kind.String()
}

// sqlType writes a column's type as MySQL does. Labels of enum and set are left
// out: records have the labels, not their numbers.
func (c *tableColumn) sqlType() string {
	name := strings.ToLower(strings.TrimSpace(c.Type))
	base, attributes, _ := strings.Cut(name, " ")
	switch base {
	case "enum", "set":
		return "varchar"
	case "int1", "int2", "int3", "int4", "int8", "middleint":
		base = map[string]string{"int1": "tinyint", "int2": "smallint", "int3": "mediumint", "int4": "int", "int8": "bigint", "middleint": "mediumint"}[base]
	}
	if takes := maxArgs[base]; c.Length != nil && *c.Length >= 0 && takes > 0 {
		base += "(" + strconv.Itoa(*c.Length)
		if c.Scale != nil && takes > 1 {
			base += "," + strconv.Itoa(*c.Scale)
		}
		base += ")"
	}
	return strings.TrimSpace(base + " " + attributes)
}

// relation is whether a definition begins before a place.
type relation uint8

const (
	no relation = iota
	yes
	perhaps
)

// before compares positions on one server, else times, where the clocks may differ.
func (h *SchemaHistory) before(d *definition, p place) relation {
	if d.from.server == p.server || d.from.server == 0 || p.server == 0 {
		if d.from.pos.Compare(p.pos) <= 0 {
			return yes
		}
		if d.from.server == p.server || p.server == 0 {
			return no
		}
		// The snapshot's position may be of another server than the event's.
		if d.from.at != 0 && d.from.at < p.at-h.skew {
			return yes
		}
		return no
	}
	switch {
	case d.from.at < p.at-h.skew:
		return yes
	case d.from.at > p.at+h.skew:
		return no
	}
	return perhaps
}

// ErrUndefined is wrapped by the errors of records whose definition the schema topic
// does not have, or not yet.
var ErrUndefined = errors.New("the schema topic does not say how the table was defined")

var (
	errTopicUnread = errors.New("was not read")
	errNoPosition  = errors.New("the event has no position, which tells how the table was defined then")
)

// at gives the definition of a table at a place.
func (h *SchemaHistory) at(name tableName, p place) (*definition, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.read {
		return nil, fmt.Errorf("schema topic %s: %w", h.topic, errTopicUnread)
	}
	var found *definition
	doubt := false
	for _, d := range h.tables[name] {
		if d.from.connector != p.connector {
			continue
		}
		switch h.before(d, p) {
		case yes:
			found, doubt = d, false
		case perhaps:
			doubt = doubt || found == nil || found.kind != d.kind
		}
	}
	switch {
	case doubt:
		return nil, fmt.Errorf("schema topic %s: %s.%s was altered on another server within %d s of the event, and nothing tells which came first: name its types under columns: instead",
			h.topic, name.database, name.table, h.skew/microsPerSecond)
	case found == nil:
		return nil, fmt.Errorf("%w: topic %s has no definition of %s.%s of connector %q at or before file %d position %d: is it the connector's topic?",
			ErrUndefined, h.topic, name.database, name.table, p.connector, p.pos.File, p.pos.Pos)
	case found.fields == nil:
		return nil, fmt.Errorf("%w: in topic %s at offset %d %s.%s was dropped, and this is an event behind it", ErrUndefined, h.topic, found.offset, name.database, name.table)
	}
	if found.used == (place{}) || found.used.server == p.server && found.used.pos.Compare(p.pos) < 0 || found.used.server != p.server {
		found.used = p
		found.used.connector = strings.Clone(p.connector)
	}
	return found, nil
}

// anyTime gives the definition of a table whose event has no place, as that of a
// tombstone: the last one, where all have the same types for the columns.
func (h *SchemaHistory) anyTime(name tableName, columns []string) (*definition, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.read {
		return nil, fmt.Errorf("schema topic %s: %w", h.topic, errTopicUnread)
	}
	var last *definition
	for _, d := range h.tables[name] {
		if d.fields == nil {
			continue
		}
		for _, c := range columns {
			if last != nil && last.fields[c] != d.fields[c] {
				return nil, fmt.Errorf("schema topic %s: column %q of %s.%s had two types, and a tombstone does not tell which", h.topic, c, name.database, name.table)
			}
		}
		last = d
	}
	if last == nil {
		return nil, fmt.Errorf("schema topic %s: no definition of %s.%s", h.topic, name.database, name.table)
	}
	return last, nil
}
