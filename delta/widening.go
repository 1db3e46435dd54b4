package delta

import (
	"encoding/json"
	"fmt"

	"github.com/gscd-io/gscd/delta/schema"
)

// typeChange is an entry of delta.typeChanges, in the metadata of a field.
type typeChange struct {
	From string `json:"fromType"`
	To   string `json:"toType"`
}

// MetadataTypeChanges, in the metadata of a field, lists the types that it had in files
// that are still read.
const MetadataTypeChanges = "delta.typeChanges"

// checkWidenings refuses a change of a column's type that older files can't be
// read through.
func checkWidenings(fields []schema.Field) error {
	for _, f := range fields {
		var changes []typeChange
		if raw, ok := f.Metadata[MetadataTypeChanges]; ok && json.Unmarshal(raw, &changes) != nil {
			return fmt.Errorf("%w: metaData.schemaString: column %q: %s is no list of changes", ErrCorrupt, f.Name, MetadataTypeChanges)
		}
		for _, c := range changes {
			from, err1 := schema.ParsePrimitive(c.From)
			to, err2 := schema.ParsePrimitive(c.To)
			if err1 != nil || err2 != nil || !Widens(from, to) {
				return &UnsupportedFeatureError{Feature: featureTypeWidening, Reading: true, Why: fmt.Sprintf("column %q went from %s to %s", f.Name, c.From, c.To)}
			}
		}
		if n := f.Type.Nested; n != nil {
			inside := append([]schema.Field{{Type: n.Key}, {Type: n.Element}}, n.Fields...)
			if err := checkWidenings(inside); err != nil {
				return err
			}
		}
	}
	return nil
}

// Widens reports whether every value of one type is one of the other (Delta
// protocol, "Type Widening", supported type changes).
func Widens(from, to schema.Type) bool {
	integer := from.IsInteger()
	switch to.Primitive {
	case schema.Short, schema.Integer, schema.Long:
		return integer && from.Primitive < to.Primitive
	case schema.DoubleType:
		return from.Primitive == schema.FloatType || integer && from.Primitive != schema.Long
	case schema.DecimalType:
		digits := map[schema.Primitive]uint8{schema.Byte: 10, schema.Short: 10, schema.Integer: 10, schema.Long: 20}[from.Primitive]
		if from.Primitive == schema.DecimalType {
			return to.Scale >= from.Scale && to.Precision-to.Scale >= from.Precision-from.Scale
		}
		return digits > 0 && to.Precision-to.Scale >= digits
	case schema.TimestampNTZ:
		return from.Primitive == schema.Date
	}
	return false
}
