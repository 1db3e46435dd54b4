package parquet

import (
	"fmt"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// elementOf gives the schema element of an optional leaf column of a type, as
// the Delta protocol maps it ("Delta Data Type to Parquet Type Mappings").
// Old annotations are set beside the new ones, for old readers.
func elementOf(name string, t schema.Type, fieldID int32) (format.SchemaElement, error) {
	e := format.SchemaElement{Name: name, FieldID: fieldID, RepetitionType: thrift.New(format.Optional)}
	set := func(physical format.Type, logical format.LogicalTypeValue) {
		e.Type = thrift.New(physical)
		e.LogicalType.Value = logical
	}
	converted := func(c deprecated.ConvertedType) { e.ConvertedType = thrift.New(c) }
	switch t.Primitive {
	case schema.Boolean:
		set(format.Boolean, nil)
	case schema.Byte:
		set(format.Int32, &format.IntType{BitWidth: 8, IsSigned: true})
		converted(deprecated.Int8)
	case schema.Short:
		set(format.Int32, &format.IntType{BitWidth: 16, IsSigned: true})
		converted(deprecated.Int16)
	case schema.Integer:
		set(format.Int32, nil)
	case schema.Long:
		set(format.Int64, nil)
	case schema.FloatType:
		set(format.Float, nil)
	case schema.DoubleType:
		set(format.Double, nil)
	case schema.StringType:
		set(format.ByteArray, &format.StringType{})
		converted(deprecated.UTF8)
	case schema.BinaryType:
		set(format.ByteArray, nil)
	case schema.Date:
		set(format.Int32, &format.DateType{})
		converted(deprecated.Date)
	case schema.Timestamp, schema.TimestampNTZ:
		utc := t.Primitive == schema.Timestamp
		set(format.Int64, &format.TimestampType{IsAdjustedToUTC: utc, Unit: format.TimeUnit{Value: &format.MicroSeconds{}}})
		if utc {
			converted(deprecated.TimestampMicros)
		}
	case schema.DecimalType:
		if t.Precision < 1 || t.Precision > 38 || t.Scale > t.Precision {
			return e, fmt.Errorf("column %q: %s is no decimal", name, t)
		}
		physical := format.FixedLenByteArray
		switch {
		case t.Precision <= 9:
			physical = format.Int32
		case t.Precision <= 18:
			physical = format.Int64
		default:
			e.TypeLength = thrift.New(int32(decimalBytes(t.Precision)))
		}
		set(physical, &format.DecimalType{Scale: int32(t.Scale), Precision: int32(t.Precision)})
		converted(deprecated.Decimal)
		e.Scale, e.Precision = thrift.New(int32(t.Scale)), thrift.New(int32(t.Precision))
	default:
		return e, fmt.Errorf("column %q: %w: no file is written with a column of type %s", name, ErrUnsupported, t)
	}
	return e, nil
}

// decimalBytes gives the fewest bytes that hold a decimal of a precision, as
// Spark and Hive size them.
func decimalBytes(precision uint8) int {
	limit := tenTo(precision) // 10^p
	for n := 1; ; n++ {
		if n == 16 || limit.lessEqual(powerOfTwo(8*n-1)) {
			return n
		}
	}
}

// uint128 is enough of a 128-bit number to compare magnitudes of decimals.
type uint128 struct{ hi, lo uint64 }

func (a uint128) lessEqual(b uint128) bool { return a.hi < b.hi || a.hi == b.hi && a.lo <= b.lo }

func powerOfTwo(n int) uint128 {
	if n >= 64 {
		return uint128{hi: 1 << (n - 64)}
	}
	return uint128{lo: 1 << n}
}
