package binlog_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/capture/binlog"
	"github.com/gscd-io/gscd/ddl"
)

// memory is a Log of one file's bytes.
type memory struct {
	name string
	raw  []byte
	at   int
}

func (m *memory) Next(context.Context) ([]byte, error) {
	if m.at == 0 {
		m.at = 4
		raw := make([]byte, 27+len(m.name))
		raw[4], raw[17] = 4, 0x20
		binary.LittleEndian.PutUint32(raw[9:], uint32(len(raw)))
		raw[19] = 4
		copy(raw[27:], m.name)
		return raw, nil
	}
	if m.at >= len(m.raw) {
		return nil, io.EOF
	}
	left := m.raw[m.at:]
	if len(left) < 19 {
		return nil, binlog.ErrCut
	}
	size := binary.LittleEndian.Uint32(left[9:])
	if size < 19 || uint64(size) > uint64(len(left)) {
		return nil, binlog.ErrCut
	}
	m.at += int(size)
	return left[:size], nil
}

// readAll reads a log to its end, and gives how many events came before it.
func readAll(log binlog.Log) (n int, err error) {
	r := binlog.NewReader(log, ddl.NewCatalog(), binlog.Options{Positional: true})
	for ; ; n++ {
		if _, err := r.Next(context.Background()); err == io.EOF {
			return n, nil
		} else if err != nil {
			return n, err
		}
	}
}

var damaged = []string{
	"testdata/edge.000002", "testdata/flow.000005",
	"binlog/blackbeam/mysql_type_bit.000001", "binlog/blackbeam/binlog-invisible-columns.000001",
	"binlog/osheroff/mysql-bin.compressed", "binlog/blackbeam/binlog_transaction_with_GTID_TAG.000001",
	"binlog/mariadb/maxwell-test_time.000001",
}

// logFile is a file of this package's test data, or of the shared one.
func logFile(t testing.TB, name string) string {
	if strings.HasPrefix(name, "testdata/") {
		return name
	}
	return cdcFile(t, name)
}

// ends are the places between two events of a whole file.
func ends(raw []byte) map[int]bool {
	out := map[int]bool{4: true}
	for at := 4; at < len(raw); {
		at += int(binary.LittleEndian.Uint32(raw[at+9:]))
		out[at] = true
	}
	return out
}

// A file that is cut inside an event, or inside a transaction, is an error: what is
// missing is never taken for the end.
func TestTruncated(t *testing.T) {
	for _, name := range damaged {
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(logFile(t, name))
			if err != nil {
				t.Fatal(err)
			}
			between := ends(raw)
			path := filepath.Join(t.TempDir(), "cut.000001")
			for n := 0; n < len(raw); n++ {
				var log binlog.Log = &memory{name: "cut.000001", raw: raw[:n]}
				if n < 4 || n%16 == 0 {
					if err := os.WriteFile(path, raw[:n], 0o600); err != nil {
						t.Fatal(err)
					}
					files := binlog.OpenFiles(path)
					defer files.Close()
					log = files
				}
				_, err := readAll(log)
				if err == nil && !between[n] {
					t.Fatalf("cut at byte %d of %d: no error", n, len(raw))
				}
				if err != nil && !errors.Is(err, binlog.ErrCut) && n > 4 {
					t.Fatalf("cut at byte %d of %d: %v", n, len(raw), err)
				}
			}
		})
	}
}

// A bit that turned gives an error or other values, never a panic; where events have
// checksums it is an error.
func TestTurnedBits(t *testing.T) {
	for _, name := range damaged {
		raw, err := os.ReadFile(logFile(t, name))
		if err != nil {
			t.Fatal(err)
		}
		random := rand.New(rand.NewPCG(1, 2))
		for range 1500 {
			at, mask := random.IntN(len(raw)-4)+4, byte(1)<<random.IntN(8)
			raw[at] ^= mask
			_, err := readAll(&memory{name: "turned.000001", raw: raw})
			raw[at] ^= mask
			inUse := at == 4+17 && mask == 1
			if err == nil && !inUse {
				t.Errorf("%s: bit %b of byte %d turned: no error", name, mask, at)
			}
		}
	}
}

// unsummed takes the checksums off a file, so that damage reaches the decoders.
func unsummed(raw []byte) []byte {
	out := append([]byte(nil), raw[:4]...)
	for at := 4; at+19 <= len(raw); {
		size := int(binary.LittleEndian.Uint32(raw[at+9:]))
		ev := append([]byte(nil), raw[at:at+size]...)
		at += size
		if ev[4] == 15 { // the format description says that there are none
			ev[len(ev)-5] = 0
		} else {
			ev = ev[:len(ev)-4]
			binary.LittleEndian.PutUint32(ev[9:], uint32(len(ev)))
		}
		out = append(out, ev...)
	}
	return out
}

func TestTurnedBitsWithoutChecksums(t *testing.T) {
	for _, name := range damaged {
		whole, err := os.ReadFile(logFile(t, name))
		if err != nil {
			t.Fatal(err)
		}
		raw := unsummed(whole)
		want, err := readAll(&memory{name: "whole.000001", raw: raw})
		if err != nil || want == 0 {
			t.Fatalf("%s: %d events, %v", name, want, err)
		}
		random := rand.New(rand.NewPCG(3, 4))
		for range 1500 {
			turned := append([]byte(nil), raw...)
			for range 1 + random.IntN(3) {
				turned[random.IntN(len(turned)-4)+4] ^= 1 << random.IntN(8)
			}
			_, _ = readAll(&memory{name: "turned.000001", raw: turned})
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, name := range damaged {
		raw, err := os.ReadFile(logFile(f, name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(unsummed(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) < 4 {
			return
		}
		_, _ = readAll(&memory{name: "fuzz.000001", raw: raw})
	})
}
