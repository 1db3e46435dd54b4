package decode

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/ingest/change"
)

// Decoder reads the records of one change format. It is not safe for
// concurrent use: one per goroutine.
type Decoder interface {
	// Decode fills out with what the record says; its cells live in the arena
	// or in the record's bytes. The error is an *Error, or a *SchemaError where
	// the record must wait for its schema, and out is then empty but for Op, which
	// may be set. A Filtered change has nothing but its Op, and its ProcessingTime
	// where it is a heartbeat in Avro.
	//
	// Of a record of several rows it reads the one that rec.Row names.
	Decode(rec *change.Record, arena *change.Arena, out *change.Change) error
	// Rows gives how many rows the record holds: 1 where the format knows no
	// more, or where it can't be read.
	Rows(rec *change.Record) int
	// Alone gives a record that says what row rec.Row of rec says and nothing
	// else, to be kept by itself; rec where it has one row. It has the same Row.
	Alone(rec *change.Record) *change.Record
	// Format is the format's name, empty while "auto" has not decided.
	Format() string
}

// DefaultUnavailable is Debezium's default of unavailable.value.placeholder.
const DefaultUnavailable = "__debezium_unavailable_value"

// Options is what the configuration says about a table's records. It is not
// changed by the decoders made of it.
type Options struct {
	// Source is the one table to take, "db.table", or a pattern of tables (see
	// CheckSource); all others are Filtered. Empty takes all.
	Source string
	// Columns gives types by column name, without regard to case. They go
	// before what the records' own schema says.
	Columns  map[string]ColumnSpec
	Debezium Debezium
	Canal    Canal
	DMS      DMS
	OGG      OGG
	Avro     Avro
	// Schemas is the registry of Avro records' schemas; nil: they can't be read.
	Schemas Schemas
	// EventTime is "source" (default), "kafka" (the record's timestamp) or
	// "column:NAME". A column's integer of unknown type is milliseconds, a
	// timestamp_ntz is taken as UTC; NULL or no such column is no time.
	EventTime string
	// Tombstones is "ignore" or "delete": then one needs a readable key. The Change is
	// a Tombstone with its Key either way. Empty means that nothing was said: "ignore",
	// but a format that needs a choice gives ErrTombstones.
	Tombstones string
	// UnavailableValue marks a cell that the source did not send; "" is
	// DefaultUnavailable. Its base64 form counts too.
	UnavailableValue string
	// History, where set, gives the types of Debezium's records without schemas.
	History *SchemaHistory
	// KeyColumns, where known, limits Before to these columns; cells of others
	// are then not looked at. Names without regard to case.
	KeyColumns []string
	// Room is how many cells the taker of a change wants behind those of After, so that
	// it need not copy them. Not all formats leave it.
	Room int

	columns    map[string]codec // Columns by lower-case name, hints applied
	pattern    bool             // Source is one
	timeColumn string           // of EventTime "column:NAME"
}

// Debezium says how the connector was set where records carry no schema;
// nothing is guessed from a value.
type Debezium struct {
	// Decimals is "base64" where decimal.handling.mode is precise, "text" where
	// strings of a decimal column are digits. Empty is base64 with History, else text.
	Decimals string
	// Unsigned is "long" where negative integers of a decimal(20,0) column have
	// wrapped around; "bigint unsigned" says the same of one column.
	Unsigned string
	// Binary is "base64" or empty, which is the same.
	Binary string
}

// Canal says how Canal was set up.
type Canal struct {
	// Timezone is the zone of its process, in which it writes TIMESTAMP columns;
	// nil: not known, and their cells are errors.
	Timezone *time.Location
}

// oneOf is a setting and the words that it takes.
func oneOf(name, value string, words ...string) error {
	if slices.Contains(words, value) {
		return nil
	}
	return fmt.Errorf("decode options: %s is %q, set one of %q", name, value, words)
}

