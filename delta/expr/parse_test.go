package expr

import (
	"errors"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/schema"
)

// shop is the schema of most tests.
var shop = func() *schema.Schema {
	column := func(name string, t schema.Type) schema.Field {
		return schema.Field{Name: name, Type: t, Nullable: true}
	}
	s, err := schema.New(
		column("id", schema.Of(schema.Long)), column("qty", schema.Of(schema.Byte)),
		column("name", schema.Of(schema.StringType)), column("amount", schema.Decimal(6, 2)),
		column("f", schema.Of(schema.FloatType)), column("d", schema.Of(schema.DoubleType)),
		column("day", schema.Of(schema.Date)), column("ts", schema.Of(schema.Timestamp)),
		column("local", schema.Of(schema.TimestampNTZ)), column("ok", schema.Of(schema.Boolean)),
		column("raw", schema.Of(schema.BinaryType)), column("Odd \"name", schema.Of(schema.Integer)),
		column("date", schema.Of(schema.Date)),
		column("list", schema.Type{Primitive: schema.Array, Nested: &schema.Nested{Element: schema.Of(schema.Long)}}),
	)
	if err != nil {
		panic(err)
	}
	return s
}()

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		`id = 5`:                        `"id" = 5`,
		`5 < id`:                        `"id" > 5`,
		`ID>=+5 and Name<>'o''k'`:       `("id" >= 5 AND "name" <> 'o''k')`,
		`a`:                             ``,
		`id = 1 OR id = 2 AND ok`:       `("id" = 1 OR ("id" = 2 AND "ok" = TRUE))`,
		`(id = 1 OR id = 2) AND ok`:     `(("id" = 1 OR "id" = 2) AND "ok" = TRUE)`,
		`NOT (id = 1 OR NOT ok)`:        `("id" <> 1 AND "ok" = TRUE)`,
		`NOT NOT id = 1`:                `"id" = 1`,
		`id IN (3, 1, 2, 3)`:            `"id" IN (1, 2, 3)`,
		`id NOT IN (1, NULL)`:           `("id" NOT IN (1) AND NULL)`,
		`qty BETWEEN 1 AND 3`:           `("qty" >= 1 AND "qty" <= 3)`,
		`qty NOT BETWEEN 1 AND 3`:       `("qty" < 1 OR "qty" > 3)`,
		`name LIKE 'a%'`:                `"name" LIKE 'a%'`,
		`name NOT LIKE 'a!%' ESCAPE'!'`: `"name" NOT LIKE 'a!%' ESCAPE '!'`,
		`id IS NULL`:                    `"id" IS NULL`,
		`id IS NOT NULL`:                `"id" IS NOT NULL`,
		`NOT id IS NULL`:                `"id" IS NOT NULL`,
		`list IS NULL`:                  `"list" IS NULL`,
		`id = NULL`:                     `NULL`,
		`NOT id = NULL`:                 `NULL`,
		`TRUE`:                          `TRUE`,
		`NOT TRUE`:                      `FALSE`,
		`1 = 1.0`:                       `TRUE`,
		`'a' < 'b'`:                     `TRUE`,
		`NULL IS NULL`:                  `TRUE`,
		`id > 1.5`:                      `"id" > 1`,
		`id >= 1.5`:                     `"id" > 1`,
		`id < 1.5`:                      `"id" <= 1`,
		`id < -1.5`:                     `"id" <= -2`,
		`id = 1.5`:                      `"id" IN ()`,
		`id <> 1.5`:                     `"id" NOT IN ()`,
		`id = 15e-1`:                    `"id" IN ()`,
		`id = 1.50e2`:                   `"id" = 150`,
		`id = '9223372036854775807'`:    `"id" = 9223372036854775807`,
		`id = -9223372036854775808`:     `"id" = -9223372036854775808`,
		`amount = 1.1`:                  `"amount" = 1.10`,
		`amount > '0.005'`:              `"amount" > 0.00`,
		`amount < -0.005`:               `"amount" <= -0.01`,
		`amount = 9999.99`:              `"amount" = 9999.99`,
		`f = 0.1`:                       `"f" = 0.1`,
		`d < 'NaN'`:                     `"d" < 'NaN'`,
		`d > '-Infinity'`:               `"d" > '-Infinity'`,
		`day = '2022-07-16'`:            `"day" = '2022-07-16'`,
		`day = DATE '2022-07-16'`:       `"day" = '2022-07-16'`,
		`date = DATE'0000-01-01'`:       `"date" = '0000-01-01'`,
		`day < '+12022-07-16'`:          `"day" < '+12022-07-16'`,
		`ts = '2022-07-16'`:             `"ts" = '2022-07-16T00:00:00.000000Z'`,
		`ts = '2022-07-16 08:00'`:       `"ts" = '2022-07-16T08:00:00.000000Z'`,
		`ts = TIMESTAMP '2022-07-16T08:00:00.5+08:00'`: `"ts" = '2022-07-16T00:00:00.500000Z'`,
		`ts = '1969-12-31 23:59:59.999999Z'`:           `"ts" = '1969-12-31T23:59:59.999999Z'`,
		`ts < '2022-07-16 08:00:00 -0330'`:             `"ts" < '2022-07-16T11:30:00.000000Z'`,
		`local = '2022-07-16 08:00:00'`:                `"local" = '2022-07-16T08:00:00.000000'`,
		`ok`:                                           `"ok" = TRUE`,
		`NOT ok`:                                       `"ok" <> TRUE`,
		`ok = 0`:                                       `"ok" = FALSE`,
		`ok = 'True'`:                                  `"ok" = TRUE`,
		`raw = '0x00fF'`:                               `"raw" = '0x00ff'`,
		`raw = 0x00fF OR raw = x'01'`:                  `("raw" = '0x00ff' OR "raw" = '0x01')`,
		"`Odd \"name` = 1":                             `"Odd ""name" = 1`,
		`"Odd ""name" = 1`:                             `"Odd ""name" = 1`,
		`id = qty`:                                     `"id" = "qty"`,
		`amount >= qty`:                                `"amount" >= "qty"`,
		`((id)) = (5)`:                                 ``,
		`(id) = 5`:                                     `"id" = 5`,
		`(5 = id) AND ((ok))`:                          `("id" = 5 AND "ok" = TRUE)`,
	} {
		p, err := Parse(text, shop)
		if want == "" {
			var syntax *SyntaxError
			if !errors.As(err, &syntax) {
				t.Errorf("%s: %v, want a syntax error", text, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if got := p.String(); got != want {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
		if p.Text() != text {
			t.Errorf("%s: text %s", text, p.Text())
		}
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		``:                                   "the expression is empty at position 1",
		`id > 5 AND regoin = 'x'`:            "there is no column regoin at position 12\n  id > 5 AND regoin = 'x'\n             ^",
		`nam = 'x'`:                          "there is no column nam (did you mean name?)",
		`name = "Johnny"`:                    `there is no column Johnny (text goes in single quotes)`,
		`name = 5`:                           "column name is string: write text in quotes: '5' at position 8",
		`id = 'abc'`:                         "column id is long: compare it with a number at position 6",
		`qty = 128`:                          "128 is out of range of column qty, byte: -128 to 127 at position 7",
		`qty < '-129'`:                       "-129 is out of range of column qty, byte: -128 to 127",
		`id < 9223372036854775808`:           "9223372036854775808 is out of range of column id, long: -9223372036854775808 to 9223372036854775807",
		`amount = 10000`:                     "10000 is out of range of column amount, decimal(6,2): it has 4 digits before the point",
		`f = 1e39`:                           "1e39 is out of range of column f, float",
		`d = 'nan'`:                          "compare it with a number, or 'NaN', 'Infinity', '-Infinity'",
		`d = '0x10'`:                         "compare it with a number",
		`day = '2022-02-30'`:                 "column day is date: there is no day 2022-02-30 at position 7",
		`day = '2022-7-1'`:                   "column day is date: write a date as '2022-07-16'",
		`day = '+9999999-01-01'`:             "+9999999-01-01 is out of range of date",
		`day = 20220716`:                     "write a date as '2022-07-16'",
		`ts = '2022-07-16 24:00:00'`:         "there is no time 2022-07-16 24:00:00",
		`ts = '2022-07-16 08:00:00.1234567'`: "a second has at most six digits after the point",
		`ts = '+300000-01-01'`:               "+300000-01-01 is out of range of timestamp",
		`ts = '2022-07-16 08:00:00+19'`:      "write a time as",
		`local = '2022-07-16 08:00:00Z'`:     "its times have no zone",
		`raw = 'abc'`:                        "write its bytes as '0x00ff'",
		`raw = '0x0'`:                        "an even number of hex digits",
		`list = 5`:                           "column list is array<long>: it can only be tested with IS NULL",
		`id LIKE '5'`:                        "column id is long: LIKE takes text",
		`name LIKE name`:                     "a pattern in single quotes is expected behind LIKE, not name",
		`name LIKE 'a\'`:                     "the pattern ends in its escape character",
		`name LIKE 'a' ESCAPE 'ab'`:          "ESCAPE takes one character",
		`id`:                                 "column id is long, no condition: compare it with a value",
		`5`:                                  "5 is no condition",
		`id = `:                              "a column or a value is expected, not the end at position 6",
		`id = 5 6`:                           "AND, OR or the end is expected, not 6 at position 8",
		`(id = 5`:                            ") is expected, not the end",
		`(id = 5) = 6`:                       "= stands behind a condition",
		`id IN ()`:                           "a column or a value is expected, not )",
		`id IN 5`:                            "( is expected behind IN, not 5",
		`id IN (5`:                           ", or ) is expected in the list of IN, not the end",
		`id BETWEEN 5 OR 6`:                  "AND is expected between the bounds of BETWEEN, not OR",
		`id IS 5`:                            "NULL is expected behind IS, not 5",
		`id NOT 5`:                           "IN, BETWEEN or LIKE is expected behind NOT, not 5",
		`id == 5`:                            "== is written = here at position 4",
		`id ! 5`:                             "! alone means nothing here",
		`name = 'x`:                          "the ' that begins here is not closed at position 8",
		`id = 5; DROP`:                       "the character ';' has no meaning here at position 7",
		`id = 5x`:                            "neither a number nor a name",
		`id = 1.2.3`:                         "1.2.3 is no number",
		`id = 1e99999`:                       "is no number",
		`"" = 1`:                             "a name is empty",
		`AND`:                                "a column or a value is expected, not AND",
		`id = name`:                          "column id is long and column name is string: compare each with a value",
		`1 = 'a'`:                            "no column is compared here",
		"ok AND\n\tid = 'é' x":               "column id is long: compare it with a number at position 14\n  \tid = 'é' x\n  \t     ^",
		strings.Repeat("(", 300) + "ok":      "parentheses are nested deeper than 200",
	} {
		_, err := Parse(text, shop)
		var syntax *SyntaxError
		if !errors.As(err, &syntax) {
			t.Errorf("%s: %v, want a syntax error", text, err)
			continue
		}
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\n%s\nwant:\n%s", text, err, want)
		}
	}
	if _, err := Parse(strings.Repeat("x", maxText+1), shop); err == nil {
		t.Error("a text of 1 MiB was taken")
	}
}

func TestColumnsOf(t *testing.T) {
	p, err := Parse(`name = 'a' AND (id = 1 OR NOT qty IN (1)) AND id < qty AND raw IS NULL AND name LIKE 'a'`, shop)
	if err != nil {
		t.Fatal(err)
	}
	got := p.Columns()
	want := []int{0, 1, 2, 10}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("%v, want %v", got, want)
		}
	}
}

