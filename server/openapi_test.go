package server

import (
	"encoding/json"
	"flag"
	"maps"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/gscd-io/gscd/delta/objstore/mem"
)

var rewriteOpenAPI = flag.Bool("openapi.rewrite", false, "write docs/openapi.yaml anew")

// document is an OpenAPI document as far as the tests look at it.
type document struct {
	Paths map[string]map[string]struct {
		OperationID string `yaml:"operationId"`
		Responses   map[string]struct{ Description string }
	}
	Components struct {
		Schemas map[string]struct {
			Required   []string
			Properties map[string]property
		}
	}
}

type property struct {
	Type, Format, Description string
	Nullable                  bool
	Enum                      []any
	Ref                       string `yaml:"$ref"`
	Items                     *property
	AllOf                     []property `yaml:"allOf"`
}

func (p property) refersTo() string {
	ref := p.Ref
	if len(p.AllOf) > 0 {
		ref = p.AllOf[0].Ref
	}
	if p.Items != nil {
		ref = p.Items.Ref
	}
	return strings.TrimPrefix(ref, "#/components/schemas/")
}

func readDocument(t *testing.T) *document {
	t.Helper()
	d := &document{}
	if err := yaml.Unmarshal(openAPI, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// The page of the docs is what the program serves.
func TestOpenAPIPage(t *testing.T) {
	const page = "../docs/openapi.yaml"
	if *rewriteOpenAPI {
		if err := os.WriteFile(page, openAPI, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := os.ReadFile(page); err != nil || string(data) != string(openAPI) {
		t.Errorf("%s is not server/openapi.yaml (%v): go test ./server -run TestOpenAPIPage -openapi.rewrite", page, err)
	}
}

// elsewhere are keys that not every answer has: of a group, and of its other processes.
var elsewhere = map[string]bool{"Status.group": true, "Group.members": true}

// The schemas have the fields of the Go types, with their kinds, and no other.
func TestOpenAPIAgreesWithTheTypes(t *testing.T) {
	d := readDocument(t)
	seen := map[string]bool{}
	var check func(schema string, of reflect.Type)
	check = func(schema string, of reflect.Type) {
		if seen[schema] {
			return
		}
		seen[schema] = true
		s, ok := d.Components.Schemas[schema]
		if !ok {
			t.Errorf("%s: no schema %s", of, schema)
			return
		}
		var names []string
		for i := range of.NumField() {
			f := of.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			names = append(names, name)
			p, ok := s.Properties[name]
			if !ok {
				t.Errorf("%s has no property %s", schema, name)
				continue
			}
			if p.Description == "" {
				t.Errorf("%s.%s has no description", schema, name)
			}
			kind, pointer := f.Type, false
			if kind.Kind() == reflect.Pointer {
				kind, pointer = kind.Elem(), true
			}
			if must := slices.Contains(s.Required, name); p.Nullable && !pointer || !must && !pointer && kind.Kind() != reflect.Slice && name != "for" {
				t.Errorf("%s.%s is nullable %v, required %v, and its type is %s", schema, name, p.Nullable, must, f.Type)
			}
			want := ""
			switch {
			case kind == reflect.TypeFor[time.Time]():
				want = "string date-time"
			case kind.Kind() == reflect.String:
				want = "string "
			case kind.Kind() == reflect.Bool:
				want = "boolean "
			case kind.Kind() == reflect.Int32:
				want = "integer int32"
			case kind.Kind() == reflect.Int64, kind.Kind() == reflect.Int:
				want = "integer int64"
			case kind.Kind() == reflect.Slice:
				want = "array "
				check(p.refersTo(), kind.Elem())
			case kind.Kind() == reflect.Struct:
				want = " "
				check(p.refersTo(), kind)
			}
			if got := p.Type + " " + p.Format; got != want {
				t.Errorf("%s.%s is %q, the type %s", schema, name, got, f.Type)
			}
		}
		for name := range s.Properties {
			if !slices.Contains(names, name) {
				t.Errorf("%s has the property %s, and %s no such field", schema, name, of)
			}
		}
	}
	check("Status", reflect.TypeFor[Status]())
	check("LogLevelRequest", reflect.TypeFor[levelRequest]())
	seen["LogLevel"] = true
	for name := range d.Components.Schemas {
		if !seen[name] {
			t.Errorf("the schema %s describes nothing", name)
		}
	}
	// Each kind of error and each rule is named.
	var faults, rules []string
	for _, f := range []Fault{LostOwnership, DeadLetterLimit, LostOffsets, LateChange, ForeignCommit, WrongCalendar, ByPolicy, InternalFault, PassingFault, OtherFault} {
		faults = append(faults, string(f))
		if advice[f] == "" {
			t.Errorf("nothing is said of what to do about %s", f)
		}
	}
	for _, r := range []Rule{RuleError, RuleNoProcess, RuleSilent, RuleNotLoaded, RuleWaits, RuleQueued, RuleGone, RuleTransaction, RuleBehind, RuleHeld, RuleLoad, RuleClock, RuleIdle, RuleWatermark, RuleProof} {
		rules = append(rules, string(r))
	}
	texts := func(list []any) (out []string) {
		for _, v := range list {
			if text, ok := v.(string); ok {
				out = append(out, text)
			}
		}
		return out
	}
	if got := texts(d.Components.Schemas["Table"].Properties["error_kind"].Enum); !slices.Equal(got, faults) {
		t.Errorf("error_kind: %q, the program has %q", got, faults)
	}
	if got := texts(d.Components.Schemas["Cause"].Properties["rule"].Enum); !slices.Equal(got, rules) {
		t.Errorf("rule: %q, the program has %q", got, rules)
	}
}

// holds compares an answer with what the document says of its schema: all of that and
// nothing else.
func (d *document) holds(t *testing.T, schema, body string) {
	t.Helper()
	var answer any
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	var walk func(path, schema string, v any)
	walk = func(path, schema string, v any) {
		object, ok := v.(map[string]any)
		if !ok {
			t.Errorf("%s is %v, no object", path, v)
			return
		}
		properties := d.Components.Schemas[schema].Properties
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			value, there := object[name]
			p := properties[name]
			switch inner := p.refersTo(); {
			case elsewhere[path+"."+name] && !there:
			case !there:
				t.Errorf("%s has no %s", path, name)
			case value == nil && !p.Nullable:
				t.Errorf("%s.%s is null", path, name)
			case value == nil, inner == "":
			case p.Items != nil:
				for _, one := range value.([]any) {
					walk(path+"."+name, inner, one)
				}
			default:
				walk(path+"."+name, inner, value)
			}
			if text, ok := value.(string); ok && len(p.Enum) > 0 && !slices.Contains(p.Enum, any(text)) {
				t.Errorf("%s.%s is %q, none of %v", path, name, text, p.Enum)
			}
		}
		for name := range object {
			if _, ok := properties[name]; !ok {
				t.Errorf("%s has %s, which is not described", path, name)
			}
		}
	}
	walk(schema, schema, answer)
}

// A real answer has what the document says.
func TestOpenAPIAgreesWithAnswers(t *testing.T) {
	d := readDocument(t)
	s, get, stop := served(t, mem.New())
	defer stop()
	await(t, get)
	var status Status
	_, body := get("/status")
	d.holds(t, "Status", body)
	decoder := json.NewDecoder(strings.NewReader(body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&status); err != nil || len(status.Tables) != 1 || status.Tables[0].Why == nil || status.Tables[0].Why.Causes[0].Rule != RuleProof || *status.Tables[0].Rows != 4 {
		t.Errorf("%v: %s", err, body)
	}
	// Every page that is described answers, and no other does.
	for path, methods := range d.Paths {
		for method := range methods {
			w := httptest.NewRecorder()
			s.Handler().ServeHTTP(w, httptest.NewRequest(strings.ToUpper(method), strings.ReplaceAll(path, "{name}", "t"), nil))
			if w.Code == 404 && path != "/loglevel" || w.Code == 405 {
				t.Errorf("%s %s: %d", method, path, w.Code)
			}
			if path == "/openapi.yaml" && w.Body.String() != string(openAPI) {
				t.Error("/openapi.yaml is another document")
			}
		}
	}
}
