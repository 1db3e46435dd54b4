package decode

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
)

// An avroKind is a type of Avro's binary encoding.
type avroKind uint8

const (
	avroNull avroKind = iota
	avroBoolean
	avroInt
	avroLong
	avroFloat
	avroDouble
	avroBytes
	avroString
	avroFixed
	avroEnum
	avroArray
	avroMap
	avroUnion
	avroRecord
)

var avroNames = [...]string{"null", "boolean", "int", "long", "float", "double", "bytes", "string", "fixed", "enum", "array", "map", "union", "record"}

func (k avroKind) String() string { return avroNames[k] }

// avroType is a type of a writer's schema. One that has a name is shared by all
// that refer to it, also from inside of it.
type avroType struct {
	kind     avroKind
	name     string      // with its namespace; of record, enum and fixed
	fields   []avroField // of a record
	symbols  []string    // of an enum
	item     *avroType   // of an array's items or a map's values
	branches []*avroType // of a union
	size     int         // of a fixed
	// connect is what the converter noted of the Connect schema: its type and name;
	// Avro's own logical types are put in these words too.
	connect connectField
	// logical is Avro's logical type where Connect has none that means the same.
	logical string
	// entry tells a record that stands for an entry of a map whose keys are no strings.
	entry bool
}

type avroField struct {
	name string
	typ  *avroType
}

// nullable gives the one branch of a union beside null, and the union's index of
// null; or the type itself, and -1.
func (t *avroType) nullable() (inner *avroType, null int) {
	if t.kind != avroUnion || len(t.branches) != 2 {
		return t, -1
	}
	for i, b := range t.branches {
		if b.kind == avroNull {
			return t.branches[1-i], i
		}
	}
	return t, -1
}

// avroParser reads schemas; those read before are known by their names.
type avroParser struct {
	named map[string]*avroType
}

// parseAvro reads a schema behind those that it refers to.
func parseAvro(texts []string) (t *avroType, err error) {
	p := avroParser{named: map[string]*avroType{}}
	for _, text := range texts {
		var v any
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			return nil, fmt.Errorf("the schema is no JSON: %w", err)
		}
		if t, err = p.parse(v, ""); err != nil {
			return nil, fmt.Errorf("the schema: %w", err)
		}
	}
	if t == nil {
		return nil, errors.New("the schema is empty")
	}
	return t, nil
}

var errUnionInUnion = errors.New("a union directly inside a union")

func (p *avroParser) parse(v any, space string) (*avroType, error) {
	switch v := v.(type) {
	case string:
		return p.byName(v, space)
	case []any:
		t := &avroType{kind: avroUnion}
		for _, b := range v {
			branch, err := p.parse(b, space)
			if err != nil {
				return nil, err
			}
			if branch.kind == avroUnion {
				return nil, errUnionInUnion
			}
			t.branches = append(t.branches, branch)
		}
		if len(t.branches) == 0 {
			return nil, errors.New("an empty union")
		}
		return t, nil
	case map[string]any:
		return p.object(v, space)
	}
	return nil, fmt.Errorf("%.40v is no type", v)
}

func (p *avroParser) byName(name, space string) (*avroType, error) {
	if k := primitiveKind(name); k >= 0 {
		return &avroType{kind: avroKind(k)}, nil
	}
	if t := p.named[fullName(name, space)]; t != nil {
		return t, nil
	}
	if t := p.named[name]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("the type %.80q is not defined", name)
}

// primitiveKind gives the kind of a primitive type's name, -1 for any other.
func primitiveKind(name string) int {
	for k := avroNull; k <= avroString; k++ {
		if avroNames[k] == name {
			return int(k)
		}
	}
	return -1
}

func fullName(name, space string) string {
	if space == "" || strings.Contains(name, ".") {
		return name
	}
	return space + "." + name
}

// object reads a type with attributes.
func (p *avroParser) object(o map[string]any, space string) (*avroType, error) {
	name, ok := o["type"].(string)
	if !ok {
		return p.parse(o["type"], space) // {"type": {…}}: attributes belong to the inner one
	}
	t := &avroType{}
	switch name {
	case "record", "error":
		t.kind = avroRecord
	case "enum":
		t.kind = avroEnum
	case "fixed":
		t.kind = avroFixed
	case "array":
		t.kind = avroArray
	case "map":
		t.kind = avroMap
	default:
		k := primitiveKind(name)
		if k < 0 {
			return p.byName(name, space)
		}
		t.kind = avroKind(k)
	}
	var err error
	switch t.kind {
	case avroRecord, avroEnum, avroFixed:
		if space, err = p.define(t, o, space); err != nil {
			return nil, err
		}
	}
	switch t.kind {
	case avroRecord:
		err = p.fields(t, o["fields"], space)
	case avroEnum:
		err = t.setSymbols(o["symbols"])
	case avroFixed:
		size, ok := o["size"].(float64)
		if !ok || size < 0 || size > math.MaxInt32 || size != math.Trunc(size) {
			return nil, fmt.Errorf("fixed %s has no size", t.name)
		}
		t.size = int(size)
	case avroArray:
		t.item, err = p.parse(o["items"], space)
	case avroMap:
		t.item, err = p.parse(o["values"], space)
	}
	if err != nil {
		return nil, err
	}
	t.noteConnect(o)
	return t, nil
}

