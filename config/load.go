package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// Input is where a configuration comes from: flags go before the environment,
// that before the file, that before defaults.
type Input struct {
	// File names Data in messages; empty where there is no file.
	File string
	Data []byte
	// Env has the variables, NAME=VALUE, as of os.Environ.
	Env []string
	// Flags are settings of the command line.
	Flags []Flag
	// ReadFile reads what a variable GSCD_…_FILE names; nil is os.ReadFile.
	ReadFile func(name string) ([]byte, error)
	Checks   Checks
}

// Flag is one setting of the command line. Path is a key of the file
// (calendar.timezone); below "table." one of the only table (table.drift.wait).
// A table is made where the file has none.
type Flag struct {
	Name  string
	Path  string
	Value string
}

// Checks ask others about values that are theirs. A nil check passes all.
type Checks struct {
	// Zone reports a time zone that can't be loaded.
	Zone func(name string) error
	// Format reports a format of records that there is no decoder for.
	Format func(name string) error
	// ColumnType reports a text that is no type of a column.
	ColumnType func(text string) error
	// Transform reports every fault of a table's filters and transforms, joined.
	Transform func(t *Table, secret Secret) error
}

// document is the file. Tables wait until their defaults are known.
type document struct {
	Config   `yaml:",inline"`
	Notify   ast.Node `yaml:"notify"`
	Defaults Settings `yaml:"defaults"`
	Tables   ast.Node `yaml:"tables"`
}

// Load reads a configuration. The error is a *Faults with everything that is wrong.
func Load(in Input) (*Config, error) {
	r := &reader{from: map[string]origin{}, anchors: map[string]ast.Node{}}
	var doc document
	setDefaults(reflect.ValueOf(&doc).Elem())
	r.parse(in, &doc)
	r.environment(in, &doc)
	r.flags(in.Flags, "", reflect.ValueOf(&doc).Elem())
	cfg := &doc.Config
	r.tables(&doc, cfg)
	r.notifications(doc.Notify, cfg)
	r.onlyTable(in.Flags, &doc, cfg)
	r.validate(cfg, in.Checks)
	if len(r.faults) > 0 {
		return nil, &Faults{in.File, sorted(r.faults)}
	}
	return cfg, nil
}

// parse reads the file.
func (r *reader) parse(in Input, doc *document) {
	file, err := parseYAML(in.Data)
	if err != nil {
		var syntax yaml.Error
		at, message := origin{line: 1}, err.Error()
		if errors.As(err, &syntax) {
			// Not the error's own text: it shows the lines around, secrets included.
			at.line, message = lineOfToken(syntax.GetToken(), 1), syntax.GetMessage()
		}
		r.faultf(at, "", "is no YAML: %s", message)
		return
	}
	docs := slices.DeleteFunc(file.Docs, func(d *ast.DocumentNode) bool { return d.Body == nil })
	if len(docs) == 0 {
		return
	}
	if len(docs) > 1 {
		r.faultf(origin{line: lineOf(docs[1].Body, 0)}, "", "is a second document: a configuration is one")
	}
	ast.Walk(r, docs[0].Body)
	r.section(docs[0].Body, reflect.ValueOf(doc).Elem(), "")
}

// parseYAML parses, and takes a panic of the parser for a syntax error.
func parseYAML(data []byte) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the parser gave up: %v", p)
		}
	}()
	return parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
}

// tables reads the tables, each on top of the section defaults.
func (r *reader) tables(doc *document, cfg *Config) {
	if isNull(doc.Tables) {
		return
	}
	seq, ok := doc.Tables.(*ast.SequenceNode)
	if !ok {
		r.faultf(r.from["tables"], "tables", "is a list: begin each table with a dash")
		return
	}
	for i, node := range seq.Values {
		t := r.newTable(doc)
		p := fmt.Sprintf("tables[%d]", i)
		r.from[p] = origin{line: lineOf(r.resolve(node), r.from["tables"].line)}
		r.section(node, reflect.ValueOf(&t).Elem(), p)
		r.complete(&t, p)
		cfg.Tables = append(cfg.Tables, t)
	}
}

// newTable is a table with nothing but the section defaults.
func (r *reader) newTable(doc *document) Table {
	t := Table{Settings: doc.Defaults}
	// No table may write to what another one has.
	t.Key, t.PartitionBy, t.Columns = slices.Clone(t.Key), slices.Clone(t.PartitionBy), maps.Clone(t.Columns)
	t.Start.Offsets = slices.Clone(t.Start.Offsets)
	t.Retention.Savepoints.Then = slices.Clone(t.Retention.Savepoints.Then)
	return t
}

// complete fills what follows from other settings.
func (r *reader) complete(t *Table, path string) {
	_, own := r.from[path+".tombstones"]
	_, shared := r.from["defaults.tombstones"]
	t.TombstonesChosen = own || shared
	t.ProtectChosen = t.Protect != ""
	if t.Name == "" {
		t.Name = nameOf(t.Location)
	}
}

