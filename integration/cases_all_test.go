package integration

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// Every case of shared/cases/GIVEN.md has a test that reads it, by its number.
func TestEveryGivenCaseHasATest(t *testing.T) {
	text := readFile(t, sharedFile(t, "cases/GIVEN.md"))
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	tests := map[int][]string{} // functions by the number of the case that they read
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || len(call.Args) != 2 {
					return true
				}
				name, ok := call.Fun.(*ast.Ident)
				literal, isLiteral := call.Args[1].(*ast.BasicLit)
				if ok && isLiteral && name.Name == "theCase" {
					if number, err := strconv.Atoi(literal.Value); err == nil {
						tests[number] = append(tests[number], f.Name.Name)
					}
				}
				return true
			})
		}
	}
	headings := regexp.MustCompile(`(?m)^## (\d+)\. (.*)$`).FindAllSubmatch(text, -1)
	for _, h := range headings {
		number, err := strconv.Atoi(string(h[1]))
		if err != nil {
			t.Fatal(err)
		}
		if len(tests[number]) == 0 {
			t.Errorf("case %d (%s) has no test: write one that begins with theCase(t, %d)", number, h[2], number)
			continue
		}
		t.Logf("%2d %v: %s", number, tests[number], h[2])
	}
	if len(headings) < 30 {
		t.Errorf("%d cases found in GIVEN.md: their headings have changed", len(headings))
	}
}
