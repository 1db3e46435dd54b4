package delta_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/deltalog"
	"github.com/gscd-io/gscd/delta/objstore/mem"
)

// openWith opens a table whose first commit has a protocol and a schema.
func openWith(t *testing.T, protocol, fields, properties string) (*delta.Snapshot, error) {
	t.Helper()
	store := mem.New()
	schemaString := strings.ReplaceAll(`{"type":"struct","fields":[`+fields+`]}`, `"`, `\"`)
	commit := `{"protocol":` + protocol + "}\n" +
		`{"metaData":{"id":"x","format":{"provider":"parquet","options":{}},"schemaString":"` + schemaString + `","partitionColumns":[],"configuration":{` + properties + `}}}`
	if err := store.Put(ctx, deltalog.CommitKey(0), []byte(commit)); err != nil {
		t.Fatal(err)
	}
	return delta.New(store).Snapshot(ctx)
}

func TestTypeChangesAreKnownOrRefused(t *testing.T) {
	const widening = `{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["typeWidening"],"writerFeatures":["typeWidening"]}`
	for change, ok := range map[[2]string]bool{
		{"byte", "short"}: true, {"byte", "long"}: true, {"short", "integer"}: true, {"integer", "long"}: true, {"long", "integer"}: false,
		{"float", "double"}: true, {"double", "float"}: false, {"integer", "double"}: true, {"long", "double"}: false, {"byte", "double"}: true,
		{"integer", "decimal(10,0)"}: true, {"integer", "decimal(11,1)"}: true, {"integer", "decimal(10,1)"}: false, {"long", "decimal(20,0)"}: true, {"long", "decimal(19,0)"}: false,
		{"decimal(5,2)", "decimal(10,4)"}: true, {"decimal(5,2)", "decimal(6,4)"}: false, {"decimal(5,2)", "decimal(5,1)"}: false,
		{"date", "timestamp_ntz"}: true, {"date", "timestamp"}: false, {"string", "binary"}: false, {"integer", "string"}: false, {"hologram", "long"}: false,
	} {
		field := fmt.Sprintf(`{"name":"a","type":"string","nullable":true,"metadata":{"delta.typeChanges":[{"fromType":%q,"toType":%q}]}}`, change[0], change[1])
		for where, f := range map[string]string{
			"a column": field,
			"a part":   `{"name":"s","type":{"type":"array","elementType":{"type":"struct","fields":[` + field + `]},"containsNull":true},"nullable":true,"metadata":{}}`,
		} {
			_, err := openWith(t, widening, f, "")
			var unsupported *delta.UnsupportedFeatureError
			if ok && err != nil || !ok && (!errors.As(err, &unsupported) || unsupported.Feature != "typeWidening" || !strings.Contains(err.Error(), change[0])) {
				t.Errorf("%v of %s: %v", change, where, err)
			}
		}
	}
	if _, err := openWith(t, widening, `{"name":"a","type":"long","nullable":true,"metadata":{"delta.typeChanges":7}}`, ""); !errors.Is(err, delta.ErrCorrupt) {
		t.Errorf("changes that are none: %v", err)
	}
}

func TestColumnMappingIsInForceByProtocolAndProperty(t *testing.T) {
	const field = `{"name":"a","type":"long","nullable":true,"metadata":{"delta.columnMapping.id":5,"delta.columnMapping.physicalName":"col-1"}}`
	const listed = `{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["columnMapping"],"writerFeatures":["columnMapping"]}`
	for _, c := range []struct {
		protocol, mode, name string
		id                   int32
	}{
		{`{"minReaderVersion":2,"minWriterVersion":5}`, "name", "col-1", 0},
		{`{"minReaderVersion":2,"minWriterVersion":5}`, "id", "col-1", 5},
		{listed, "name", "col-1", 0},
		{listed, "id", "col-1", 5},
		{listed, "none", "a", 0},
		{`{"minReaderVersion":1,"minWriterVersion":2}`, "name", "a", 0},
		{`{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":[],"writerFeatures":[]}`, "id", "a", 0},
	} {
		s, err := openWith(t, c.protocol, field, `"delta.columnMapping.mode":"`+c.mode+`"`)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if f := s.Schema().Fields[0]; f.Stored() != c.name || f.FieldID != c.id || f.Name != "a" {
			t.Errorf("%+v: %+v", c, f)
		}
	}
	if _, err := openWith(t, listed, field, `"delta.columnMapping.mode":"colour"`); !errors.Is(err, delta.ErrUnsupportedFeature) || !strings.Contains(err.Error(), "colour") {
		t.Errorf("an unknown mode: %v", err)
	}
	if _, err := openWith(t, listed, `{"name":"a","type":"long","nullable":true,"metadata":{}}`, `"delta.columnMapping.mode":"id"`); !errors.Is(err, delta.ErrCorrupt) {
		t.Errorf("no ids: %v", err)
	}
}

// A feature of readers that is not known is refused by name; one of writers lets
// reading go on, and writing is refused by name.
func TestUnknownFeatures(t *testing.T) {
	const field = `{"name":"a","type":"long","nullable":true,"metadata":{}}`
	_, err := openWith(t, `{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["hologram"],"writerFeatures":["hologram"]}`, field, "")
	var unsupported *delta.UnsupportedFeatureError
	if !errors.As(err, &unsupported) || unsupported.Feature != "hologram" || !unsupported.Reading {
		t.Errorf("%v", err)
	}
	for _, feature := range []string{"hologram", "icebergCompatV1", "icebergCompatV2", "icebergCompatV3", "rowTracking", "clustering", "collations", "checkpointProtection", "materializePartitionColumns"} {
		s, err := openWith(t, `{"minReaderVersion":1,"minWriterVersion":7,"writerFeatures":["`+feature+`"]}`, field, "")
		if err != nil {
			t.Errorf("%s: %v", feature, err)
			continue
		}
		store := mem.New()
		x := delta.NewTransaction(delta.New(store), s)
		x.Add(add("1"))
		if _, err := x.Commit(ctx); !errors.As(err, &unsupported) || unsupported.Feature != feature || unsupported.Reading {
			t.Errorf("%s: written: %v", feature, err)
		}
	}
	for _, kind := range []string{"void", "variant"} {
		s, err := openWith(t, `{"minReaderVersion":1,"minWriterVersion":2}`, strings.Replace(field, "long", kind, 1), "")
		if err != nil {
			t.Fatal(err)
		}
		x := delta.NewTransaction(delta.New(mem.New()), s)
		x.Add(add("1"))
		if _, err := x.Commit(ctx); !errors.Is(err, delta.ErrUnsupportedFeature) || !strings.Contains(err.Error(), `column "a" is `+kind) {
			t.Errorf("%s: written: %v", kind, err)
		}
	}
}
