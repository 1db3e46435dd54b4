package delta_test

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
)

func TestProtocolFor(t *testing.T) {
	protocol := func(reader, writer int32, readerFeatures, writerFeatures []string) action.Protocol {
		return action.Protocol{MinReaderVersion: reader, MinWriterVersion: writer, ReaderFeatures: readerFeatures, WriterFeatures: writerFeatures}
	}
	for _, c := range []struct {
		features []string
		want     action.Protocol
	}{
		{nil, protocol(1, 2, nil, nil)},
		{[]string{"appendOnly"}, protocol(1, 2, nil, nil)},
		{[]string{"changeDataFeed"}, protocol(1, 4, nil, nil)},
		{[]string{"deletionVectors"}, protocol(3, 7, []string{"deletionVectors"}, []string{"deletionVectors", "appendOnly", "invariants"})},
		{[]string{"timestampNtz"}, protocol(3, 7, []string{"timestampNtz"}, []string{"timestampNtz", "appendOnly", "invariants"})},
		{[]string{"deletionVectors", "timestampNtz", "deletionVectors"}, protocol(3, 7, []string{"deletionVectors", "timestampNtz"}, []string{"deletionVectors", "timestampNtz", "appendOnly", "invariants"})},
		{[]string{"deletionVectors", "changeDataFeed"}, protocol(3, 7, []string{"deletionVectors"}, []string{"deletionVectors", "changeDataFeed", "appendOnly", "invariants"})},
		// A private writer feature leaves every reader alone.
		{[]string{"gscdSavepoints"}, protocol(1, 7, nil, []string{"gscdSavepoints", "appendOnly", "invariants"})},
		{[]string{"deletionVectors", "gscdSavepoints"}, protocol(3, 7, []string{"deletionVectors"}, []string{"deletionVectors", "gscdSavepoints", "appendOnly", "invariants"})},
	} {
		if got := delta.ProtocolFor(c.features...); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v: %+v, want %+v", c.features, got, c.want)
		}
	}
}

// What a feature of writers alone has brought goes with it, and nothing else does.
func TestWithoutFeature(t *testing.T) {
	const own = "private"
	for _, p := range []action.Protocol{
		delta.ProtocolFor(), delta.ProtocolFor("changeDataFeed"), delta.ProtocolFor("deletionVectors"), delta.ProtocolFor("domainMetadata"),
		{MinReaderVersion: 1, MinWriterVersion: 3}, {MinReaderVersion: 2, MinWriterVersion: 5}, {MinReaderVersion: 1, MinWriterVersion: 6},
	} {
		with := delta.WithFeatures(p, own)
		if with.MinReaderVersion != p.MinReaderVersion || with.MinWriterVersion != 7 || !slices.Contains(with.WriterFeatures, own) || slices.Contains(with.ReaderFeatures, own) {
			t.Errorf("%+v with it is %+v", p, with)
		}
		if back := delta.WithoutFeature(with, own); !reflect.DeepEqual(back, p) {
			t.Errorf("%+v with and without it is %+v", p, back)
		}
		if other := delta.WithoutFeature(p, own); !reflect.DeepEqual(other, p) {
			t.Errorf("%+v without what it has not is %+v", p, other)
		}
	}
	if p := delta.WithoutFeature(delta.ProtocolFor("deletionVectors"), "deletionVectors"); !slices.Contains(p.WriterFeatures, "deletionVectors") {
		t.Errorf("a feature that readers must know is gone: %+v", p)
	}
}

func TestWithFeaturesTakesNothingAway(t *testing.T) {
	for _, c := range []struct {
		from     action.Protocol
		features []string
		want     action.Protocol
	}{
		// Every legacy feature that (1,4) could have used is listed.
		{
			action.Protocol{MinReaderVersion: 1, MinWriterVersion: 4},
			[]string{"deletionVectors"},
			action.Protocol{
				MinReaderVersion: 3, MinWriterVersion: 7, ReaderFeatures: []string{"deletionVectors"},
				WriterFeatures: []string{"deletionVectors", "appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"},
			},
		},
		// A reader feature implied by (2,5) is listed for readers as well.
		{
			action.Protocol{MinReaderVersion: 2, MinWriterVersion: 5},
			[]string{"timestampNtz"},
			action.Protocol{
				MinReaderVersion: 3, MinWriterVersion: 7, ReaderFeatures: []string{"timestampNtz", "columnMapping"},
				WriterFeatures: []string{"timestampNtz", "appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping"},
			},
		},
		{
			action.Protocol{MinReaderVersion: 1, MinWriterVersion: 7, WriterFeatures: []string{"appendOnly"}},
			[]string{"deletionVectors"},
			action.Protocol{MinReaderVersion: 3, MinWriterVersion: 7, ReaderFeatures: []string{"deletionVectors"}, WriterFeatures: []string{"deletionVectors", "appendOnly"}},
		},
		{
			delta.ProtocolFor("deletionVectors"),
			[]string{"timestampNtz"},
			action.Protocol{
				MinReaderVersion: 3, MinWriterVersion: 7, ReaderFeatures: []string{"deletionVectors", "timestampNtz"},
				WriterFeatures: []string{"timestampNtz", "deletionVectors", "appendOnly", "invariants"},
			},
		},
		{delta.ProtocolFor("deletionVectors"), []string{"deletionVectors"}, delta.ProtocolFor("deletionVectors")},
	} {
		if got := delta.WithFeatures(c.from, c.features...); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v and %v:\n%+v, want\n%+v", c.from, c.features, got, c.want)
		}
	}
}

