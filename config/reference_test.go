package config

import (
	"encoding"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const (
	referencePage = "../docs/reference/configuration.md"
	firstRelease  = "0.1"
	// A key that has no variable, and the variables of all others.
	referenceHead = `# Configuration reference

Every key, as the program declares it. This page is written by the program's code:
` + "`go test ./config -run TestReferencePage -rewrite`" + `. The guide is [configuration](../configuration.md): how
values are written, what goes before what, which keys belong together.

The second line of a key is its environment variable; with ` + "`_FILE`" + ` behind it the variable names a file that holds
the value. ` + "`config show`" + ` prints the values in force. Every key was there in the first release, ` + firstRelease + `, where no other
is named.
`
)

// referenceKey is a key, and all that is declared of it.
type referenceKey struct {
	path string // with its section; of a table's own keys and settings without
	typ  reflect.Type
	tag  reflect.StructTag
	line string // its description
}

// referenceSection is a table of the page.
type referenceSection struct {
	title, text, variables string // variables is what begins the names in the environment; "-" for none
	keys                   []referenceKey
}

// keyComments are the comments of the fields of this package's structs, by STRUCT.FIELD.
func keyComments(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	comments := map[string]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			typ, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if s, ok := typ.Type.(*ast.StructType); ok {
				for _, f := range s.Fields.List {
					for _, name := range f.Names {
						comments[typ.Name.Name+"."+name.Name] = strings.Join(strings.Fields(f.Doc.Text()), " ")
					}
				}
			}
			return true
		})
	}
	return comments
}

// keysBelow gives the keys of a struct, those of its sections too.
func keysBelow(of reflect.Type, path string, comments map[string]string) (keys []referenceKey) {
	for i := range of.NumField() {
		f := of.Field(i)
		name, inline := strings.CutSuffix(f.Tag.Get("yaml"), ",inline")
		typ := f.Type
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		switch {
		case inline || name == "-":
		case isSection(typ):
			keys = append(keys, keysBelow(typ, join(path, name), comments)...)
		default:
			keys = append(keys, referenceKey{join(path, name), typ, f.Tag, comments[of.Name()+"."+f.Name]})
		}
	}
	return keys
}

// reference is the whole configuration.
func reference(t *testing.T) (sections []referenceSection) {
	comments := keyComments(t)
	of := reflect.TypeFor[Config]()
	for i := range of.NumField() {
		f := of.Field(i)
		name := f.Tag.Get("yaml")
		typ := f.Type
		if typ.Kind() == reflect.Pointer {
			typ = typ.Elem()
		}
		if name == "-" {
			continue
		}
		sections = append(sections, referenceSection{title: name, variables: "GSCD_", keys: keysBelow(typ, name, comments)})
	}
	settings := keysBelow(reflect.TypeFor[Settings](), "", comments)
	slices.SortStableFunc(settings, func(x, y referenceKey) int { return strings.Compare(x.path, y.path) })
	return append(sections,
		referenceSection{
			title: "notify", variables: "-", keys: keysBelow(reflect.TypeFor[Notify](), "", comments),
			text: "A list of [sinks](../notifications.md); each has one of `webhook`, `topic` and `exec`. They have no variable.",
		},
		referenceSection{
			title: "tables", variables: "-", keys: keysBelow(reflect.TypeFor[Table](), "", comments),
			text: "A list; these keys belong to one table alone, and have no variable.",
		},
		referenceSection{
			title: "Settings of a table", variables: "GSCD_DEFAULTS_", keys: settings,
			text: "In a table, or below `defaults:` for all of them. The variables set the defaults.",
		})
}

// typeName is how a reader would call the type.
func (k referenceKey) typeName() string {
	switch k.typ {
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[Size]():
		return "size"
	case reflect.TypeFor[Fraction]():
		return "fraction"
	case reflect.TypeFor[Secret]():
		return "secret"
	case reflect.TypeFor[Policy]():
		return "policy"
	case reflect.TypeFor[Start]():
		return "place"
	}
	switch k.typ.Kind() {
	case reflect.Bool:
		return "true, false"
	case reflect.Int:
		return "number"
	case reflect.Slice:
		return "list"
	case reflect.Map:
		return "map"
	}
	return "text"
}

// defaultText is what holds where the key is absent.
func (k referenceKey) defaultText() string {
	text, ok := k.tag.Lookup("default")
	absent := k.tag.Get("absent")
	switch {
	case ok:
		return "`" + text + "`"
	case absent != "":
		return absent
	case k.typ.Kind() == reflect.Bool:
		return "`false`"
	}
	return ""
}

// rangeText is what values there are.
func (k referenceKey) rangeText() string {
	if words := strings.Fields(k.tag.Get("oneof")); len(words) > 0 {
		return "`" + strings.Join(words, "`, `") + "`"
	}
	from, to, ok := strings.Cut(k.tag.Get("range"), "..")
	switch {
	case !ok:
		return ""
	case to == "":
		return "from `" + from + "` on"
	}
	return "`" + from + "` to `" + to + "`"
}

var relativeLink = regexp.MustCompile(`\]\(([a-z#])`)

// cell makes a text one of a table in docs/reference.
func cell(text string) string {
	return relativeLink.ReplaceAllString(strings.ReplaceAll(text, "|", `\|`), "](../$1")
}