// nameOf is the last part of a location.
func nameOf(location string) string {
	if location = strings.TrimRight(location, "/"); location == "" {
		return ""
	}
	return path.Base(location)
}

// flags sets what the command line says of a struct's keys.
func (r *reader) flags(flags []Flag, prefix string, v reflect.Value) {
	for _, f := range flags {
		key, inTable := strings.CutPrefix(f.Path, "table.")
		if inTable != (prefix != "") {
			continue
		}
		p := join(prefix, key)
		r.from[p] = origin{name: f.Name}
		if !r.set(v, key, f.Value, r.from[p]) {
			r.faultf(r.from[p], p, "sets the unknown key %s", key)
		}
	}
}

// onlyTable applies the flags of a table.
func (r *reader) onlyTable(flags []Flag, doc *document, cfg *Config) {
	i := slices.IndexFunc(flags, func(f Flag) bool { return strings.HasPrefix(f.Path, "table.") })
	switch {
	case i < 0:
		return
	case len(cfg.Tables) > 1:
		r.faultf(origin{name: flags[i].Name}, "", "sets a table's key, and %d tables are configured: set it in the file", len(cfg.Tables))
		return
	case len(cfg.Tables) == 0:
		cfg.Tables = append(cfg.Tables, r.newTable(doc))
	}
	r.flags(flags, "tables[0]", reflect.ValueOf(&cfg.Tables[0]).Elem())
	r.complete(&cfg.Tables[0], "tables[0]")
}

// set sets one key from text; false if there is no such key.
func (r *reader) set(v reflect.Value, path, text string, at origin) bool {
	key, rest, deeper := strings.Cut(path, ".")
	for _, f := range fieldsOf(v) {
		if f.key != key {
			continue
		}
		target := f.value
		if target.Kind() == reflect.Pointer {
			target = allocated(target)
		}
		if deeper {
			return isSection(target.Type()) && r.set(target, rest, text, at)
		}
		r.check(setText(target, text, f.tag), path, at)
		return true
	}
	return false
}

// envPrefix begins every variable.
const envPrefix = "GSCD_"

// envSections are the sections whose variables are checked for unknown names.
var envSections = []string{"KAFKA_", "SCHEMA_REGISTRY_", "S3_", "MYSQL_", "CAPTURE_", "CALENDAR_", "HTTP_", "LOG_", "TRACING_", "PROCESS_", "SCALE_OUT_", "DEFAULTS_"}

// serviceVariable is what Kubernetes sets in every pod for a service gscd-kafka.
var serviceVariable = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP)(_(PROTO|PORT|ADDR))?)?)$`)

// envPaths maps the name of every variable to its key.
func envPaths() map[string]string {
	paths := map[string]string{}
	var doc document
	walk(reflect.ValueOf(&doc).Elem(), "", func(p string, _ field) {
		if p != "tables" && p != "notify" {
			paths[envPrefix+strings.ToUpper(strings.ReplaceAll(p, ".", "_"))] = p
		}
	})
	return paths
}

// environment applies the variables GSCD_…, and GSCD_…_FILE, which name a file
// that holds the value. An empty variable is as good as none.
func (r *reader) environment(in Input, doc *document) {
	paths, readFile := envPaths(), in.ReadFile
	if readFile == nil {
		readFile = os.ReadFile
	}
	values := map[string]string{}
	for _, v := range in.Env {
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, envPrefix) && value != "" {
			values[name] = value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		at, value := origin{name: name}, values[name]
		key, known := paths[name]
		if !known {
			base, isFile := strings.CutSuffix(name, "_FILE")
			if key, known = paths[base]; !known || !isFile {
				r.unknownVariable(name, paths)
				continue
			}
			if _, both := values[base]; both {
				r.faultf(at, "", "is set beside %s: leave one of them out", base)
				continue
			}
			data, err := readFile(value)
			if err != nil {
				r.faultf(at, "", "%v", err)
				continue
			}
			value = strings.TrimRight(string(data), "\r\n")
		}
		r.from[key] = at
		r.set(reflect.ValueOf(doc).Elem(), key, value, at)
	}
}

// unknownVariable reports a variable that looks like a setting and is none.
func (r *reader) unknownVariable(name string, paths map[string]string) {
	section := slices.ContainsFunc(envSections, func(s string) bool { return strings.HasPrefix(name, envPrefix+s) })
	if !section || serviceVariable.MatchString(name) {
		return
	}
	message := "unknown variable"
	if near := nearest(name, slices.Sorted(maps.Keys(paths))); near != "" {
		message += ": did you mean " + near + "?"
	}
	r.faultf(origin{name: name}, "", "%s", message)
}
