package action

import (
	"errors"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/schema"
	"pgregory.net/rapid"
)

func TestPartitionValues(t *testing.T) {
	at := time.Date(2021, 9, 8, 11, 11, 11, 0, time.UTC).UnixMicro()
	day := at / 86_400_000_000
	for _, c := range []struct {
		text string
		typ  schema.Type
		want schema.Value
	}{
		{"-128", schema.Of(schema.Byte), schema.IntValue(-128)}, {"9223372036854775807", schema.Of(schema.Long), schema.IntValue(math.MaxInt64)},
		{"true", schema.Of(schema.Boolean), schema.BoolValue(true)}, {"false", schema.Of(schema.Boolean), schema.BoolValue(false)},
		{"-0.5", schema.Of(schema.FloatType), schema.FloatValue(-0.5)}, {"1.0E10", schema.Of(schema.DoubleType), schema.DoubleValue(1e10)}, {"-Infinity", schema.Of(schema.DoubleType), schema.DoubleValue(math.Inf(-1))},
		{"1.5", schema.Decimal(10, 2), schema.Value{Kind: schema.Dec, I: 150}}, {"0E-18", schema.Decimal(38, 18), schema.Value{Kind: schema.Dec}}, {"-1E+3", schema.Decimal(10, 2), schema.Value{Kind: schema.Dec, I: -100_000}},
		{"0__x", schema.Of(schema.StringType), schema.StringValue("0__x")}, {"A/A %25", schema.Of(schema.StringType), schema.StringValue("A/A %25")},
		{"\\u0001\\u00FF", schema.Of(schema.BinaryType), schema.BinaryValue("\x01\xff")}, {"plain", schema.Of(schema.BinaryType), schema.BinaryValue("plain")},
		{"2021-09-08", schema.Of(schema.Date), schema.IntValue(day)}, {"1969-12-31", schema.Of(schema.Date), schema.IntValue(-1)}, {"+10000-01-01", schema.Of(schema.Date), schema.IntValue(2932897)},
		{"-0001-12-31", schema.Of(schema.Date), schema.IntValue(-719529)}, {"2000-02-29", schema.Of(schema.Date), schema.IntValue(11016)},
		{"2021-09-08 11:11:11", schema.Of(schema.Timestamp), schema.IntValue(at)}, {"2021-09-08 11:11:11.000001", schema.Of(schema.Timestamp), schema.IntValue(at + 1)},
		{"2021-09-08T11:11:11.000001Z", schema.Of(schema.Timestamp), schema.IntValue(at + 1)}, {"2021-09-08T19:11:11+08:00", schema.Of(schema.Timestamp), schema.IntValue(at)},
		{"2021-09-08 19:11:11+08:00", schema.Of(schema.Timestamp), schema.IntValue(at)}, {"2021-09-08T11:11:11", schema.Of(schema.TimestampNTZ), schema.IntValue(at)},
		{"2021-09-08", schema.Of(schema.TimestampNTZ), schema.IntValue(day * 86_400_000_000)}, // of a column that was a date
		{"", schema.Of(schema.StringType), schema.Value{}}, {"", schema.Of(schema.Date), schema.Value{}},
	} {
		got, err := ParsePartitionValue(&c.text, c.typ)
		if err != nil || got != c.want {
			t.Errorf("%q as %s: %+v, %v; want %+v", c.text, c.typ, got, err, c.want)
		}
	}
	if got, err := ParsePartitionValue(nil, schema.Of(schema.Long)); err != nil || !got.IsNull() {
		t.Errorf("null: %+v, %v", got, err)
	}
	for text, typ := range map[string]schema.Type{
		"128": schema.Of(schema.Byte), "1.5": schema.Of(schema.Integer), "maybe": schema.Of(schema.Boolean), "1e999999999": schema.Decimal(38, 0), "1.555": schema.Decimal(10, 2),
		"1/2": schema.Decimal(10, 2), "0x10": schema.Decimal(10, 0), "2021-02-29": schema.Of(schema.Date), "2021-13-01": schema.Of(schema.Date), "12345678-01-01": schema.Of(schema.Date),
		"21-1-1": schema.Of(schema.Date), "yesterday": schema.Of(schema.Timestamp), "__HIVE_DEFAULT_PARTITION__": schema.Of(schema.Long),
	} {
		if got, err := ParsePartitionValue(&text, typ); !errors.Is(err, ErrPartitionValue) {
			t.Errorf("%q as %s: %+v, %v", text, typ, got, err)
		}
	}
}

func TestPartitionValuesReadBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		typ := rapid.SampledFrom([]schema.Type{
			schema.Of(schema.Boolean), schema.Of(schema.Long), schema.Of(schema.FloatType), schema.Of(schema.DoubleType), schema.Decimal(38, 9), schema.Of(schema.StringType),
			schema.Of(schema.BinaryType), schema.Of(schema.Date), schema.Of(schema.Timestamp), schema.Of(schema.TimestampNTZ),
		}).Draw(rt, "type")
		v := schema.Value{Kind: schema.KindOf(typ)}
		switch v.Kind {
		case schema.Bool:
			v = schema.BoolValue(rapid.Bool().Draw(rt, "bool"))
		case schema.Float:
			v = schema.FloatValue(rapid.Float32().Draw(rt, "float"))
		case schema.Double:
			v = schema.DoubleValue(rapid.Float64().Draw(rt, "double"))
		case schema.Dec:
			v, _ = schema.DecimalValue(new(big.Int).Mul(big.NewInt(rapid.Int64().Draw(rt, "unscaled")), big.NewInt(1e15)))
		case schema.String:
			v.S = rapid.StringN(1, 9, -1).Draw(rt, "text")
		case schema.Binary:
			v.S = string(rapid.SliceOfN(rapid.Byte(), 1, 9).Draw(rt, "bytes"))
		default:
			v.I = rapid.Int64Range(-700_000, 2_900_000).Draw(rt, "days")
			if typ.Primitive != schema.Date {
				v.I = v.I*86_400_000_000 + rapid.Int64Range(0, 86_399_999_999).Draw(rt, "micros")
			}
		}
		got, err := ParsePartitionValue(FormatPartitionValue(v, typ), typ)
		if err != nil || got != v {
			rt.Fatalf("%s %+v: %+v, %v", typ, v, got, err)
		}
	})
}

func TestManifestsOfV2Checkpoints(t *testing.T) {
	c, err := Decode([]byte(`{"checkpointMetadata":{"version":5,"tags":{"a":"b"}}}
{"sidecar":{"path":"s.parquet","sizeInBytes":7,"modificationTime":8,"tags":null}}
{"sidecar":null,"txn":{"appId":"a","version":1}}`))
	if err != nil || c.CheckpointVersion == nil || *c.CheckpointVersion != 5 || len(c.Sidecars) != 1 || c.Sidecars[0] != (Sidecar{"s.parquet", 7, 8}) || len(c.Txns) != 1 {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := Decode([]byte(`{"sidecar":{"sizeInBytes":7}}`)); !errors.Is(err, ErrCorrupt) {
		t.Errorf("without a path: %v", err)
	}
}

func FuzzParsePartitionValue(f *testing.F) {
	for _, seed := range []string{"1", "0E-18", "2021-09-08 11:11:11.123456", "+10000-01-01", "\\u0001", "NaN", "1e999999999"} {
		for p := schema.Boolean; p <= schema.TimestampNTZ; p++ {
			f.Add(seed, uint8(p))
		}
	}
	f.Fuzz(func(t *testing.T, text string, p uint8) {
		typ := schema.Of(schema.Primitive(p%uint8(schema.TimestampNTZ) + 1))
		if typ.Primitive == schema.DecimalType {
			typ = schema.Decimal(38, 9)
		}
		v, err := ParsePartitionValue(&text, typ)
		if err != nil {
			if !errors.Is(err, ErrPartitionValue) {
				t.Fatal(err)
			}
			return
		}
		if !v.IsNull() && v.Kind != schema.KindOf(typ) {
			t.Fatalf("%q as %s: %+v", text, typ, v)
		}
		if typ.Primitive == schema.Timestamp || typ.Primitive == schema.TimestampNTZ || typ.Primitive == schema.Date {
			return // years beyond four digits have no text of ours
		}
		if back, err := ParsePartitionValue(FormatPartitionValue(v, typ), typ); err != nil || back != v {
			t.Fatalf("%q as %s: %+v, back %+v, %v", text, typ, v, back, err)
		}
	})
}
