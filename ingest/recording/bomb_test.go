package recording

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// TestBomb: a small file that unpacks to much more is refused by name, and nothing of it stays
// on the disk; a recording that packs well is none.
func TestBomb(t *testing.T) {
	unpackedFree = 1 << 20
	defer func() { unpackedFree = 256 << 20 }()
	dir, temp := t.TempDir(), t.TempDir()
	pack := func(name string, size int, line string) string {
		t.Helper()
		var out bytes.Buffer
		var w io.WriteCloser = gzip.NewWriter(&out)
		if strings.HasSuffix(name, ".zst") {
			var err error
			if w, err = zstd.NewWriter(&out); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := w.Write(bytes.Repeat([]byte(line), size/len(line))); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, name := range []string{"bomb.jsonl.gz", "bomb.jsonl.zst"} {
		path := pack(name, 64<<20, "\n")
		if f, err := openFile(path, temp); !errors.Is(err, ErrBomb) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	for _, name := range []string{"small.jsonl.gz", "small.jsonl.zst"} {
		f, err := openFile(pack(name, 1<<20, "{}\n"), temp)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		f.close()
	}
}
