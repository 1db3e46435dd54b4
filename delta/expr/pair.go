package expr

import (
	"math/big"

	"github.com/gscd-io/gscd/delta/schema"
)

// pairOrder gives the order of cells of two columns of these types, nil where
// there is none that is exact: whole numbers and decimals of any size, the two
// floats, and columns of one type.
func pairOrder(a, b schema.Type) func(x, y schema.Value) int {
	switch {
	case !a.IsLeaf() || !b.IsLeaf() || a.Primitive == schema.Unknown || b.Primitive == schema.Unknown:
		return nil
	case isExact(a) && isExact(b):
		if schema.KindOf(a) == schema.KindOf(b) && a.Scale == b.Scale {
			return Compare
		}
		return func(x, y schema.Value) int { return scaled(x, b.Scale).Cmp(scaled(y, a.Scale)) }
	case isFloatType(a) && isFloatType(b):
		return func(x, y schema.Value) int { return Compare(asDouble(x), asDouble(y)) }
	case a.Primitive == b.Primitive:
		return Compare
	}
	return nil
}

func isExact(t schema.Type) bool {
	return t.IsInteger() || t.Primitive == schema.DecimalType
}

func isFloatType(t schema.Type) bool {
	return t.Primitive == schema.FloatType || t.Primitive == schema.DoubleType
}

// scaled gives the integer of a whole number or decimal times 10^by: two cells
// multiplied by each other's scale have one scale.
func scaled(v schema.Value, by uint8) *big.Int {
	n := big.NewInt(v.I)
	if v.Kind == schema.Dec {
		n = v.Unscaled()
	}
	if by == 0 {
		return n
	}
	return n.Mul(n, new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(by)), nil))
}

func asDouble(v schema.Value) schema.Value {
	if v.Kind == schema.Float {
		return schema.DoubleValue(float64(v.Float32()))
	}
	return v
}
