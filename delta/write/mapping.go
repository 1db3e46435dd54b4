package write

import (
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/schema"
)

// mappedSchema gives the columns of a table with their names in files.
func mappedSchema(m *action.Metadata) (*schema.Schema, error) {
	s, err := schema.Parse(m.SchemaString)
	if err != nil {
		return nil, err
	}
	switch m.Configuration[delta.PropertyColumnMapping] {
	case "name":
		return s.Mapped(false)
	case "id":
		return s.Mapped(true)
	}
	return s, nil
}

// maxColumnID gives the highest id that a column of the table has, or had.
func maxColumnID(m *action.Metadata) int32 {
	n, err := strconv.ParseInt(m.Configuration[delta.PropertyMaxColumnID], 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

// oddCharacters can't be in the name of a column of a file.
const oddCharacters = " ,;{}()\n\t="

// assignIDs gives fields that lack them an id and a name in files, at any depth: a new
// name where fresh, or where the one that they have can't be; else that one, which is
// what DuckDB looks for in partition values (duckdb-delta #343).
func assignIDs(fields []schema.Field, maxID *int32, fresh bool) []schema.Field {
	out := make([]schema.Field, len(fields))
	for i, f := range fields {
		if _, ok := f.Metadata[metadataFieldID]; !ok {
			*maxID++
			name := f.Name
			if fresh || strings.ContainsAny(name, oddCharacters) {
				name = "col-" + uuid.NewString()
			}
			f.Metadata = withMetadata(f.Metadata, metadataFieldID, *maxID)
			f.Metadata = withMetadata(f.Metadata, metadataFileName, name)
			f.FileName = name
		}
		f.Type = assignInside(f.Type, maxID, fresh)
		out[i] = f
	}
	return out
}

func assignInside(t schema.Type, maxID *int32, fresh bool) schema.Type {
	if t.Nested == nil {
		return t
	}
	n := *t.Nested
	n.Fields = assignIDs(n.Fields, maxID, fresh)
	n.Key = assignInside(n.Key, maxID, fresh)
	n.Element = assignInside(n.Element, maxID, fresh)
	t.Nested = &n
	return t
}

// bare gives fields without what another table has said of them: ids, names in files,
// widened types and numbers that were given.
func bare(fields []schema.Field) []schema.Field {
	out := make([]schema.Field, len(fields))
	for i, f := range fields {
		f.FileName, f.FieldID = "", 0
		if f.Metadata != nil {
			f.Metadata = maps.Clone(f.Metadata)
			for _, key := range []string{metadataFieldID, metadataFileName, delta.MetadataTypeChanges, metadataIdentityMark} {
				delete(f.Metadata, key)
			}
		}
		f.Type = bareInside(f.Type)
		out[i] = f
	}
	return out
}

func bareInside(t schema.Type) schema.Type {
	if t.Nested == nil {
		return t
	}
	n := *t.Nested
	n.Fields, n.Key, n.Element = bare(n.Fields), bareInside(n.Key), bareInside(n.Element)
	t.Nested = &n
	return t
}

// withMetadata gives metadata of a field with one key more, leaving the old one alone.
func withMetadata(m map[string]json.RawMessage, key string, value any) map[string]json.RawMessage {
	out := make(map[string]json.RawMessage, len(m)+1)
	maps.Copy(out, m)
	raw, err := json.Marshal(value)
	if err != nil {
		return out // texts and numbers can't fail
	}
	out[key] = raw
	return out
}
