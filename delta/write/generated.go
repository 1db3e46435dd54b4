package write

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gscd-io/gscd/delta/schema"
)

// generator computes a generated column of the other columns of a row.
type generator struct {
	text    string
	value   func(row []schema.Value) schema.Value
	columns []int // that it is computed of
}

// term is a part of a generation expression, and the type that it has.
type term struct {
	value func(row []schema.Value) schema.Value
	typ   schema.Type
}

// parseGenerator reads the expressions that generated columns mostly have: a column,
// CAST(x AS type), DATE(x), YEAR, MONTH, DAY, HOUR and MINUTE of x, SUBSTRING(x, from, n),
// DATE_FORMAT(x, 'yyyy-MM') and the like. Times are taken as UTC.
func parseGenerator(text string, s *schema.Schema, f *schema.Field) (*generator, error) {
	p := &generatorParser{rest: text, schema: s}
	t, err := p.term()
	if err != nil {
		return nil, err
	}
	if p.space(); p.rest != "" {
		return nil, fmt.Errorf("%q is not understood", p.rest)
	}
	if t, err = cast(t, f.Type); err != nil {
		return nil, err
	}
	return &generator{text, t.value, p.columns}, nil
}

type generatorParser struct {
	rest    string
	schema  *schema.Schema
	depth   int
	columns []int
}

func (p *generatorParser) space() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

// word takes a name, which may be in backticks.
func (p *generatorParser) word() (name string, quoted bool, err error) {
	p.space()
	if rest, ok := strings.CutPrefix(p.rest, "`"); ok {
		name, after, closed := strings.Cut(rest, "`")
		if !closed {
			return "", true, fmt.Errorf("a backtick has no end")
		}
		p.rest = after
		return name, true, nil
	}
	n := strings.IndexFunc(p.rest, func(r rune) bool {
		return r != '_' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r < utf8.RuneSelf
	})
	if n < 0 {
		n = len(p.rest)
	}
	if n == 0 {
		return "", false, fmt.Errorf("a name is expected before %q", p.rest)
	}
	name, p.rest = p.rest[:n], p.rest[n:]
	return name, false, nil
}

func (p *generatorParser) symbol(s string) bool {
	p.space()
	rest, ok := strings.CutPrefix(p.rest, s)
	if ok {
		p.rest = rest
	}
	return ok
}

func (p *generatorParser) term() (term, error) {
	if p.depth++; p.depth > 20 {
		return term{}, fmt.Errorf("it is nested too deep")
	}
	if p.symbol("(") {
		t, err := p.term()
		if err == nil && !p.symbol(")") {
			err = fmt.Errorf("a bracket has no end")
		}
		return t, err
	}
	name, quoted, err := p.word()
	if err != nil {
		return term{}, err
	}
	if quoted || !p.symbol("(") {
		i := p.schema.IndexFold(name)
		if i < 0 {
			return term{}, fmt.Errorf("there is no column %q", name)
		}
		p.columns = append(p.columns, i)
		return term{func(row []schema.Value) schema.Value { return row[i] }, p.schema.Fields[i].Type}, nil
	}
	t, err := p.term()
	if err != nil {
		return t, err
	}
	if t, err = p.function(strings.ToUpper(name), t); err != nil {
		return t, err
	}
	if !p.symbol(")") {
		return t, fmt.Errorf("%q is not understood", p.rest)
	}
	return t, nil
}

// clock gives the part of a date or time that a function is about.
var clock = map[string]func(time.Time) int{
	"YEAR": time.Time.Year, "MONTH": func(t time.Time) int { return int(t.Month()) }, "DAY": time.Time.Day,
	"DAYOFMONTH": time.Time.Day, "HOUR": time.Time.Hour, "MINUTE": time.Time.Minute,
}

// dateForms are the patterns of DATE_FORMAT that are understood, as Go writes them.
var dateForms = map[string]string{
	"yyyy": "2006", "yyyy-MM": "2006-01", "yyyy-MM-dd": "2006-01-02", "yyyy-MM-dd-HH": "2006-01-02-15", "yyyyMM": "200601", "yyyyMMdd": "20060102", "MM": "01", "dd": "02", "HH": "15",
}

