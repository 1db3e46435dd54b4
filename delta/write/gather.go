package write

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/rowhash"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/spill"
)

// MaxExamples bounds the keys that a comparison, or an error of one, names.
const MaxExamples = 10

// DuplicateKeysError says which keys of a Source occur more than once; errors.Is takes it
// for ErrDuplicateKey.
type DuplicateKeysError struct {
	// Count counts such keys, Keys are some of them, MaxExamples at most.
	Count int64
	Keys  []DuplicateKey
}

// DuplicateKey is a key, and the rows that have it: numbers from 1 on, MaxExamples at most.
type DuplicateKey struct {
	Key  string
	Rows []int64
}

func (e *DuplicateKeysError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d keys occur more than once: ", e.Count)
	if e.Count == 1 {
		b.Reset()
		b.WriteString("a key occurs more than once: ")
	}
	for i, k := range e.Keys {
		if i > 0 {
			b.WriteString("; ")
		}
		rows := make([]string, len(k.Rows))
		for n, row := range k.Rows {
			rows[n] = strconv.FormatInt(row, 10)
		}
		last := len(rows) - 1
		fmt.Fprintf(&b, "%s in rows %s and %s", k.Key, strings.Join(rows[:last], ", "), rows[last])
	}
	if int64(len(e.Keys)) < e.Count {
		b.WriteString("; ...")
	}
	return b.String()
}

// Is makes it an ErrDuplicateKey.
func (e *DuplicateKeysError) Is(target error) bool { return target == ErrDuplicateKey }

// Gathered is the rows of a Source, read and checked, in temporary files, to be compared
// with versions of a table by key. A key with NULL in it is a key like any other. Close it.
type Gathered struct {
	// Rows counts them. Digest is SHA-256 over their keys and values, whatever their
	// order, hex.
	Rows   int64
	Digest string

	o      options
	store  *delta.Table
	layout *layout
	rules  *rules
	key    []int // places of the key columns
	rest   []int // of the others
	dir    spill.Dir
	rows   *spill.File
	prints fingerprints
}

// Gather reads a Source for a table that has, or will have, the metadata. A row that does
// not fit is an error that wraps ErrRow or ErrRule; a key that is there twice a
// *DuplicateKeysError; a key column that is not there ErrColumn.
func Gather(ctx context.Context, table *delta.Table, metadata *action.Metadata, key []string, s Source, options ...Option) (*Gathered, error) {
	g := &Gathered{o: optionsOf(options), store: table}
	g.dir.Parent = g.o.tempDir
	g.prints = fingerprints{dir: &g.dir, most: max(1000, int(g.o.memory/3/fingerprintBytes))}
	err := g.plan(metadata, key)
	if err == nil {
		err = g.gather(ctx, s)
	}
	if err == nil {
		err = g.seal()
	}
	if err != nil {
		g.Close()
		return nil, err
	}
	return g, nil
}

// Close removes the temporary files.
func (g *Gathered) Close() {
	_ = g.prints.close()
	_ = g.dir.Close()
}

func (g *Gathered) plan(metadata *action.Metadata, key []string) error {
	mapped, err := mappedSchema(metadata)
	if err != nil {
		return err
	}
	if g.layout, err = layoutOf(mapped, metadata); err != nil {
		return err
	}
	g.rules = rulesOf(g.layout)
	if len(key) == 0 {
		return fmt.Errorf("%w: a comparison needs key columns", ErrColumn)
	}
	for _, name := range key {
		i := g.layout.schema.Index(name)
		if i < 0 {
			return fmt.Errorf("%w: key column %q; the table has %q", ErrColumn, name, g.layout.schema.Names())
		}
		g.key = append(g.key, i)
	}
	for i := range g.layout.schema.Fields {
		if !slices.Contains(g.key, i) {
			g.rest = append(g.rest, i)
		}
	}
	return nil
}

