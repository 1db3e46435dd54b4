package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/query/output"
	"github.com/gscd-io/gscd/savepoint"
)

// row is a row as it is printed: cells as JSON, numbers with every digit.
type row map[string]any

func parseRow(t testing.TB, raw []byte) row {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var out row
	if err := d.Decode(&out); err != nil {
		t.Fatalf("row %s: %v", raw, err)
	}
	return out
}

// asOf answers `gscd query --as-of LABEL`.
func (r *rig) asOf(label string) (rows []row, resolution savepoint.Resolution, err error) {
	r.t.Helper()
	resolution, err = r.labels().Resolve(label, false)
	if err != nil {
		return nil, resolution, err
	}
	rows, err = r.rowsAt(resolution.Entry.Version)
	return rows, resolution, err
}

func (r *rig) mustAsOf(label string) []row {
	r.t.Helper()
	rows, _, err := r.asOf(label)
	if err != nil {
		r.t.Fatalf("as of %s: %v", label, err)
	}
	return rows
}

// current answers `gscd query`.
func (r *rig) current() []row {
	r.t.Helper()
	s, err := r.table().Snapshot(ctx)
	if err != nil {
		r.t.Fatal(err)
	}
	rows, err := r.rowsAt(s.Version())
	if err != nil {
		r.t.Fatal(err)
	}
	return rows
}

func (r *rig) rowsAt(version int64) ([]row, error) {
	r.t.Helper()
	s, err := r.table().SnapshotAt(ctx, version)
	if err != nil {
		return nil, err
	}
	var rows []row
	err = eachRow(r.store.Store, s, func(columns []schema.Field, cells []schema.Value) {
		line := []byte{'{'}
		for i, v := range cells {
			if i > 0 {
				line = append(line, ',')
			}
			line = append(output.AppendJSONString(line, columns[i].Name), ':')
			line = output.AppendJSON(line, columns[i].Type, v)
		}
		rows = append(rows, parseRow(r.t, append(line, '}')))
	})
	return rows, err
}

func eachRow(store objstore.Store, s *delta.Snapshot, fn func([]schema.Field, []schema.Value)) error {
	reading, err := scan.New(store, s, scan.Options{})
	if err != nil {
		return err
	}
	for cells, err := range reading.Rows(ctx) {
		if err != nil {
			return err
		}
		fn(reading.Columns(), cells)
	}
	return nil
}

// text gives a row without its NULLs, columns in order: what rows are compared by.
func (r row) text() string {
	shown := map[string]any{}
	for k, v := range r {
		switch n := v.(type) {
		case nil:
		case json.Number:
			if q, ok := new(big.Rat).SetString(n.String()); ok {
				shown[k] = json.RawMessage(q.RatString())
				if !q.IsInt() {
					shown[k] = q.RatString()
				}
				continue
			}
			shown[k] = n
		default:
			shown[k] = v
		}
	}
	raw, err := json.Marshal(shown)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// difference says how two sets of rows differ, "" where they don't.
func difference(got, want []row) string {
	texts := func(rows []row) []string {
		out := make([]string, len(rows))
		for i, r := range rows {
			out[i] = r.text()
		}
		slices.Sort(out)
		return out
	}
	g, w := texts(got), texts(want)
	if slices.Equal(g, w) {
		return ""
	}
	return fmt.Sprintf("got  %s\nwant %s", strings.Join(g, "\n     "), strings.Join(w, "\n     "))
}

func sameRows(t testing.TB, what string, got, want []row) {
	t.Helper()
	if d := difference(got, want); d != "" {
		t.Errorf("%s:\n%s", what, d)
	}
}

// ids gives the values of the column id, in order.
func ids(rows []row) []string {
	out := []string{}
	for _, r := range rows {
		out = append(out, fmt.Sprint(r["id"]))
	}
	slices.Sort(out)
	return out
}