func (p *generatorParser) function(name string, t term) (term, error) {
	inner := t.value
	isTime := t.typ.Primitive == schema.Date || t.typ.Primitive == schema.Timestamp || t.typ.Primitive == schema.TimestampNTZ
	switch name {
	case "CAST":
		as, _, err := p.word()
		if err != nil || !strings.EqualFold(as, "AS") {
			return t, fmt.Errorf("CAST without AS")
		}
		to, _, err := p.word()
		if err != nil {
			return t, err
		}
		typ, err := schema.ParsePrimitive(strings.ToLower(to))
		if err != nil {
			return t, err
		}
		return cast(t, typ)
	case "DATE", "TO_DATE":
		return cast(t, schema.Of(schema.Date))
	case "YEAR", "MONTH", "DAY", "DAYOFMONTH", "HOUR", "MINUTE":
		if !isTime {
			return t, fmt.Errorf("%s of a %s", name, t.typ)
		}
		return term{notNull(inner, func(v schema.Value) schema.Value {
			return schema.IntValue(int64(clock[name](timeOf(v, t.typ))))
		}), schema.Of(schema.Integer)}, nil
	case "SUBSTRING", "SUBSTR":
		from, err1 := p.number()
		n, err2 := p.number()
		if err1 != nil || err2 != nil || from < 1 || n < 0 || t.typ.Primitive != schema.StringType {
			return t, fmt.Errorf("%s is understood of a text, a place from 1 on, and a length", name)
		}
		return term{notNull(inner, func(v schema.Value) schema.Value { return schema.StringValue(substring(v.S, from-1, n)) }), t.typ}, nil
	case "DATE_FORMAT":
		if !p.symbol(",") || !isTime {
			return t, fmt.Errorf("DATE_FORMAT of a %s", t.typ)
		}
		if p.space(); !p.symbol("'") {
			return t, fmt.Errorf("DATE_FORMAT without a pattern in quotes")
		}
		pattern, rest, _ := strings.Cut(p.rest, "'")
		form, ok := dateForms[pattern]
		if !ok {
			return t, fmt.Errorf("the pattern %q is not understood", pattern)
		}
		p.rest = rest
		return term{notNull(inner, func(v schema.Value) schema.Value { return schema.StringValue(timeOf(v, t.typ).Format(form)) }), schema.Of(schema.StringType)}, nil
	}
	return t, fmt.Errorf("the function %s is not understood", name)
}

func (p *generatorParser) number() (int, error) {
	if !p.symbol(",") {
		return 0, fmt.Errorf("a number is expected")
	}
	text, _, err := p.word()
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// substring gives n characters of a text from one on.
func substring(s string, from, n int) string {
	for range from {
		_, size := utf8.DecodeRuneInString(s)
		s = s[size:]
	}
	end := 0
	for range n {
		_, size := utf8.DecodeRuneInString(s[end:])
		end += size
	}
	return s[:end]
}

func notNull(inner func([]schema.Value) schema.Value, f func(schema.Value) schema.Value) func([]schema.Value) schema.Value {
	return func(row []schema.Value) schema.Value {
		v := inner(row)
		if v.IsNull() {
			return v
		}
		return f(v)
	}
}

func timeOf(v schema.Value, t schema.Type) time.Time {
	if t.Primitive == schema.Date {
		return time.Unix(v.I*86400, 0).UTC()
	}
	return time.UnixMicro(v.I).UTC()
}

// cast turns a term into another type, where no value is lost but the time of a day.
func cast(t term, to schema.Type) (term, error) {
	from := t.typ.Primitive
	whole := func(p schema.Primitive) bool { return p >= schema.Byte && p <= schema.Long }
	switch {
	case t.typ == to, whole(from) && whole(to.Primitive) && from <= to.Primitive,
		from == schema.Integer && whole(to.Primitive): // a part of a date is small
		return term{t.value, to}, nil
	case to.Primitive == schema.Date && (from == schema.Timestamp || from == schema.TimestampNTZ):
		return term{notNull(t.value, func(v schema.Value) schema.Value {
			const day = 86_400_000_000
			days := v.I / day
			if v.I%day < 0 {
				days--
			}
			return schema.IntValue(days)
		}), to}, nil
	case to.Primitive == schema.StringType && (whole(from) || from == schema.Date || from == schema.Boolean):
		typ := t.typ
		return term{notNull(t.value, func(v schema.Value) schema.Value {
			return schema.StringValue(string(schema.AppendText(nil, typ, v)))
		}), to}, nil
	}
	return t, fmt.Errorf("%s as %s is not understood", t.typ, to)
}