// printer makes fingerprints of rows. It is used by one goroutine.
type printer struct{ key, rest *rowhash.Hasher }

func (g *Gathered) printer() *printer {
	fields := g.layout.schema.Fields
	return &printer{rowhash.New(fields, g.key), rowhash.New(fields, append([]int{}, g.rest...))}
}

func (p *printer) print(row []schema.Value, at uint64) fingerprint {
	f := fingerprint{at: at}
	sum := p.key.Sum(row)
	copy(f.key[:], sum[:])
	sum = p.rest.Sum(row)
	copy(f.rest[:], sum[:])
	return f
}

func (g *Gathered) gather(ctx context.Context, s Source) error {
	feeder, err := newFeeder(s, g.layout, g.rules)
	if err != nil {
		return err
	}
	if g.rows, err = g.dir.Create(len(g.layout.schema.Fields)); err != nil {
		return err
	}
	p := g.printer()
	for row, err := range feeder.all(s) {
		if err == nil && g.Rows%1024 == 0 {
			err = ctx.Err()
		}
		if err == nil {
			err = g.rows.Add(row)
		}
		if err == nil {
			err = g.prints.add(p.print(row, uint64(g.Rows)))
		}
		if err != nil {
			return err
		}
		g.Rows++
	}
	return g.rows.End()
}

// seal looks for keys that are there twice, and makes the digest.
func (g *Gathered) seal() error {
	digest := sha256.New()
	twice := &DuplicateKeysError{}
	var rows [][]int64
	for i := range g.prints.shares() {
		list, err := g.prints.share(i, true)
		if err != nil {
			return err
		}
		for from := 0; from < len(list); {
			to := from + 1
			for to < len(list) && list[to].key == list[from].key {
				to++
			}
			if to-from > 1 {
				twice.Count++
				places := make([]int64, 0, 2)
				for _, f := range list[from:min(to, from+MaxExamples)] {
					places = append(places, int64(f.at))
				}
				rows = append(rows, places)
				if len(rows) > 4*MaxExamples {
					rows = firstRows(rows)
				}
			}
			digest.Write(list[from].key[:])
			digest.Write(list[from].rest[:])
			from = to
		}
	}
	if twice.Count > 0 {
		var err error
		if twice.Keys, err = g.keysOf(firstRows(rows)); err != nil {
			return err
		}
		return twice
	}
	g.Digest = hex.EncodeToString(digest.Sum(nil))
	return nil
}

// firstRows keeps the examples that come first in the source.
func firstRows(rows [][]int64) [][]int64 {
	slices.SortFunc(rows, slices.Compare)
	return rows[:min(len(rows), MaxExamples)]
}

// keysOf finds the keys of rows in the temporary file.
func (g *Gathered) keysOf(groups [][]int64) ([]DuplicateKey, error) {
	out := make([]DuplicateKey, 0, len(groups))
	n := int64(0)
	for row, err := range g.rows.All() {
		if err != nil {
			return nil, err
		}
		if len(out) == len(groups) {
			break
		}
		if group := groups[len(out)]; group[0] == n {
			k := DuplicateKey{Key: g.keyText(row)}
			for _, at := range group {
				k.Rows = append(k.Rows, at+1)
			}
			out = append(out, k)
		}
		n++
	}
	return out, nil
}

// keyText shows the key of a row: 1, or (1,5).
func (g *Gathered) keyText(row []schema.Value) string {
	cells := make([]string, len(g.key))
	for i, c := range g.key {
		cells[i] = cellText(&g.layout.schema.Fields[c], row[c])
		if v := row[c]; v.Kind == schema.String && (v.S == "" || v.S == "NULL" || strings.ContainsAny(v.S, "(),\"\n\r\t ")) {
			cells[i] = strconv.Quote(v.S)
		}
	}
	if len(cells) == 1 {
		return cells[0]
	}
	return "(" + strings.Join(cells, ",") + ")"
}