func TestParseOrderBy(t *testing.T) {
	got, err := ParseOrderBy(`name desc, ID, "Odd ""name" ASC`, shop)
	want := []Order{{2, true}, {0, false}, {11, false}}
	if err != nil || len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("%v, %v", got, err)
	}
	for text, want := range map[string]string{
		``:            "a column is expected, not the end",
		`id,`:         "a column is expected, not the end",
		`id dsc`:      "a comma or the end is expected, not dsc",
		`nosuch`:      "there is no column nosuch",
		`list`:        "column list is array<long> and has no order",
		`5`:           "a column is expected, not 5",
		`id desc asc`: "a comma or the end is expected, not asc",
	} {
		if _, err := ParseOrderBy(text, shop); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	columns, err := ParseColumns(`NAME,id`, shop)
	if err != nil || len(columns) != 2 || columns[0] != "name" || columns[1] != "id" {
		t.Errorf("%v, %v", columns, err)
	}
	if _, err := ParseColumns(`id, ID`, shop); err == nil || !strings.Contains(err.Error(), "named twice") {
		t.Errorf("got %v", err)
	}
	null, one, two := schema.NullValue(), schema.IntValue(1), schema.IntValue(2)
	asc, desc := Order{}, Order{Desc: true}
	for _, tc := range []struct {
		o    Order
		a, b schema.Value
		want int
	}{
		{asc, null, one, -1},
		{asc, one, null, 1},
		{asc, null, null, 0},
		{asc, one, two, -1},
		{desc, null, one, 1},
		{desc, one, null, -1},
		{desc, one, two, 1},
		{desc, one, one, 0},
	} {
		if got := tc.o.Compare(tc.a, tc.b); got != tc.want {
			t.Errorf("%+v %v %v: %d, want %d", tc.o, tc.a, tc.b, got, tc.want)
		}
	}
}

