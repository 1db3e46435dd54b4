//go:build integration

package integration

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// readArrow checks in Polars that each Arrow file named has the types and rows of the Parquet
// file beside it, and prints with pyarrow what is in the first.
const readArrow = `
import sys
import polars as pl, pyarrow as pa
for path in sys.argv[1:]:
    a, p = pl.read_ipc(path), pl.read_parquet(path.rsplit(".", 1)[0] + ".parquet")
    assert a.schema == p.schema, (path, a.schema, p.schema)
    assert len(a) and a.equals(p), (path, a, p)
table = pa.ipc.open_file(sys.argv[1]).read_all()
table.validate(full=True)
for f in table.schema:
    print(f.name, f.type, [str(v) for v in table[f.name].to_pylist()])
`

// Each command that writes Arrow files writes such that other readers find in them what they
// find in its Parquet files.
func TestArrowFiles(t *testing.T) {
	dir := t.TempDir()
	gscd(t, "demo", "--dir", dir)
	address := filepath.Join(dir, "user_dim")
	const typed = `SELECT id, id % 2 = 0 AS b, CAST(id AS TINYINT) AS i8, CAST(id AS SMALLINT) AS i16, CAST(id AS INTEGER) AS i32,
		CAST(id / 4 AS FLOAT) AS f32, id / 4 AS f64, CAST('-12345678901234567890.123456' AS DECIMAL(38, 6)) AS d,
		CASE WHEN id <> 2 THEN name END AS name, CAST('\x00\xff' AS BLOB) AS raw, DATE '1969-12-31' AS day,
		TIMESTAMP '2022-07-15 23:59:59.999999' AS ntz, TIMESTAMPTZ '2022-07-15 23:59:59.999999+00' AS at
		FROM t WHERE dt = '2022-07-15' AND id <= 2 ORDER BY id`
	var files []string
	for _, c := range []struct {
		name string
		args []string
	}{
		{"typed.arrow", []string{"query", typed}},
		{"rows.feather", []string{"query", "--as-of", "2022-07-15", "--order-by", "id"}},
		{"diff.arrow", []string{"diff", "2022-07-15", "2022-07-16"}},
		{"changes.arrow", []string{"changes", "--from", "2022-07-15", "--to", "2022-07-16"}},
		{"history.arrow", []string{"history", "--key", "id=1"}},
		{"blame.arrow", []string{"blame", "--as-of", "2022-07-15", "--order-by", "id"}},
	} {
		file := filepath.Join(dir, c.name)
		args := append(c.args, "--table", address, "--output")
		gscd(t, append(args, file)...)
		gscd(t, append(args, file[:len(file)-len(filepath.Ext(file))]+".parquet")...)
		files = append(files, file)
	}
	out, err := exec.Command(filepath.Join(component(t, "python"), "bin", "python"), append([]string{"-c", readArrow}, files...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const want = `id int64 ['1', '2']
b bool ['False', 'True']
i8 int8 ['1', '2']
i16 int16 ['1', '2']
i32 int32 ['1', '2']
f32 float ['0.25', '0.5']
f64 double ['0.25', '0.5']
d decimal128(38, 6) ['-12345678901234567890.123456', '-12345678901234567890.123456']
name string ['Chen Jie', 'None']
raw binary ["b'\\x00\\xff'", "b'\\x00\\xff'"]
day date32[day] ['1969-12-31', '1969-12-31']
ntz timestamp[us] ['2022-07-15 23:59:59.999999', '2022-07-15 23:59:59.999999']
at timestamp[us, tz=UTC] ['2022-07-15 23:59:59.999999+00:00', '2022-07-15 23:59:59.999999+00:00']
`
	if string(out) != want {
		t.Errorf("pyarrow reads\n%s\nwant\n%s", out, want)
	}
}
