package config

import (
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// entry is one line of a mapping.
type entry struct {
	key   string
	value ast.Node
	line  int
}

// entries lists a mapping, with what << brings where it does not say it itself.
func (r *reader) entries(node ast.Node, path string) ([]entry, bool) {
	m, ok := node.(ast.MapNode)
	if !ok {
		r.faultf(origin{line: lineOf(node, 0)}, path, "is a section: write keys below it, each with a value")
		return nil, false
	}
	var own, merged []entry
	for it := m.MapRange(); it.Next(); {
		key := it.Key()
		line := lineOf(key, 0)
		if key.IsMergeKey() {
			from, mapping := r.resolve(it.Value()).(*ast.MappingNode)
			if !mapping {
				r.faultf(origin{line: line}, join(path, "<<"), "takes the alias of a section")
				continue
			}
			for _, e := range from.Values {
				merged = append(merged, entry{keyText(e.Key), e.Value, lineOf(e.Key, line)})
			}
			continue
		}
		own = append(own, entry{keyText(key), it.Value(), line})
	}
	for _, e := range merged {
		if !slices.ContainsFunc(own, func(o entry) bool { return o.key == e.key }) {
			own = append(own, e)
		}
	}
	return own, true
}

func keyText(key ast.MapKeyNode) string {
	if text, ok := scalarText(key); ok {
		return text
	}
	return strings.TrimSpace(key.String())
}

// resolve takes anchors, aliases and tags away.
func (r *reader) resolve(node ast.Node) ast.Node {
	for range 100 { // an alias may name an alias, but not itself for ever
		switch n := node.(type) {
		case *ast.AnchorNode:
			node = n.Value
		case *ast.AliasNode:
			text, _ := scalarText(n.Value)
			node = r.anchors[text]
		case *ast.TagNode:
			node = n.Value
		case *ast.MappingKeyNode:
			node = n.Value
		default:
			return node
		}
	}
	return nil
}

// Visit collects the anchors of a document.
func (r *reader) Visit(node ast.Node) ast.Visitor {
	if a, ok := node.(*ast.AnchorNode); ok {
		if text, ok := scalarText(a.Name); ok {
			r.anchors[text] = a.Value
		}
	}
	return r
}

func isNull(node ast.Node) bool {
	if node == nil {
		return true
	}
	_, null := node.(*ast.NullNode)
	return null
}

// scalarText is the text of a scalar as written: 04:00 stays 04:00, 010 stays 010.
func scalarText(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return strings.TrimSuffix(n.Value.Value, "\n"), true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	case *ast.MappingKeyNode:
		return scalarText(n.Value)
	}
	return "", false
}

// colonText is the text kafka:9092 that the parser takes for a mapping, in a list
// inside braces: YAML wants a blank behind the colon of a mapping there.
func colonText(node ast.Node) (string, bool) {
	m, ok := node.(*ast.MappingNode)
	if !ok || m.IsFlowStyle || len(m.Values) != 1 {
		return "", false
	}
	pair := m.Values[0]
	key, plain := pair.Key.(*ast.StringNode)
	value, scalar := scalarText(pair.Value)
	if !plain || !scalar || key.GetToken().Type != token.StringType {
		return "", false
	}
	colon, behind := pair.Start.Position, pair.Value.GetToken().Position
	return key.Value + ":" + value, colon.Line == behind.Line && colon.Column+1 == behind.Column
}

// lineOf is the line of a node, or the one given.
func lineOf(node ast.Node, line int) int {
	if node == nil {
		return line
	}
	return lineOfToken(node.GetToken(), line)
}

func lineOfToken(t *token.Token, line int) int {
	if t == nil || t.Position == nil || t.Position.Line < 1 {
		return line
	}
	return t.Position.Line
}