// TestWritersRefuseWhatTheyDoNotEnforce: a listed feature that nothing uses is
// no hindrance, a used one is.
func TestWritersRefuseWhatTheyDoNotEnforce(t *testing.T) {
	_, table, base := newTable(t, newClock())
	field := func(metadata string) string {
		return `{"type":"struct","fields":[{"name":"s","type":{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":` + metadata + `}]},"nullable":true,"metadata":{}}]}`
	}
	for _, c := range []struct {
		feature, schema, property, value string
		refused                          bool
	}{
		{feature: "invariants"},
		{feature: "invariants", schema: field(`{"delta.invariants":"x"}`), refused: true},
		{feature: "generatedColumns"},
		{feature: "generatedColumns", schema: field(`{"delta.generationExpression":"x"}`), refused: true},
		{feature: "identityColumns", schema: field(`{"delta.identity.start":1}`), refused: true},
		{feature: "allowColumnDefaults", schema: field(`{"CURRENT_DEFAULT":"1"}`), refused: true},
		{feature: "allowColumnDefaults"},
		{feature: "checkConstraints"},
		{feature: "checkConstraints", property: "delta.constraints.x", value: "id > 0", refused: true},
		{feature: "inCommitTimestamp"},
		{feature: "inCommitTimestamp", property: "delta.enableInCommitTimestamps", value: "true", refused: true},
		{feature: "domainMetadata"},
		{feature: "vacuumProtocolCheck"},
		{feature: "variantType"},
		{feature: "variantType-preview"},
		{feature: "variantShredding"},
		{feature: "rowTracking", refused: true},
		{feature: "clustering", refused: true},
		{feature: "checkpointProtection", refused: true},
		{feature: "icebergCompatV1", refused: true},
	} {
		x := delta.NewTransaction(table, base)
		x.SetProtocol(delta.WithFeatures(*base.Protocol(), c.feature))
		m := metadata("table")
		if c.schema != "" {
			m.SchemaString = c.schema
		}
		if c.property != "" {
			m.Configuration[c.property] = c.value
		}
		x.SetMetadata(m)
		x.SetTxn("a", 1)
		out, err := x.Commit(ctx)
		var unsupported *delta.UnsupportedFeatureError
		if c.refused && (!errors.As(err, &unsupported) || unsupported.Feature != c.feature || unsupported.Reading) {
			t.Errorf("%+v: %v", c, err)
		}
		if !c.refused && err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		if out.Committed {
			_, table, base = newTable(t, newClock())
		}
	}
}

func TestParseInterval(t *testing.T) {
	day := 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"interval 1 week": 7 * day, "interval 3650 days": 3650 * day, "INTERVAL 1 DAY 2 hours 3 Minutes": day + 2*time.Hour + 3*time.Minute,
		"30 days": 30 * day, "interval 0 hours": 0, "interval 5 microseconds": 5 * time.Microsecond, "interval 9999999 weeks": math.MaxInt64,
		"interval 106751 days 24 hours": math.MaxInt64,
	} {
		if got, err := delta.ParseInterval(text); err != nil || got != want {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "interval", "interval 1", "interval x days", "interval 1 month", "interval 1 year", "interval -1 days", "1 2 3"} {
		if got, err := delta.ParseInterval(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
	if p := delta.ProtectiveProperties(3650); p["delta.deletedFileRetentionDuration"] != "interval 3650 days" || p["delta.logRetentionDuration"] != "interval 3650 days" ||
		p["delta.enableExpiredLogCleanup"] != "false" || len(p) != 3 {
		t.Error(p)
	}
}

func TestVectorKey(t *testing.T) {
	for _, c := range []struct {
		storage, path, key string
		ok                 bool
		err                error
	}{
		// The example of the protocol, "Deletion Vector Descriptor Schema".
		{"u", "ab^-aqEH.-t@S}K{vb[*k^", "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin", true, nil},
		{"u", "^-aqEH.-t@S}K{vb[*k^", "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin", true, nil},
		{"i", "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", "", false, nil},
		{"p", "s3://b/f.bin", "", false, delta.ErrAbsolutePath},
		{"p", "../f.bin", "", false, delta.ErrPathEscapes},
		{"u", "short", "", false, delta.ErrCorrupt},
		{"u", "../^-aqEH.-t@S}K{vb[*k^", "", false, delta.ErrCorrupt},
		{"x", "", "", false, delta.ErrCorrupt},
	} {
		key, ok, err := delta.VectorKey(&action.DeletionVector{StorageType: c.storage, PathOrInlineDV: c.path})
		if key != c.key || ok != c.ok || !errors.Is(err, c.err) {
			t.Errorf("%s%s: %q %v %v", c.storage, c.path, key, ok, err)
		}
	}
}