// Any text gives a filter or a *SyntaxError, and a filter written out is the same filter.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`id = 5 AND NOT (name LIKE 'a%' OR qty BETWEEN 1 AND 3)`, `ts >= TIMESTAMP '2022-07-16 08:00:00.123456+08:00'`,
		`id IN (1, 2.5, NULL) OR raw = 0x00ff`, "`Odd \"name` <> -1e3 AND d < 'NaN'", `"f" >= 1e-45 AND day <> '+10000-01-01'`,
		`name = 'it''s' AND name LIKE '100\%' ESCAPE '!'`, `amount < -0.005`, `ok AND NOT ok IS NULL`, `id < qty`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, orderErr := ParseOrderBy(text, shop)
		_, columnsErr := ParseColumns(text, shop)
		p, err := Parse(text, shop)
		for _, err := range []error{err, orderErr, columnsErr} {
			var syntax *SyntaxError
			if err != nil && (!errors.As(err, &syntax) || syntax.Error() == "") {
				t.Fatalf("%q: %v", text, err)
			}
		}
		if err != nil {
			return
		}
		cells := make([][]schema.Value, len(shop.Fields))
		p.NewEvaluator().Select(cells, []int32{0, 1, 2})
		p.CanSkip(func(Column) Bounds { return Bounds{} })
		written := p.String()
		if strings.Contains(written, "IN ()") {
			return // has no form in the language
		}
		again, err := Parse(written, shop)
		if err != nil {
			t.Fatalf("%q was written as %q: %v", text, written, err)
		}
		if again.String() != written {
			t.Fatalf("%q was written as %q, then as %q", text, written, again.String())
		}
	})
}

