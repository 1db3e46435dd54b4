//go:build cgo

package sql

import (
	"context"
	"fmt"
	"slices"
	"strings"

	duck "github.com/duckdb/duckdb-go-bindings"
)

// asJoin makes a table of many groups a join: its files, each read once however
// many days have it, with a table that says which days those are, and which rows
// of the file each of them does not have.
func (x *executor) asJoin(ctx context.Context, r *reading, groups []*group) (string, error) {
	if x.joins == 0 {
		if err := x.exec(ctx, "CREATE SCHEMA __gscd; CREATE TABLE __gscd.vectors (__gscd_v INTEGER, __gscd_bits BIT)"); err != nil {
			return "", err
		}
	}
	// Days whose versions have the same columns are read together.
	var parts []string
	for len(groups) > 0 {
		var own, others []*group
		for _, g := range groups {
			if sameColumns(g.cells, groups[0].cells) {
				own = append(own, g)
			} else {
				others = append(others, g)
			}
		}
		part, err := x.join(ctx, r, own)
		if err != nil {
			return "", err
		}
		parts, groups = append(parts, part), others
	}
	return union(parts), nil
}

// join makes the table of the days of groups that have the same columns.
func (x *executor) join(ctx context.Context, r *reading, groups []*group) (string, error) {
	table := fmt.Sprintf("__gscd.days%d", x.joins)
	x.joins++
	all := *groups[0] // reads all files, without a vector
	all.files, all.vector, all.rows = nil, nil, 0
	x.mark(r, &all, groups)
	places := map[*dataFile]int{}
	var rows []string
	for _, g := range groups {
		vector := "NULL"
		if g.vector != nil {
			g.vector.joined = true
			vector = fmt.Sprint(g.vector.number)
		}
		for _, f := range g.files {
			if _, ok := places[f]; !ok {
				places[f] = len(all.files)
				all.files = append(all.files, f)
			}
			row := []string{fmt.Sprint(places[f]), quoted(g.label), vector}
			for _, c := range g.cells {
				if c.inner == "" && !c.missing {
					row = append(row, c.literal)
				}
			}
			rows = append(rows, "("+strings.Join(row, ", ")+")")
		}
		if all.rows >= 0 {
			all.rows += g.rows
		}
		if g.rows < 0 {
			all.rows = -1
		}
	}
	columns := []string{"__gscd_place BIGINT", "__gscd_label VARCHAR", "__gscd_v INTEGER"}
	outer, inner := make([]string, 0, len(r.fields)+1), []string{"file_index AS __gscd_file", "file_row_number AS __gscd_row"}
	for i, c := range all.cells {
		switch {
		case c.missing:
			outer = append(outer, c.expression())
		case c.inner != "":
			outer, inner = append(outer, c.expression()), append(inner, c.inner)
		default:
			value := fmt.Sprintf("__gscd_p%d", i)
			columns = append(columns, value+" "+typeName(r.fields[i].Type))
			outer = append(outer, value+" AS "+c.name)
		}
	}
	if r.labelColumn != "" {
		outer = append(outer, "__gscd_label AS "+identifier(r.labelColumn))
	}
	if err := x.exec(ctx, "CREATE TABLE "+table+" ("+strings.Join(columns, ", ")+")"); err != nil {
		return "", err
	}
	for batch := range slices.Chunk(rows, 1000) {
		if err := x.exec(ctx, "INSERT INTO "+table+" VALUES "+strings.Join(batch, ", ")); err != nil {
			return "", err
		}
	}
	return "SELECT " + strings.Join(outer, ", ") + " FROM (SELECT " + strings.Join(inner, ", ") + " FROM " + all.scan(r) +
		") JOIN (SELECT * FROM " + table + " LEFT JOIN __gscd.vectors USING (__gscd_v)) ON __gscd_place = __gscd_file" +
		" WHERE __gscd_bits IS NULL OR get_bit(__gscd_bits, CAST(__gscd_row AS INTEGER)) = 0", nil
}

// addVector puts a deletion vector where joins find it.
func (x *executor) addVector(ctx context.Context, number int, bits []byte) error {
	p, err := x.prepare(ctx, "INSERT INTO __gscd.vectors VALUES ($1, $2)")
	if err != nil {
		return err
	}
	defer p.close()
	duck.BindInt32(p.stmt, 1, int32(number))
	return x.runWithBits(ctx, p, 2, bits)
}
