package config

import (
	"encoding"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/goccy/go-yaml"
)

// Show prints the configuration in force as a file that Load reads: every table
// with all its settings, in a fixed order, secrets masked.
func (c *Config) Show(w io.Writer) error {
	doc := sectionYAML(reflect.ValueOf(c).Elem())
	if len(c.Notify) > 0 {
		sinks := []yaml.MapSlice{}
		for i := range c.Notify {
			sinks = append(sinks, sectionYAML(reflect.ValueOf(&c.Notify[i]).Elem()))
		}
		doc = append(doc, yaml.MapItem{Key: "notify", Value: sinks})
	}
	tables := []yaml.MapSlice{}
	for i := range c.Tables {
		tables = append(tables, sectionYAML(reflect.ValueOf(&c.Tables[i]).Elem()))
	}
	text, err := yaml.MarshalWithOptions(append(doc, yaml.MapItem{Key: "tables", Value: tables}), yaml.IndentSequence(true))
	if err != nil {
		return fmt.Errorf("print configuration: %w", err)
	}
	if _, err := w.Write(text); err != nil {
		return fmt.Errorf("print configuration: %w", err)
	}
	return nil
}

// sectionYAML gives a section's keys in the order of its struct. A key without
// a value is left out: its default is to be absent.
func sectionYAML(v reflect.Value) yaml.MapSlice {
	section := yaml.MapSlice{}
	for _, f := range fieldsOf(v) {
		if value, ok := valueYAML(f.value); ok {
			section = append(section, yaml.MapItem{Key: f.key, Value: value})
		}
	}
	return section
}

func valueYAML(v reflect.Value) (value any, ok bool) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil, false
		}
		return sectionYAML(v.Elem()), true // also where it is empty: it is there
	}
	if isSection(v.Type()) {
		section := sectionYAML(v)
		return section, len(section) > 0
	}
	if m, isText := v.Interface().(encoding.TextMarshaler); isText {
		text, _ := m.MarshalText() // the types of this package give no error
		return string(text), len(text) > 0
	}
	if d, isDuration := v.Interface().(time.Duration); isDuration {
		return FormatDuration(d), true
	}
	switch v.Kind() {
	case reflect.String:
		return v.String(), v.Len() > 0
	case reflect.Slice:
		return v.Interface(), v.Len() > 0
	case reflect.Map:
		if masks, ok := v.Interface().(Masks); ok {
			return masks.yaml(), v.Len() > 0
		}
		pairs := yaml.MapSlice{}
		m := v.Interface().(map[string]string)
		for _, k := range slices.Sorted(maps.Keys(m)) {
			pairs = append(pairs, yaml.MapItem{Key: k, Value: m[k]})
		}
		return pairs, v.Len() > 0
	}
	return v.Interface(), true
}
