package schema

import (
	"encoding/json"
	"fmt"
)

// The metadata of a field under column mapping.
const (
	metadataFileName = "delta.columnMapping.physicalName"
	metadataFieldID  = "delta.columnMapping.id"
)

// Mapped gives the schema with FileName set on every field at any depth, and,
// where byID, FieldID: column mapping of mode "name" or "id". The error wraps
// ErrSchema where a field lacks them, or shares them with another one.
func (s *Schema) Mapped(byID bool) (*Schema, error) {
	m := mapper{byID: byID, ids: map[int32]string{}}
	fields, err := m.fields(s.Fields, "")
	if err != nil {
		return nil, fmt.Errorf("%w: column mapping: %w", ErrSchema, err)
	}
	return New(fields...)
}

type mapper struct {
	byID bool
	ids  map[int32]string
}

func (m *mapper) fields(fields []Field, path string) ([]Field, error) {
	out := make([]Field, len(fields))
	names := make(map[string]bool, len(fields))
	for i, f := range fields {
		where := path + f.Name
		f.FileName = ""
		if raw, ok := f.Metadata[metadataFileName]; !ok || json.Unmarshal(raw, &f.FileName) != nil || f.FileName == "" {
			return nil, fmt.Errorf("column %q has no %s", where, metadataFileName)
		}
		if names[f.FileName] {
			return nil, fmt.Errorf("column %q has the %s %q of another one", where, metadataFileName, f.FileName)
		}
		names[f.FileName] = true
		if m.byID {
			if raw, ok := f.Metadata[metadataFieldID]; !ok || json.Unmarshal(raw, &f.FieldID) != nil || f.FieldID <= 0 {
				return nil, fmt.Errorf("column %q has no %s", where, metadataFieldID)
			}
			if other, taken := m.ids[f.FieldID]; taken {
				return nil, fmt.Errorf("columns %q and %q have one %s", other, where, metadataFieldID)
			}
			m.ids[f.FieldID] = where
		}
		var err error
		if f.Type, err = m.inside(f.Type, where); err != nil {
			return nil, err
		}
		out[i] = f
	}
	return out, nil
}

// inside maps the structs in a type.
func (m *mapper) inside(t Type, path string) (Type, error) {
	if t.Nested == nil {
		return t, nil
	}
	n := *t.Nested
	var err error
	if n.Fields, err = m.fields(n.Fields, path+"."); err != nil {
		return t, err
	}
	if n.Key, err = m.inside(n.Key, path+".key"); err != nil {
		return t, err
	}
	n.Element, err = m.inside(n.Element, path+".element")
	t.Nested = &n
	return t, err
}

// MappedID gives the id that the metadata gives the field under column mapping, 0
// where it has none.
func (f *Field) MappedID() (id int32) {
	if raw, ok := f.Metadata[metadataFieldID]; !ok || json.Unmarshal(raw, &id) != nil {
		return 0
	}
	return id
}