// checked fills the defaults and checks the rest.
func (o Options) checked() (*Options, error) {
	if name, ok := strings.CutPrefix(o.EventTime, "column:"); ok && name != "" {
		o.timeColumn = name
	} else if err := oneOf("event time", o.EventTime, "", "source", "kafka"); err != nil {
		return nil, fmt.Errorf("%w or column:NAME", err)
	}
	for _, err := range []error{
		oneOf("tombstones", o.Tombstones, "", "ignore", "delete"),
		oneOf("debezium decimals", o.Debezium.Decimals, "", "base64", "text"),
		oneOf("debezium unsigned", o.Debezium.Unsigned, "", "long"),
		oneOf("aws_dms key_changes", o.DMS.KeyChanges, "", "none"),
		oneOf("debezium binary", o.Debezium.Binary, "", "base64"),
		oneOf("avro frame", o.Avro.Frame, "", FrameAuto, FrameConfluent, FrameApicurio, FrameHeaders),
		oneOf("avro id", o.Avro.ID, "", "content", "global"),
	} {
		if err != nil {
			return nil, err
		}
	}
	if o.History != nil && o.Tombstones == "delete" && o.Source == "" {
		return nil, errors.New("decode options: a tombstone does not say of which table it is: with a schema topic and tombstones \"delete\" set the source, database.table")
	}
	if o.Source != "" {
		var err error
		if o.pattern, err = CheckSource(o.Source); err != nil {
			return nil, fmt.Errorf("decode options: %w", err)
		}
		if o.pattern && o.History != nil && o.Tombstones == "delete" {
			return nil, errors.New("decode options: a tombstone does not say of which table it is: with a schema topic and tombstones \"delete\" the source must be one table")
		}
	}
	if o.UnavailableValue == "" {
		o.UnavailableValue = DefaultUnavailable
	}
	o.columns = make(map[string]codec, len(o.Columns))
	for name, spec := range o.Columns {
		if spec.Type.Primitive == schema.Unknown {
			return nil, fmt.Errorf("decode options: column %q has no type", name)
		}
		o.columns[strings.ToLower(name)] = spec.codec.hinted(o.Debezium)
	}
	return &o, nil
}

// writtenAs gives the options of a format that writes some types in its own way.
func (o *Options) writtenAs(own func(ColumnSpec, codec) codec) *Options {
	out := *o
	out.columns = make(map[string]codec, len(o.columns))
	for name, spec := range o.Columns {
		name = strings.ToLower(name)
		out.columns[name] = own(spec, o.columns[name])
	}
	return &out
}

func (o *Options) cells() cells {
	return cells{room: o.Room, placeholder: o.UnavailableValue, placeholder64: base64.StdEncoding.EncodeToString([]byte(o.UnavailableValue))}
}

// recognition is what a format says of a record under "auto".
type recognition uint8

const (
	// foreign: not a record of the format.
	foreign recognition = iota
	// neutral: such a record, but of a kind that proves nothing (a tombstone, a heartbeat).
	neutral
	// own: a change in this format.
	own
)

// recogniser is a Decoder that can tell whether the record it has just decoded,
// in vain or not, was one of its format.
type recogniser interface {
	Decoder
	recognised() recognition
}

// single is the part of a Decoder whose records hold one row each.
type single struct{}

func (single) Rows(*change.Record) int                 { return 1 }
func (single) Alone(rec *change.Record) *change.Record { return rec }

// maxRows bounds the rows of one record: each of them is a record of its own behind
// the decoder, and takes some hundred bytes, however short it is.
const maxRows = 1 << 18

var errManyRows = fmt.Errorf("the record has more than %d rows", maxRows)

// ManyRows reports whether a record of the format may hold several rows.
func ManyRows(format string) bool {
	return format == Binlog || format == CanalJSON || format == CanalProtobuf || format == OpenProtocol
}

// format is an entry of the registry.
type format struct {
	name string
	new  func(*Options) recogniser
}

