//go:build integration

package integration

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-mysql-org/go-mysql/client"

	"github.com/gscd-io/gscd/capture/binlog"
	"github.com/gscd-io/gscd/capture/event"
	dbserver "github.com/gscd-io/gscd/capture/source"
	"github.com/gscd-io/gscd/ddl"
)

// binlogSettings are those of a server that can be captured.
var binlogSettings = []string{"--log-bin=mybin", "--binlog-format=ROW", "--binlog-row-image=FULL", "--binlog-row-metadata=FULL", "--server-id=1", "--gtid-strict-mode=ON"}

// maria is a server with a binlog.
type maria struct {
	t       testing.TB
	address string
	root    *client.Conn
}

func startMaria(t testing.TB, settings ...string) *maria {
	address, _, root := mariaDB(t, append(binlogSettings, settings...)...)
	return &maria{t, address, root}
}

func (m *maria) run(statements ...string) {
	m.t.Helper()
	for _, s := range statements {
		r, err := m.root.Execute(s)
		if err != nil {
			m.t.Fatalf("%s: %v", s, err)
		}
		r.Close()
	}
}

func (m *maria) server() *dbserver.Server {
	s, err := dbserver.Open("mysql://root@"+m.address, dbserver.Options{})
	if err != nil {
		m.t.Fatal(err)
	}
	return s
}

func (m *maria) session(ctx context.Context) *dbserver.Session {
	s, err := m.server().Connect(ctx)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(s.Close)
	return s
}

func eventCell(c event.Cell) string {
	switch c.Kind {
	case event.Absent:
		return "absent"
	case event.Null:
		return "null"
	case event.Int:
		return fmt.Sprintf("int %d", int64(c.Number))
	case event.Uint:
		return fmt.Sprintf("uint %d", c.Number)
	case event.Float:
		return fmt.Sprintf("float %v", c.Float)
	case event.Double:
		return fmt.Sprintf("double %v", c.Float)
	case event.Text:
		return fmt.Sprintf("text %q", c.Bytes)
	}
	return fmt.Sprintf("bytes %x", c.Bytes)
}

func eventCells(cells []event.Cell) (out []string) {
	for _, c := range cells {
		out = append(out, eventCell(c))
	}
	return out
}

// everyType is a column of each type, with values.
var everyType = []struct {
	column string
	values []string
}{
	{"TINYINT", []string{"-128", "127", "NULL"}}, {"TINYINT UNSIGNED", []string{"0", "255", "1"}}, {"TINYINT(1)", []string{"2", "0", "-1"}},
	{"SMALLINT", []string{"-32768", "32767", "0"}}, {"SMALLINT UNSIGNED", []string{"65535", "0", "1"}},
	{"MEDIUMINT", []string{"-8388608", "8388607", "0"}}, {"MEDIUMINT UNSIGNED", []string{"16777215", "0", "1"}},
	{"INT", []string{"-2147483648", "2147483647", "0"}}, {"INT UNSIGNED", []string{"4294967295", "0", "1"}}, {"INT(8) ZEROFILL", []string{"42", "0", "NULL"}},
	{"BIGINT", []string{"-9223372036854775808", "9223372036854775807", "0"}}, {"BIGINT UNSIGNED", []string{"18446744073709551615", "9223372036854775808", "0"}},
	{"DECIMAL(65,30)", []string{"12345678901234567890123456789012345.123456789012345678901234567890", "-0.000000000000000000000000000001", "0"}},
	{"DECIMAL(10,2)", []string{"-12345678.90", "0.5", "NULL"}}, {"DECIMAL(5,0)", []string{"99999", "-1", "0"}}, {"DECIMAL(8,4) UNSIGNED ZEROFILL", []string{"1.5", "0", "9999.9999"}},
	{"FLOAT", []string{"0.1", "3.4028234e38", "-1.17549435e-38"}}, {"FLOAT(7,3)", []string{"1234.567", "0", "-0.001"}}, {"DOUBLE", []string{"0.1", "1.7976931348623157e308", "-2.2250738585072014e-308"}}, {"DOUBLE(10,2)", []string{"1234.57", "0", "-1"}},
	{"BIT(1)", []string{"b'1'", "b'0'", "NULL"}}, {"BIT(12)", []string{"b'101010101010'", "b'0'", "b'1'"}}, {"BIT(64)", []string{"b'1111111111111111111111111111111111111111111111111111111111111111'", "b'0'", "b'1'"}},
	{"DATE", []string{"'9999-12-31'", "'0000-00-00'", "'2000-00-10'"}}, {"DATETIME", []string{"'2022-07-16 23:59:59'", "'0000-00-00 00:00:00'", "'1000-01-01 00:00:00'"}},
	{"DATETIME(3)", []string{"'2022-07-16 23:59:59.999'", "'2022-07-16 00:00:00'", "NULL"}}, {"DATETIME(6)", []string{"'2022-07-16 23:59:59.999999'", "'9999-12-31 23:59:59.999999'", "'0000-00-00 00:00:00'"}},
	{"TIMESTAMP NULL", []string{"'2022-07-16 08:00:00'", "'1970-01-01 00:00:01'", "'0000-00-00 00:00:00'"}}, {"TIMESTAMP(6) NULL", []string{"'2022-07-16 08:00:00.123456'", "'2038-01-19 03:14:07.999999'", "NULL"}},
	{"TIME", []string{"'-838:59:59'", "'838:59:59'", "'-00:00:01'"}}, {"TIME(3)", []string{"'-507:48:27.001'", "'00:00:00'", "'23:59:59.999'"}}, {"TIME(6)", []string{"'-838:59:59.000001'", "'838:59:58.999999'", "'-00:00:00.000001'"}},
	{"YEAR", []string{"2022", "0", "1901"}},
	{"CHAR(5)", []string{"'é|'", "''", "'ab   '"}}, {"CHAR(5) CHARACTER SET latin1", []string{"'é'", "''", "'€'"}}, {"VARCHAR(20) CHARACTER SET gbk", []string{"'中文'", "''", "NULL"}},
	{"VARCHAR(50)", []string{"'a\\t\\0\"\\\\x'", "'trail  '", "'😀'"}}, {"VARCHAR(20) CHARACTER SET ucs2", []string{"'中'", "''", "NULL"}}, {"TEXT CHARACTER SET big5", []string{"'中文'", "''", "NULL"}}, {"LONGTEXT", []string{"REPEAT('x', 70000)", "''", "NULL"}}, {"TINYTEXT CHARACTER SET utf8mb3", []string{"'é'", "''", "NULL"}},
	{"BINARY(4)", []string{"x'00ff'", "''", "x'61626300'"}}, {"VARBINARY(20)", []string{"x'00ff00'", "''", "NULL"}}, {"BLOB", []string{"x'00ff'", "''", "NULL"}}, {"LONGBLOB", []string{"REPEAT(x'ff00', 40000)", "''", "NULL"}},
	{"ENUM('a','B','c,d','é')", []string{"'B'", "'c,d'", "'é'"}}, {"ENUM('x') CHARACTER SET latin1", []string{"''", "'x'", "NULL"}}, {"SET('x','y','é')", []string{"'x,é'", "''", "NULL"}},
	{"JSON", []string{"'{\"k\": [1, 2.50, \"é\"]}'", "'[]'", "NULL"}}, {"POINT", []string{"ST_GeomFromText('POINT(1 2)', 4326)", "ST_GeomFromText('POINT(-1.5 0)')", "NULL"}}, {"GEOMETRY", []string{"ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))')", "ST_GeomFromText('LINESTRING(0 0,1 1)')", "NULL"}},
	{"UUID", []string{"'123e4567-e89b-12d3-a456-426655440000'", "'00000000-0000-0000-0000-000000000000'", "NULL"}}, {"INET6", []string{"'::ffff:1.2.3.4'", "'fe80::1'", "NULL"}}, {"INET4", []string{"'1.2.3.4'", "'0.0.0.0'", "NULL"}},
	{"INT AS (id * 2) VIRTUAL", nil}, {"INT AS (id * 3) PERSISTENT", nil}, {"INT DEFAULT 7 INVISIBLE", []string{"1", "2", "NULL"}},
}

