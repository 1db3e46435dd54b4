package rowkey_test

import (
	"errors"
	"testing"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/rowkey"
)

func show(cells []rowkey.Cell) string {
	text := ""
	for _, c := range cells {
		value := "NULL"
		if c.Text != nil {
			value = "<" + *c.Text + ">"
		}
		text += c.Column + value + " "
	}
	return text
}

func TestParse(t *testing.T) {
	for in, want := range map[string]string{
		"id=7":                       "id<7> ",
		" shop = 1 , user = a b ":    "shop<1> user<a b> ",
		"a=NULL,b='NULL',c=":         "aNULL b<NULL> c<> ",
		`a='x,y''z',b="say ""hi"" "`: `a<x,y'z> b<say "hi" > `,
		"\"odd name\"=1=2":           "odd name<1=2> ",
	} {
		cells, err := rowkey.Parse(in)
		if err != nil || show(cells) != want {
			t.Errorf("%s: %s, %v; want %s", in, show(cells), err, want)
		}
	}
	for _, in := range []string{"", "id", "=1", "a='x", "a='x'y", "a=1,A=2", "a=1,"} {
		if cells, err := rowkey.Parse(in); !errors.Is(err, rowkey.ErrKey) {
			t.Errorf("%q: %s, %v", in, show(cells), err)
		}
	}
}

func TestWhole(t *testing.T) {
	cells, err := rowkey.Parse("USER=2,shop=1")
	if err != nil {
		t.Fatal(err)
	}
	if whole, err := rowkey.Whole(cells, []string{"shop", "user"}); err != nil || show(whole) != "shop<1> user<2> " {
		t.Errorf("%s, %v", show(whole), err)
	}
	for _, key := range [][]string{{"shop"}, {"shop", "user", "day"}} {
		if _, err := rowkey.Whole(cells, key); !errors.Is(err, rowkey.ErrKey) {
			t.Errorf("%v: %v", key, err)
		}
	}
}

func TestPredicate(t *testing.T) {
	s, err := schema.New(schema.Field{Name: `a"b`, Type: schema.Of(schema.StringType)}, schema.Field{Name: "n", Type: schema.Decimal(5, 2)})
	if err != nil {
		t.Fatal(err)
	}
	select1 := func(key string, row ...schema.Value) bool {
		t.Helper()
		cells, err := rowkey.Parse(key)
		if err != nil {
			t.Fatal(err)
		}
		p, err := rowkey.Predicate(cells, s)
		if err != nil {
			t.Fatal(err)
		}
		return len(p.NewEvaluator().Select([][]schema.Value{{row[0]}, {row[1]}}, []int32{0})) == 1
	}
	ten := schema.Value{Kind: schema.Dec, I: 1000}
	if !select1(`a"b='it''s',N=10`, schema.StringValue("it's"), ten) || select1(`a"b=its,N=10`, schema.StringValue("it's"), ten) ||
		!select1(`a"b=NULL`, schema.Value{}, ten) || select1(`a"b=NULL`, schema.StringValue("NULL"), ten) {
		t.Error("the wrong rows are taken")
	}
	for _, key := range []string{"n=ten", "n=1.234", "x=1"} {
		cells, _ := rowkey.Parse(key)
		if _, err := rowkey.Predicate(cells, s); !errors.Is(err, rowkey.ErrKey) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