// docs/reference/configuration.md is what the code declares, and every key has a description.
func TestReferencePage(t *testing.T) {
	var page strings.Builder
	page.WriteString(referenceHead)
	for _, s := range reference(t) {
		fmt.Fprintf(&page, "\n## %s\n\n", s.title)
		if s.text != "" {
			page.WriteString(s.text + "\n\n")
		}
		page.WriteString("| key | type | default | range | meaning |\n| --- | --- | --- | --- | --- |\n")
		for _, k := range s.keys {
			if len(k.line) < 8 {
				t.Errorf("%s has no description: write it as the comment of its field, in the words of a user", k.path)
			}
			name := "`" + k.path + "`"
			if s.variables != "-" {
				name += "<br>`" + s.variables + strings.ToUpper(strings.ReplaceAll(k.path, ".", "_")) + "`"
			}
			meaning := k.line
			if since := k.tag.Get("since"); since != "" {
				meaning += " Since " + since + "."
			}
			fmt.Fprintf(&page, "| %s | %s | %s | %s | %s |\n", name, k.typeName(), cell(k.defaultText()), k.rangeText(), cell(meaning))
		}
	}
	if *rewrite {
		if err := os.MkdirAll(filepath.Dir(referencePage), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(referencePage, []byte(page.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	is, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatal(err)
	}
	if string(is) != page.String() {
		t.Error("docs/reference/configuration.md is not what the code says: run go test ./config -run TestReferencePage -rewrite")
	}
}

// The variables that the page names are those that the program reads.
func TestReferenceVariables(t *testing.T) {
	read := envPaths()
	named := 0
	for _, s := range reference(t) {
		if s.variables == "-" {
			continue
		}
		for _, k := range s.keys {
			name := s.variables + strings.ToUpper(strings.ReplaceAll(k.path, ".", "_"))
			want := k.path
			if s.variables == "GSCD_DEFAULTS_" {
				want = "defaults." + k.path
			}
			if read[name] != want {
				t.Errorf("%s sets %q, the page says %s", name, read[name], want)
			}
			named++
		}
	}
	if named != len(read) {
		t.Errorf("the program reads %d variables, the page names %d", len(read), named)
	}
}

// The ranges of the page are those that are checked: the bounds pass, what is beyond is refused.
func TestReferenceRanges(t *testing.T) {
	tried := 0
	for _, s := range reference(t) {
		for _, k := range s.keys {
			from, to, ok := strings.Cut(k.tag.Get("range"), "..")
			if !ok {
				continue
			}
			path, at := k.path, k.path
			if s.title == "Settings of a table" || s.title == "tables" {
				path, at = "table."+k.path, "tables[0]."+k.path
			}
			refused := func(value string) bool {
				_, err := Load(Input{File: "f", Data: []byte("calendar: {timezone: UTC}\ntables: [{location: t}]\n"), Flags: []Flag{{"--flag", path, value}}, Checks: checks})
				if faults, ok := err.(*Faults); ok {
					return slices.ContainsFunc(faults.List, func(f Fault) bool {
						return f.Path == at || f.Path == "--flag" && !strings.Contains(f.Message, "is missing")
					})
				}
				return false
			}
			for _, inside := range []string{from, to} {
				if inside != "" && refused(inside) {
					t.Errorf("%s: %s is refused, and the page says %s", k.path, inside, k.rangeText())
				}
			}
			for _, outside := range []string{beyond(t, k.typ, from, -1), beyond(t, k.typ, to, 1)} {
				if outside != "" && !refused(outside) {
					t.Errorf("%s: %s is not refused, and the page says %s", k.path, outside, k.rangeText())
				}
				tried++
			}
		}
	}
	if tried < 40 {
		t.Errorf("%d bounds tried", tried)
	}
}

// beyond is a value next to a bound, on its outer side; "" where there is none.
func beyond(t *testing.T, typ reflect.Type, bound string, step int64) string {
	t.Helper()
	if bound == "" {
		return ""
	}
	switch typ {
	case reflect.TypeFor[time.Duration]():
		d, err := ParseDuration(bound)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%dns", int64(d)+step)
	case reflect.TypeFor[Size](), reflect.TypeFor[Fraction]():
		v := reflect.New(typ)
		if err := v.Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(bound)); err != nil {
			t.Fatal(err)
		}
		if f, ok := v.Interface().(*Fraction); ok {
			return strconv.Itoa(int(float64(*f)*100)+int(step)) + "%"
		}
		return fmt.Sprintf("%dB", v.Elem().Int()+step)
	}
	n, err := strconv.ParseInt(bound, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return strconv.FormatInt(n+step, 10)
}

var keyForm = regexp.MustCompile("`([a-z0-9_]+(?:\\.[a-z0-9_]+)*(?:\\.\\*)?)`")

// The guide names keys that are there, and says to which question each setting of a table belongs.
func TestGuideKeys(t *testing.T) {
	guide, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tables, ok := strings.Cut(string(guide), "\n| question |")
	if !ok {
		t.Fatal("docs/configuration.md has no table of questions")
	}
	tables, _, _ = strings.Cut(tables, "\n\n")
	named := map[string]bool{}
	for _, line := range strings.Split(tables, "\n") {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, m := range keyForm.FindAllStringSubmatch(cells[2], -1) {
				named[m[1]] = false
			}
		}
	}
	for _, s := range reference(t) {
		if s.title != "Settings of a table" {
			continue
		}
		for _, k := range s.keys {
			section, _, _ := strings.Cut(k.path, ".")
			for _, name := range []string{k.path, section + ".*"} {
				if _, ok := named[name]; ok {
					named[name] = true
					section = ""
				}
			}
			if section != "" {
				t.Errorf("docs/configuration.md, tables: no question has %s", k.path)
			}
		}
	}
	for name, known := range named {
		if !known {
			t.Errorf("docs/configuration.md, tables: there is no setting %s", name)
		}
	}
}
