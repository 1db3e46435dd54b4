package config

import (
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// reader fills structs from text and remembers where each setting came from. It
// goes on behind a fault, so that one run finds them all.
type reader struct {
	faults []Fault
	from   map[string]origin
	// anchors of the document being read.
	anchors map[string]ast.Node
}

// origin is where a setting was written: a line of the file, or a name.
type origin struct {
	line int
	name string
}

func (r *reader) faultf(o origin, path, format string, args ...any) {
	if o.name != "" {
		path = o.name
	}
	r.faults = append(r.faults, Fault{o.line, path, fmt.Sprintf(format, args...)})
}

// field is a field of a struct, under the key that sets it.
type field struct {
	key   string
	value reflect.Value
	tag   reflect.StructTag
}

// fieldsOf lists the keys of a struct in the order of the struct.
func fieldsOf(v reflect.Value) []field {
	var fields []field
	for i := range v.NumField() {
		f := v.Type().Field(i)
		key, inline := strings.CutSuffix(f.Tag.Get("yaml"), ",inline")
		switch {
		case inline:
			fields = append(fields, fieldsOf(v.Field(i))...)
		case key != "-":
			fields = append(fields, field{key, v.Field(i), f.Tag})
		}
	}
	return fields
}

// isSection tells a struct of settings from a value that is one text.
func isSection(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != reflect.TypeFor[Policy]() && t != reflect.TypeFor[Start]()
}

// setDefaults sets what the tags say.
func setDefaults(v reflect.Value) {
	for _, f := range fieldsOf(v) {
		switch text, ok := f.tag.Lookup("default"); {
		case ok:
			if err := setText(f.value, text, f.tag); err != nil {
				panic(fmt.Sprintf("default of %s: %v", f.key, err)) // a tag in this package; a test sets them all
			}
		case isSection(f.value.Type()):
			setDefaults(f.value)
		}
	}
}

// join appends a key to a path.
func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// section reads a mapping into a struct. Keys of skip are left alone.
func (r *reader) section(node ast.Node, v reflect.Value, path string) {
	node = r.resolve(node)
	if isNull(node) {
		return
	}
	entries, ok := r.entries(node, path)
	if !ok {
		return
	}
	fields := fieldsOf(v)
	seen := map[string]int{}
	for _, e := range entries {
		at := origin{line: e.line}
		if first, again := seen[e.key]; again {
			r.faultf(at, join(path, e.key), "is set twice, first in line %d", first)
			continue
		}
		seen[e.key] = e.line
		i := slices.IndexFunc(fields, func(f field) bool { return f.key == e.key })
		if i < 0 {
			r.faultf(at, join(path, e.key), "unknown key%s", hint(e.key, v))
			continue
		}
		r.from[join(path, e.key)] = at
		r.value(e.value, fields[i], join(path, e.key), at)
	}
}

// value reads one key's value.
func (r *reader) value(node ast.Node, f field, path string, at origin) {
	node, v := r.resolve(node), f.value
	if v.Type() == reflect.TypeFor[ast.Node]() {
		if node != nil {
			v.Set(reflect.ValueOf(node))
		}
		return
	}
	if v.Kind() == reflect.Pointer {
		v = allocated(v)
	}
	text, scalar := scalarText(node)
	switch {
	case node == nil:
		r.faultf(at, path, "is an alias without its anchor")
	case isSection(v.Type()):
		if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok && scalar {
			r.check(u.UnmarshalText([]byte(text)), path, at)
			return
		}
		r.section(node, v, path)
	case isNull(node) && slices.Contains(strings.Fields(f.tag.Get("oneof")), "null"):
		v.SetString("null") // the word, without quotes
	case isNull(node):
		r.faultf(at, path, "has no value: give one, or leave the key out")
	case v.Type() == reflect.TypeFor[Masks]():
		r.masks(node, v, path)
	case v.Kind() == reflect.Slice:
		r.list(node, v, path, at)
	case v.Kind() == reflect.Map:
		r.table(node, v, path)
	case !scalar:
		r.faultf(at, path, "is one value, not a list or a section")
	default:
		r.check(setText(v, text, f.tag), path, at)
	}
}

func (r *reader) check(err error, path string, at origin) {
	if err != nil {
		r.faultf(at, path, "%v", err)
	}
}

// list reads a list of texts.
func (r *reader) list(node ast.Node, v reflect.Value, path string, at origin) {
	seq, ok := node.(*ast.SequenceNode)
	if !ok {
		r.faultf(at, path, "is a list: write [a, b]")
		return
	}
	list := []string{}
	for i, item := range seq.Values {
		item = r.resolve(item)
		text, scalar := scalarText(item)
		if !scalar {
			text, scalar = colonText(item)
		}
		if !scalar {
			r.faultf(origin{line: lineOf(item, at.line)}, fmt.Sprintf("%s[%d]", path, i), "is no text")
			continue
		}
		r.from[fmt.Sprintf("%s[%d]", path, i)] = origin{line: lineOf(item, at.line)}
		list = append(list, text)
	}
	v.Set(reflect.ValueOf(list))
}

// table reads a mapping of texts to texts.
func (r *reader) table(node ast.Node, v reflect.Value, path string) {
	entries, ok := r.entries(node, path)
	if !ok {
		return
	}
	m := map[string]string{}
	for _, e := range entries {
		at := origin{line: e.line}
		text, scalar := scalarText(r.resolve(e.value))
		if _, twice := m[e.key]; twice {
			r.faultf(at, join(path, e.key), "is set twice")
		}
		if !scalar {
			r.faultf(at, join(path, e.key), "is one text")
			continue
		}
		r.from[join(path, e.key)] = at
		m[e.key] = text
	}
	v.Set(reflect.ValueOf(m))
}

// allocated gives what a pointer points to, made with its defaults where it is nil.
func allocated(v reflect.Value) reflect.Value {
	if v.IsNil() {
		v.Set(reflect.New(v.Type().Elem()))
		setDefaults(v.Elem())
	}
	return v.Elem()
}

// setText sets a setting from its text. Lists are a,b and maps a=b,c=d here,
// as in variables and flags.
func setText(v reflect.Value, text string, tag reflect.StructTag) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	if v.Type() == reflect.TypeFor[time.Duration]() {
		d, err := ParseDuration(text)
		if err == nil {
			v.SetInt(int64(d))
		}
		return err
	}
	switch v.Kind() {
	case reflect.String:
		if words := strings.Fields(tag.Get("oneof")); len(words) > 0 && !slices.Contains(words, text) {
			if near := nearest(text, words); near != "" {
				return fmt.Errorf("%q is unknown: did you mean %s?", text, near)
			}
			return fmt.Errorf("%q is unknown: write %s", text, strings.Join(words, ", "))
		}
		v.SetString(text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		v.SetBool(text == "true")
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is no whole number", text)
		}
		v.SetInt(int64(n))
	case reflect.Slice:
		v.Set(reflect.ValueOf(splitList(text)))
	case reflect.Map:
		m := map[string]string{}
		for _, pair := range splitList(text) {
			k, val, ok := strings.Cut(pair, "=")
			if !ok {
				return fmt.Errorf("%q is no pair: write NAME=VALUE,NAME=VALUE", pair)
			}
			m[strings.TrimSpace(k)] = strings.TrimSpace(val)
		}
		v.Set(reflect.ValueOf(m))
	default:
		return fmt.Errorf("is a section: set the keys below it")
	}
	return nil
}