// A row that is read has the same cells as the same row from the binlog, of every type.
func TestCaptureSameCells(t *testing.T) {
	t.Parallel()
	m := startMaria(t)
	ctx := t.Context()
	columns, rows := []string{"id INT PRIMARY KEY"}, [3][]string{{"1"}, {"2"}, {"3"}}
	names := []string{"id"}
	for i, c := range everyType {
		name := fmt.Sprintf("c%d", i)
		columns = append(columns, name+" "+c.column)
		if c.values == nil {
			continue
		}
		names = append(names, name)
		for j := range rows {
			rows[j] = append(rows[j], c.values[j])
		}
	}
	m.run("SET NAMES utf8mb4", "SET time_zone = '+08:00', sql_mode = ''", "CREATE DATABASE shop", "CREATE TABLE shop.t ("+strings.Join(columns, ", ")+")")
	s := m.session(ctx)
	from, err := s.Position()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		m.run("INSERT INTO shop.t (" + strings.Join(names, ", ") + ") VALUES (" + strings.Join(r, ", ") + ")")
	}
	text, err := s.Definition(dbserver.TableName{Database: "shop", Name: "t"})
	if err != nil {
		t.Fatal(err)
	}
	catalog := ddl.NewCatalog()
	if _, err := catalog.Apply(text, ddl.Session{Database: "shop", MariaDB: true}); err != nil {
		t.Fatal(err)
	}
	table := catalog.Table("shop", "t")
	if len(table.Columns) != len(columns) {
		t.Fatalf("%d columns", len(table.Columns))
	}
	var read [][]string
	snapshots, err := m.server().Snapshot(ctx, 2, dbserver.LockNever)
	if err != nil {
		t.Fatal(err)
	}
	defer snapshots.Close()
	if len(snapshots.Sessions) != 2 {
		t.Errorf("%d sessions on a quiet server", len(snapshots.Sessions))
	}
	readable, err := s.Table(table)
	if err != nil {
		t.Fatal(err)
	}
	if err := snapshots.Sessions[1].Rows(ctx, readable, dbserver.Range{}, func(cells []event.Cell) error {
		read = append(read, eventCells(cells))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	stream, err := m.server().Stream(dbserver.StreamOptions{ServerID: 77, MariaDB: true, From: from})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	reader := binlog.NewReader(stream, catalog, binlog.Options{Name: "s", Start: binlog.Position(from)})
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for i := range rows {
		e, err := reader.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		logged := eventCells(e.After)
		for j := range logged {
			if logged[j] != read[i][j] {
				t.Errorf("row %d column %s %s:\nread   %s\nbinlog %s", i+1, table.Columns[j].Name, table.Columns[j].Type, read[i][j], logged[j])
			}
		}
	}
}
