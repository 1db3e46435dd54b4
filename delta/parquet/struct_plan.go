package parquet

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
)

// JSON is the type of a field that takes a whole group of a file, whatever its
// fields, as the text of a JSON object; "" where the group is NULL. Fields
// that are NULL, binary or not finite are left out. Dates read "2022-07-16",
// timestamps "2022-07-16T23:59:59.999999Z" (without Z for timestamps without
// zone), decimals are numbers with every digit: the form of Delta statistics.
// It can be decoded only.
type JSON string

// shape is what a Go type is in a file.
type shape uint8

const (
	shapeLeaf shape = iota
	shapeStruct
	shapeList
	shapeMap
	shapeJSON
)

// plan is how values of a Go type are written and read.
type plan struct {
	shape     shape
	name      string
	field     int          // place in the parent struct
	typ       reflect.Type // without the pointer
	pointer   bool
	zeroIsNil bool // tag option "optional"
	leaf      schema.Type
	fields    []*plan // of a struct
	key       *plan   // of a map
	element   *plan   // of a list, or the values of a map
}

var jsonType = reflect.TypeFor[JSON]()

// planOf plans a struct type. Fields without a parquet tag take no part.
func planOf(t reflect.Type) (*plan, error) {
	if t.Kind() != reflect.Struct {
		return nil, fmt.Errorf("parquet: %s is no struct", t)
	}
	return planValue(t, 0)
}

func planValue(t reflect.Type, depth int) (*plan, error) {
	p := &plan{typ: t}
	if t.Kind() == reflect.Pointer {
		p.pointer, p.typ = true, t.Elem()
	}
	if depth > maxSchemaDepth {
		return nil, fmt.Errorf("parquet: %s is nested too deep", t)
	}
	var err error
	switch {
	case p.typ == jsonType:
		p.shape = shapeJSON
	case p.typ.Kind() == reflect.Struct:
		p.shape = shapeStruct
		err = p.planFields(depth)
	case p.typ.Kind() == reflect.Map && p.typ.Key().Kind() == reflect.String:
		p.shape = shapeMap
		if p.key, err = planValue(p.typ.Key(), depth+1); err == nil {
			p.element, err = planValue(p.typ.Elem(), depth+1)
		}
	case p.typ.Kind() == reflect.Slice && p.typ.Elem().Kind() != reflect.Uint8:
		p.shape = shapeList
		p.element, err = planValue(p.typ.Elem(), depth+1)
	default:
		p.leaf, err = leafOf(p.typ)
	}
	return p, err
}

func leafOf(t reflect.Type) (schema.Type, error) {
	switch t.Kind() {
	case reflect.Bool:
		return schema.Of(schema.Boolean), nil
	case reflect.Int32:
		return schema.Of(schema.Integer), nil
	case reflect.Int64, reflect.Int:
		return schema.Of(schema.Long), nil
	case reflect.Float64:
		return schema.Of(schema.DoubleType), nil
	case reflect.String:
		return schema.Of(schema.StringType), nil
	case reflect.Slice:
		return schema.Of(schema.BinaryType), nil
	}
	return schema.Type{}, fmt.Errorf("parquet: no column holds a %s", t)
}

func (p *plan) planFields(depth int) error {
	for i := range p.typ.NumField() {
		f := p.typ.Field(i)
		tag, ok := f.Tag.Lookup("parquet")
		if !ok || tag == "-" || !f.IsExported() {
			continue
		}
		name, options, _ := strings.Cut(tag, ",")
		child, err := planValue(f.Type, depth+1)
		if err != nil {
			return fmt.Errorf("field %s: %w", f.Name, err)
		}
		child.name, child.field = name, i
		for option := range strings.SplitSeq(options, ",") {
			switch option {
			case "":
			case "optional":
				child.zeroIsNil = true
			default:
				return fmt.Errorf("parquet: field %s has the unknown option %q", f.Name, option)
			}
		}
		p.fields = append(p.fields, child)
	}
	if len(p.fields) == 0 {
		return fmt.Errorf("parquet: %s has no field with a parquet tag", p.typ)
	}
	return nil
}