// splitList splits at commas outside of parentheses: decimal(12,2) is one item.
func splitList(text string) []string {
	list, depth, start := []string{}, 0, 0
	add := func(item string) {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	for i, c := range text {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth <= 0:
			add(text[start:i])
			start = i + 1
		}
	}
	add(text[start:])
	return list
}

// hint names the key that an unknown one most likely means.
func hint(key string, v reflect.Value) string {
	var here, below []string
	for _, f := range fieldsOf(v) {
		here = append(here, f.key)
	}
	walk(v, "", func(path string, f field) {
		if strings.Contains(path, ".") {
			below = append(below, path)
		}
	})
	if near := nearest(key, here); near != "" {
		return ": did you mean " + near + "?"
	}
	for _, path := range below {
		if strings.HasSuffix(path, "."+key) || strings.ReplaceAll(path, ".", "_") == key {
			return ": did you mean " + path + "?"
		}
	}
	if strings.HasPrefix(key, "then ") {
		return `: put a policy with commas into quotes`
	}
	if len(here) <= 20 {
		return ": known are " + strings.Join(here, ", ")
	}
	return ""
}

// walk visits every setting below a struct, with its path. Sections that are
// absent are visited as if they were there.
func walk(v reflect.Value, path string, visit func(path string, f field)) {
	for _, f := range fieldsOf(v) {
		p, section := join(path, f.key), f.value
		if section.Kind() == reflect.Pointer {
			if section.IsNil() {
				section = reflect.New(section.Type().Elem())
			}
			section = section.Elem()
		}
		if isSection(section.Type()) {
			walk(section, p, visit)
			continue
		}
		visit(p, f)
	}
}
