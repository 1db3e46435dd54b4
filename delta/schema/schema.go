package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ErrSchema is wrapped by errors about schema strings that can't be read.
var ErrSchema = errors.New("not a Delta schema")

// Field is a column, or a field of a struct.
type Field struct {
	Name     string
	Type     Type
	Nullable bool
	// Metadata is the field's metadata as in the schema string; keys gscd does not know are kept.
	Metadata map[string]json.RawMessage
	// FileName is the name of the column in files, statistics and partition
	// values, and FieldID the id by which data files have it, where column mapping
	// makes them other than Name. Parse leaves them empty: whether the metadata is
	// in force is for the table's protocol to say (Mapped).
	FileName string
	FieldID  int32
}

// Stored gives the name of the column in files, statistics and partition values.
func (f *Field) Stored() string {
	if f.FileName != "" {
		return f.FileName
	}
	return f.Name
}

// Schema is the columns of a table in order.
type Schema struct {
	Fields []Field
	index  map[string]int
}

// New makes a schema. Names must differ when compared without regard to case
// (Delta protocol, "Schema Serialization Format").
func New(fields ...Field) (*Schema, error) {
	s := &Schema{Fields: fields, index: make(map[string]int, len(fields))}
	for i, f := range fields {
		lower := strings.ToLower(f.Name)
		if j, dup := s.index[lower]; dup {
			return nil, fmt.Errorf("%w: columns %q and %q have one name", ErrSchema, fields[j].Name, f.Name)
		}
		s.index[lower] = i
	}
	return s, nil
}

// Index gives the place of a column by its exact name, -1 where there is none.
func (s *Schema) Index(name string) int {
	if i, ok := s.index[strings.ToLower(name)]; ok && s.Fields[i].Name == name {
		return i
	}
	return -1
}

// IndexFold is Index without regard to case.
func (s *Schema) IndexFold(name string) int {
	if i, ok := s.index[strings.ToLower(name)]; ok {
		return i
	}
	return -1
}

// Names gives the column names in order.
func (s *Schema) Names() []string {
	names := make([]string, len(s.Fields))
	for i, f := range s.Fields {
		names[i] = f.Name
	}
	return names
}

// jsonField and jsonType mirror the protocol's JSON.
type jsonField struct {
	Name     string                     `json:"name"`
	Type     json.RawMessage            `json:"type"`
	Nullable bool                       `json:"nullable"`
	Metadata map[string]json.RawMessage `json:"metadata"`
}

type jsonNested struct {
	Type              string          `json:"type"`
	Fields            []jsonField     `json:"fields,omitempty"`
	ElementType       json.RawMessage `json:"elementType,omitempty"`
	ContainsNull      *bool           `json:"containsNull,omitempty"`
	KeyType           json.RawMessage `json:"keyType,omitempty"`
	ValueType         json.RawMessage `json:"valueType,omitempty"`
	ValueContainsNull *bool           `json:"valueContainsNull,omitempty"`
}

// maxDepth bounds the nesting of a schema string.
const maxDepth = 64

// Parse reads metaData.schemaString. The error wraps ErrSchema.
func Parse(schemaString string) (*Schema, error) {
	t, err := parseType(json.RawMessage(schemaString), 0)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSchema, err)
	}
	if t.Primitive != Struct {
		return nil, fmt.Errorf("%w: the root is a %s, not a struct", ErrSchema, t)
	}
	return New(t.Nested.Fields...)
}

func parseType(raw json.RawMessage, depth int) (Type, error) {
	if depth > maxDepth {
		return Type{}, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	var name string
	if json.Unmarshal(raw, &name) == nil {
		return ParsePrimitive(name)
	}
	var n jsonNested
	if err := json.Unmarshal(raw, &n); err != nil {
		return Type{}, err
	}
	switch n.Type {
	case "struct":
		nested := &Nested{Fields: make([]Field, 0, len(n.Fields))}
		for _, f := range n.Fields {
			t, err := parseType(f.Type, depth+1)
			if err != nil {
				return Type{}, fmt.Errorf("column %q: %w", f.Name, err)
			}
			nested.Fields = append(nested.Fields, Field{Name: f.Name, Type: t, Nullable: f.Nullable, Metadata: f.Metadata})
		}
		return Type{Primitive: Struct, Nested: nested}, nil
	case "array":
		e, err := parseType(n.ElementType, depth+1)
		return Type{Primitive: Array, Nested: &Nested{Element: e, ContainsNull: isTrue(n.ContainsNull)}}, err
	case "map":
		k, err := parseType(n.KeyType, depth+1)
		if err != nil {
			return Type{}, err
		}
		v, err := parseType(n.ValueType, depth+1)
		return Type{Primitive: Map, Nested: &Nested{Key: k, Element: v, ContainsNull: isTrue(n.ValueContainsNull)}}, err
	}
	return Type{}, fmt.Errorf("%w: %q", ErrType, n.Type)
}

func isTrue(b *bool) bool { return b != nil && *b }

// String gives the schema as metaData.schemaString.
func (s *Schema) String() string {
	raw, err := json.Marshal(encodeType(Type{Primitive: Struct, Nested: &Nested{Fields: s.Fields}}))
	if err != nil {
		panic("schema: " + err.Error()) // only strings, booleans and kept raw JSON
	}
	return string(raw)
}

func encodeType(t Type) any {
	switch t.Primitive {
	case Struct:
		fields := make([]jsonField, 0, len(t.Nested.Fields))
		for _, f := range t.Nested.Fields {
			raw, err := json.Marshal(encodeType(f.Type))
			if err != nil {
				panic("schema: " + err.Error())
			}
			metadata := f.Metadata
			if metadata == nil {
				metadata = map[string]json.RawMessage{}
			}
			fields = append(fields, jsonField{f.Name, raw, f.Nullable, metadata})
		}
		return map[string]any{"type": "struct", "fields": fields}
	case Array:
		return map[string]any{"type": "array", "elementType": encodeType(t.Nested.Element), "containsNull": t.Nested.ContainsNull}
	case Map:
		return map[string]any{"type": "map", "keyType": encodeType(t.Nested.Key), "valueType": encodeType(t.Nested.Element), "valueContainsNull": t.Nested.ContainsNull}
	}
	return t.String()
}
