package scan_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/delta/parquet"
	"github.com/gscd-io/gscd/delta/scan"
	"github.com/gscd-io/gscd/query"
)

// namedErrors are what a damaged table may answer with: each says what is wrong.
var namedErrors = []error{
	delta.ErrCorrupt, delta.ErrNotATable, delta.ErrUnsupportedFeature, delta.ErrVersionNotFound, delta.ErrPathEscapes, delta.ErrAbsolutePath, action.ErrBadPath,
	scan.ErrFileMissing, scan.ErrFileMismatch, scan.ErrNoChanges, parquet.ErrUnsupported, parquet.ErrColumnType, parquet.ErrNestedColumn, objstore.ErrNotExist,
}

// tableFiles reads the files of a table, by key; nil where it is large.
func tableFiles(t *testing.T, root string) map[string][]byte {
	t.Helper()
	files, size := map[string][]byte{}, 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		key, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if size += int(info.Size()); size > 1<<20 {
			files = nil
			return fs.SkipAll
		}
		files[filepath.ToSlash(key)], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// damage changes one file of a table: it is cut, gets other bytes, or ends in others.
// It says what it did.
func damage(r *rand.Rand, files map[string][]byte, keys []string) (key string, data []byte, what string) {
	key = keys[r.IntN(len(keys))]
	data = append([]byte{}, files[key]...)
	switch n := r.IntN(8); {
	case n == 0 || len(data) == 0:
		return key, append(data, "\x00garbage{"...), "longer"
	case n == 1:
		cut := r.IntN(len(data))
		return key, data[:cut], fmt.Sprintf("cut at %d", cut)
	case n == 2 && strings.HasSuffix(key, ".json"): // another number, which JSON takes
		for i, at := 0, r.IntN(len(data)); i < len(data); i++ {
			if p := (at + i) % len(data); data[p] >= '0' && data[p] <= '9' {
				data[p] = '0' + byte(r.IntN(10))
				return key, data, fmt.Sprintf("another digit at %d", p)
			}
		}
	}
	at := r.IntN(len(data))
	for range 1 + r.IntN(3) {
		data[at] = byte(r.IntN(256))
		at = min(at+r.IntN(4), len(data)-1)
	}
	return key, data, fmt.Sprintf("other bytes up to %d", at)
}

// Damaged tables of other writers give rows or an error that names what is wrong, soon;
// nothing panics and nothing runs away.
func TestDamagedTables(t *testing.T) {
	dir, tables := goldenTables(t)
	budget := 6 * time.Second
	if testing.Short() {
		budget = time.Second
	}
	seed := uint64(1)
	if text := os.Getenv("GSCD_SEED"); text != "" { // and a minute
		fmt.Sscan(text, &seed)
		budget = time.Minute
	}
	r := rand.New(rand.NewPCG(seed, 0))
	type table struct {
		name  string
		files map[string][]byte
		keys  []string
	}
	var list []table
	for _, g := range tables {
		x := table{name: g.Table, files: tableFiles(t, filepath.Join(dir, g.Table))}
		for key := range x.files {
			if !strings.HasSuffix(key, ".crc") {
				x.keys = append(x.keys, key)
			}
		}
		if len(x.keys) > 0 {
			list = append(list, x)
		}
	}
	answered, refused := 0, 0
	least := 3 * len(list) // each table some times, whatever the machine
	for i, end := 0, time.Now().Add(budget); i < least || time.Now().Before(end); i++ {
		x := list[i%len(list)]
		store := mem.New()
		for key, data := range x.files {
			if err := store.Put(ctx, key, data); err != nil {
				t.Fatal(err)
			}
		}
		key, data, what := damage(r, x.files, x.keys)
		if err := store.Put(ctx, key, data); err != nil {
			t.Fatal(err)
		}
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := readAllOf(limited, store)
		cancel()
		if err == nil {
			answered++
			continue
		}
		refused++
		known := false
		for _, e := range namedErrors {
			known = known || errors.Is(err, e)
		}
		if !known {
			t.Errorf("%s, %s %s: %v", x.name, key, what, err)
		}
	}
	t.Logf("%d tables; of the damaged ones %d gave rows and %d an error", len(list), answered, refused)
	if len(list) < 100 || refused < 20 {
		t.Errorf("too few tables, or too little damage")
	}
}

// readAllOf reads all that a table has, up to a bound.
func readAllOf(ctx context.Context, store objstore.Store) error {
	table := delta.New(store)
	s, err := table.Snapshot(ctx)
	if err != nil {
		return err
	}
	query.Describe(s)
	sc, err := scan.New(store, s, scan.Options{})
	if err != nil {
		return err
	}
	const enough = 20_000
	rows := 0
	for b, err := range sc.Batches(ctx) {
		if err != nil {
			return err
		}
		if rows += b.Rows; rows > enough {
			break
		}
	}
	if s.Metadata().Configuration[delta.PropertyChangeDataFeed] != "true" {
		return nil
	}
	rows = 0
	for b, err := range scan.Changes(ctx, table, max(s.Version()-3, 0), s.Version(), nil) {
		if err != nil {
			return err
		}
		if rows += b.Rows; rows > enough {
			break
		}
	}
	return nil
}
