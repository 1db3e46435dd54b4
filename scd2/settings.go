package scd2

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/expr"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/format"
	"github.com/gscd-io/gscd/snapshotter"
)

// Property is the table property in which a history table says what it is.
const Property = "gscd.scd2"

// What callers decide on.
var (
	// ErrForeign: the table is there, and no history table.
	ErrForeign = errors.New("the table is no history table of gscd")
	// ErrOtherSource: the history is that of another table.
	ErrOtherSource = errors.New("the history table was built from another table")
	// ErrSettings: what was asked for is not what the history table has, or can't be.
	ErrSettings = errors.New("the history table is not like that")
	// ErrNotBuilt: there is no history table yet.
	ErrNotBuilt = errors.New("there is no history table yet")
)

// Columns names the columns that a history table has beside those of its source. "" leaves
// RowHash and LoadTime out.
type Columns struct {
	ValidFrom string `json:"valid_from"`
	ValidTo   string `json:"valid_to"`
	IsCurrent string `json:"is_current"`
	RowHash   string `json:"row_hash,omitempty"`
	LoadTime  string `json:"load_time,omitempty"`
}

func (c Columns) withDefaults() Columns {
	or := func(name *string, other string) {
		if *name == "" {
			*name = other
		}
	}
	or(&c.ValidFrom, "valid_from")
	or(&c.ValidTo, "valid_to")
	or(&c.IsCurrent, "is_current")
	return c
}

// list is all of them that there are, in their order in the table.
func (c Columns) list() []string {
	names := []string{c.ValidFrom, c.ValidTo, c.IsCurrent}
	for _, n := range []string{c.RowHash, c.LoadTime} {
		if n != "" {
			names = append(names, n)
		}
	}
	return names
}

// The granularities of intervals.
const (
	// ByLabel: a row for the last state of each label.
	ByLabel = "day"
	// ByChange: a row for each state that a commit left, from the time of its change.
	ByChange = "change"
)

// DefaultOpenEnd is the end of intervals that have none yet; OpenEndNull is NULL as such.
const (
	DefaultOpenEnd = "5999-01-01"
	OpenEndNull    = "null"
)

// settings is what a history table says of itself.
type settings struct {
	// Format is the version of this form; absent for 1.
	Format int `json:"format,omitempty"`
	// Source is the id of the source's metaData, Address where it was last.
	Source      string `json:"source"`
	Address     string `json:"address"`
	Granularity string `json:"granularity"`
	// Date tells that intervals are of dates, else of timestamps.
	Date    bool   `json:"date"`
	OpenEnd string `json:"open_end"`
	// From is the label that the history begins with; "" is the first that is sealed.
	From    string  `json:"from,omitempty"`
	Columns Columns `json:"columns"`
	// Key are the key columns, and Fields all columns of the source that were ever seen: by
	// the name that the source's files have, which a renaming leaves alone, the name here.
	Key    []string          `json:"key"`
	Fields map[string]string `json:"fields"`
}

func (s *settings) text() string {
	raw, err := json.Marshal(s)
	if err != nil {
		panic("scd2: " + err.Error()) // texts
	}
	return string(raw)
}

// settingsOf reads the settings of a history table. The error wraps ErrForeign or format.ErrNewer.
func settingsOf(s *delta.Snapshot) (*settings, error) {
	text, ok := s.Property(Property)
	if !ok {
		return nil, fmt.Errorf("%w: it has no property %s; give another --out", ErrForeign, Property)
	}
	out := &settings{}
	if newer := newerSettings(text); newer != nil {
		return nil, newer
	}
	if err := json.Unmarshal([]byte(text), out); err != nil {
		return nil, fmt.Errorf("property %s: %w", Property, err)
	}
	if out.Fields == nil || len(out.Key) == 0 {
		return nil, fmt.Errorf("property %s: it names no columns", Property)
	}
	return out, nil
}

// settingsFormat is the newest version of the property that this program knows.
const settingsFormat = 1

// newerSettings refuses a property of a later form, whose other members may be of other types.
func newerSettings(text string) error {
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal([]byte(text), &head); err != nil || head.Format <= settingsFormat {
		return nil //nolint:nilerr // a damaged property is told from what follows
	}
	return &format.Newer{What: "property " + Property, Found: strconv.Itoa(head.Format), Known: strconv.Itoa(settingsFormat)}
}

// time is a column of an end of intervals.
func (s *settings) timeField(name string) schema.Field {
	t := schema.Of(schema.Timestamp)
	if s.Date {
		t = schema.Of(schema.Date)
	}
	return schema.Field{Name: name, Type: t, Nullable: true}
}

// open is the cell of an open end.
func (s *settings) open() (schema.Value, error) {
	if strings.EqualFold(s.OpenEnd, OpenEndNull) {
		return schema.Value{}, nil
	}
	v, err := expr.ParseValue(s.OpenEnd, s.timeField(s.Columns.ValidTo))
	if err != nil {
		return v, fmt.Errorf("%w: open end %q: %w", ErrSettings, s.OpenEnd, err)
	}
	return v, nil
}

// own are the columns that the table has beside those of the source.
func (s *settings) own() []schema.Field {
	fields := []schema.Field{
		s.timeField(s.Columns.ValidFrom), s.timeField(s.Columns.ValidTo),
		{Name: s.Columns.IsCurrent, Type: schema.Of(schema.Boolean), Nullable: true},
	}
	if n := s.Columns.RowHash; n != "" {
		fields = append(fields, schema.Field{Name: n, Type: schema.Of(schema.StringType), Nullable: true})
	}
	if n := s.Columns.LoadTime; n != "" {
		fields = append(fields, schema.Field{Name: n, Type: schema.Of(schema.Timestamp), Nullable: true})
	}
	return fields
}

// boundary is the cell at which a label begins.
func (s *settings) boundary(c *snapshotter.Calendar, l snapshotter.Label) schema.Value {
	if s.Date {
		return schema.IntValue(c.Date(l).Unix() / 86400)
	}
	return schema.IntValue(c.Start(l))
}

// moment is a time in the label: the one by which the table is filtered for its rows.
func (s *settings) moment(c *snapshotter.Calendar, l snapshotter.Label) schema.Value {
	if s.Date {
		return s.boundary(c, l)
	}
	return schema.IntValue(c.End(l) - 1)
}

// check compares what a run asks for with what the table is. "" and zero values ask for
// nothing.
func (s *settings) check(o *Options) error {
	for _, c := range []struct{ what, asked, is string }{
		{"first label", o.From, s.From}, {"granularity", o.Granularity, s.Granularity}, {"open end", o.OpenEnd, s.OpenEnd},
		{"column of valid_from", o.Columns.ValidFrom, s.Columns.ValidFrom}, {"column of valid_to", o.Columns.ValidTo, s.Columns.ValidTo},
		{"column of is_current", o.Columns.IsCurrent, s.Columns.IsCurrent}, {"row hash", o.Columns.RowHash, s.Columns.RowHash},
		{"load time column", o.Columns.LoadTime, s.Columns.LoadTime},
	} {
		if c.asked != "" && c.asked != c.is {
			return fmt.Errorf("%w: its %s is %q, not %q; leave the flag out, or build another table", ErrSettings, c.what, c.is, c.asked)
		}
	}
	return nil
}