func TestParseValue(t *testing.T) {
	for _, tc := range []struct {
		column, text string
		want         schema.Value
		fault        string
	}{
		{"id", "42", schema.IntValue(42), ""},
		{"amount", "-1.5", schema.Value{Kind: schema.Dec, I: -150}, ""},
		{"amount", "1.005", schema.Value{}, "column amount is decimal(6,2) and can't hold 1.005 exactly"},
		{"qty", "300", schema.Value{}, "out of range"},
		{"name", "it's", schema.StringValue("it's"), ""},
		{"ok", "true", schema.BoolValue(true), ""},
		{"raw", "0x00ff", schema.BinaryValue("\x00\xff"), ""},
		{"day", "1970-01-02", schema.IntValue(1), ""},
		{"ts", "1970-01-01T00:00:01Z", schema.IntValue(1e6), ""},
	} {
		got, err := ParseValue(tc.text, shop.Fields[shop.Index(tc.column)])
		if tc.fault != "" {
			if !errors.Is(err, ErrValue) || !strings.Contains(err.Error(), tc.fault) {
				t.Errorf("%s as %s: %v, want %s", tc.text, tc.column, err, tc.fault)
			}
		} else if err != nil || got != tc.want {
			t.Errorf("%s as %s: %v, %v", tc.text, tc.column, got, err)
		}
	}
}
