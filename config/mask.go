package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// Mask is what stands in place of a column's values. A text alone is the constant.
type Mask struct {
	Method string `yaml:"method" default:"constant" oneof:"constant hmac sha256 null keep_last"`
	// Text belongs to constant, Keep to keep_last: how many characters are left.
	Text string `yaml:"text"`
	Keep int    `yaml:"keep"`
}

// Masks are those of a table, by the names of the source's columns.
type Masks map[string]Mask

// UnmarshalText reads NAME=TEXT,NAME=TEXT, as other maps in variables: constants.
func (m *Masks) UnmarshalText(text []byte) error {
	out := Masks{}
	for _, pair := range splitList(string(text)) {
		name, constant, ok := strings.Cut(pair, "=")
		if !ok {
			return fmt.Errorf("%q is no pair: write NAME=VALUE,NAME=VALUE", pair)
		}
		out[strings.TrimSpace(name)] = Mask{Method: "constant", Text: strings.TrimSpace(constant)}
	}
	*m = out
	return nil
}

// yaml gives the masks as they are written.
func (m Masks) yaml() yaml.MapSlice {
	out := yaml.MapSlice{}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		mask := m[name]
		if mask.Method == "constant" {
			out = append(out, yaml.MapItem{Key: name, Value: mask.Text})
			continue
		}
		section := yaml.MapSlice{{Key: "method", Value: mask.Method}}
		if mask.Keep != 0 {
			section = append(section, yaml.MapItem{Key: "keep", Value: mask.Keep})
		}
		out = append(out, yaml.MapItem{Key: name, Value: section})
	}
	return out
}

// masks reads a mapping of columns to masks.
func (r *reader) masks(node ast.Node, v reflect.Value, path string) {
	entries, ok := r.entries(node, path)
	if !ok {
		return
	}
	out := Masks{}
	for _, e := range entries {
		at, p := origin{line: e.line}, join(path, e.key)
		if _, twice := out[e.key]; twice {
			r.faultf(at, p, "is set twice")
		}
		r.from[p] = at
		value := r.resolve(e.value)
		mask := Mask{Method: "constant"}
		if text, scalar := scalarText(value); scalar {
			mask.Text = text
		} else if _, section := value.(*ast.MappingNode); !section && !isMappingValue(value) {
			r.faultf(at, p, "is a text, which stands in place of each value, or a section with method: constant, hmac, sha256, null, keep_last")
			continue
		} else {
			before := len(r.faults)
			r.section(value, reflect.ValueOf(&mask).Elem(), p)
			r.checkMask(&mask, p, at, len(r.faults) > before)
		}
		out[e.key] = mask
	}
	v.Set(reflect.ValueOf(out))
}

func isMappingValue(node ast.Node) bool {
	_, ok := node.(*ast.MappingValueNode)
	return ok
}

// checkMask reports settings of a mask that belong to another method.
func (r *reader) checkMask(m *Mask, path string, at origin, faulty bool) {
	set := func(key string) bool { _, ok := r.from[join(path, key)]; return ok }
	switch {
	case faulty:
	case m.Method == "constant" && !set("text"):
		r.faultf(at, path, "has no text, which method: constant puts in place of each value")
	case m.Method != "constant" && set("text"):
		r.faultf(at, join(path, "text"), "belongs to method: constant, not to %s", m.Method)
	case m.Method == "keep_last" && m.Keep < 1:
		r.faultf(at, join(path, "keep"), "%s: keep_last leaves 1 character or more", strconv.Itoa(m.Keep))
	case m.Method != "keep_last" && set("keep"):
		r.faultf(at, join(path, "keep"), "belongs to method: keep_last, not to %s", m.Method)
	}
}