// define gives a type its name, under which others refer to it; the namespace is
// that of what is inside it.
func (p *avroParser) define(t *avroType, o map[string]any, space string) (string, error) {
	name, _ := o["name"].(string)
	if name == "" {
		return "", fmt.Errorf("a %s without name", t.kind)
	}
	if own, ok := o["namespace"].(string); ok {
		space = own
	}
	t.name = fullName(name, space)
	if p.named[t.name] != nil {
		return "", fmt.Errorf("the type %s is defined twice", t.name)
	}
	p.named[t.name] = t
	if dot := strings.LastIndexByte(t.name, '.'); dot >= 0 {
		space = t.name[:dot]
	}
	return space, nil
}

func (p *avroParser) fields(t *avroType, v any, space string) error {
	list, ok := v.([]any)
	if !ok {
		return fmt.Errorf("record %s has no fields", t.name)
	}
	for _, v := range list {
		o, _ := v.(map[string]any)
		name, _ := o["name"].(string)
		if name == "" {
			return fmt.Errorf("record %s has a field without name", t.name)
		}
		typ, err := p.parse(o["type"], space)
		if err != nil {
			return fmt.Errorf("%s.%s: %w", t.name, name, err)
		}
		t.fields = append(t.fields, avroField{name, typ})
	}
	return nil
}

func (t *avroType) setSymbols(v any) error {
	list, _ := v.([]any)
	for _, v := range list {
		s, ok := v.(string)
		if !ok {
			return fmt.Errorf("enum %s has a symbol that is no text", t.name)
		}
		t.symbols = append(t.symbols, s)
	}
	return nil
}

// connectTypes are the Connect types of Avro's kinds, where nothing says more.
var connectTypes = [...]string{
	avroBoolean: "boolean", avroInt: "int32", avroLong: "int64", avroFloat: "float32", avroDouble: "float64", avroBytes: "bytes",
	avroString: "string", avroFixed: "bytes", avroEnum: "string", avroArray: "array", avroMap: "map", avroUnion: "", avroRecord: "struct",
}

// noteConnect reads what AvroConverter notes of the Connect schema; without it,
// Avro's own logical type.
func (t *avroType) noteConnect(o map[string]any) {
	c := &t.connect
	c.Type, _ = o["connect.type"].(string)
	c.Name, _ = o["connect.name"].(string)
	if parameters, ok := o["connect.parameters"].(map[string]any); ok {
		c.Parameters = make(map[string]json.RawMessage, len(parameters))
		for name, v := range parameters {
			if s, ok := v.(string); ok {
				c.Parameters[name] = json.RawMessage(s)
			}
		}
	}
	t.entry = (o["connect.internal.type"] == "MapEntry" || t.name == "io.confluent.connect.avro.MapEntry") && len(t.fields) == 2
	logical, _ := o["logicalType"].(string)
	if c.Name != "" {
		return
	}
	switch logical {
	case "decimal":
		c.Name = "org.apache.kafka.connect.data.Decimal"
		c.Parameters = map[string]json.RawMessage{}
		for name, parameter := range map[string]string{"scale": "scale", "precision": "connect.decimal.precision"} {
			if n, ok := o[name].(float64); ok {
				c.Parameters[parameter] = json.RawMessage(fmt.Sprint(int64(n)))
			}
		}
	case "date":
		c.Name = "io.debezium.time.Date"
	case "time-millis":
		c.Name = "io.debezium.time.Time"
	case "time-micros":
		c.Name = "io.debezium.time.MicroTime"
	case "local-timestamp-millis":
		c.Name = "io.debezium.time.Timestamp"
	case "local-timestamp-micros":
		c.Name = "io.debezium.time.MicroTimestamp"
	case "local-timestamp-nanos":
		c.Name = "io.debezium.time.NanoTimestamp"
	case "timestamp-millis", "timestamp-micros", "timestamp-nanos":
		t.logical = logical
	}
}

// codec gives the encoding of a column of this type.
func (t *avroType) codec(column string) (codec, error) {
	inner, _ := t.nullable()
	switch {
	case inner.kind == avroUnion:
		return codec{}, nil // of several types: each cell has its own
	case inner.kind == avroNull:
		return codec{}, nil
	}
	f := inner.connect
	f.Field = column
	if f.Type == "" || !connectNarrows(inner.kind, f.Type) {
		f.Type = connectTypes[inner.kind]
	}
	if f.Type == "array" || f.Type == "map" || inner.kind == avroEnum {
		f.Name = "" // no type of such a kind has a meaning of its own
	}
	c, err := f.codec()
	if u, ok := instants[inner.logical]; ok && c.enc == encInt {
		c = codec{enc: encTime, typ: schema.Of(schema.Timestamp), unit: u}
	}
	return c, err
}

// instants are Avro's times in UTC, for which Connect has no type.
var instants = map[string]unit{"timestamp-millis": millis, "timestamp-micros": micros, "timestamp-nanos": nanos}

// connectNarrows reports whether a Connect type is one that the kind stands for too.
func connectNarrows(k avroKind, connect string) bool {
	return k == avroInt && (connect == "int8" || connect == "int16")
}