// formats is the registry; "auto" tries in this order.
var formats = []format{
	{"debezium-json", func(o *Options) recogniser { return newDebezium(o) }},
	{DebeziumFlat, func(o *Options) recogniser { return newDebeziumFlat(o) }},
	{"maxwell", func(o *Options) recogniser { return newMaxwell(o) }},
	{CanalJSON, func(o *Options) recogniser { return newCanal(o) }},
	{GSCDJSON, func(o *Options) recogniser { return newGSCD(o) }},
	{Binlog, func(o *Options) recogniser { return newRawBinlog(o) }},
	{CanalProtobuf, func(o *Options) recogniser { return newPackets(o) }},
	{AWSDMS, func(o *Options) recogniser { return newAWSDMS(o) }},
	{OGGJSON, func(o *Options) recogniser { return newOGG(o) }},
	{OpenProtocol, func(o *Options) recogniser { return newOpenProtocol(o) }},
	// The last one, for it asks a registry about what it takes for an id.
	{DebeziumAvro, func(o *Options) recogniser { return newAvro(o) }},
}

// Auto is the format that the first record with a value decides.
const Auto = "auto"

// Formats lists the names that New takes.
func Formats() []string {
	names := []string{Auto}
	for _, f := range formats {
		names = append(names, f.name)
	}
	return names
}

// New makes a decoder of a format, or of Auto.
func New(name string, opts Options) (Decoder, error) {
	o, err := opts.checked()
	if err != nil {
		return nil, err
	}
	if o.History != nil {
		if name != Auto && name != "debezium-json" {
			return nil, fmt.Errorf("change format %q has no schema topic: only debezium-json has one", name)
		}
		name = "debezium-json"
	}
	if name == Auto {
		return &auto{opts: o}, nil
	}
	if name == DebeziumAvro && o.Schemas == nil {
		return nil, fmt.Errorf("change format %s needs a schema registry: set schema_registry.url", name)
	}
	for _, f := range formats {
		if f.name == name {
			return f.new(o), nil
		}
	}
	return nil, fmt.Errorf("change format %q is unknown, set one of %q", name, Formats())
}

var errUnproved = errors.New("any object could be one, and no member shows it")

// auto tries the formats until a record shows which one it is.
type auto struct {
	opts    *Options
	decided recogniser
	tried   []recogniser
}

func (a *auto) Format() string {
	if a.decided == nil {
		return ""
	}
	return a.decided.Format()
}

// Rows decides the format, where the record does.
func (a *auto) Rows(rec *change.Record) int {
	if a.decided == nil {
		var c change.Change
		_ = a.Decode(rec, &change.Arena{}, &c) // Decode will say it again
	}
	if a.decided == nil {
		return 1
	}
	return a.decided.Rows(rec)
}

func (a *auto) Alone(rec *change.Record) *change.Record {
	if a.Rows(rec); a.decided == nil {
		return rec
	}
	return a.decided.Alone(rec)
}

func (a *auto) Decode(rec *change.Record, arena *change.Arena, out *change.Change) error {
	if a.decided != nil {
		return a.decided.Decode(rec, arena, out)
	}
	if a.tried == nil {
		for _, f := range formats {
			a.tried = append(a.tried, f.new(a.opts))
		}
	}
	var all error
	for _, d := range a.tried {
		err := d.Decode(rec, arena, out)
		switch d.recognised() {
		case own:
			a.decided, a.tried = d, nil
			return err
		case neutral:
			return err
		}
		var wait *SchemaError
		if errors.As(err, &wait) {
			return err
		}
		if e, ok := err.(*Error); ok {
			err = e.Err
		}
		if errors.Is(err, errNoFrame) {
			continue // which says nothing about a text
		}
		if err == nil || errors.Is(err, ErrTombstones) {
			err = errUnproved // to be stopped at once it must be of the format
		}
		if err = fmt.Errorf("%s: %w", d.Format(), err); all != nil {
			err = fmt.Errorf("%w; %w", all, err)
		}
		all = err
	}
	out.Reset()
	return decodeError("no record of a known format (set format to one of %q): %w", Formats()[1:], all)
}
