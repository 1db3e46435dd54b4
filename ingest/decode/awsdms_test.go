package decode

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/ingest/change"
)

// dmsOf is a record of table shop.user_dim: its operation, and members beside metadata.
func dmsOf(operation, rest string) string {
	return `{"metadata":{"timestamp":"2024-07-29T00:58:44.895275Z","record-type":"data","operation":"` + operation + `","partition-key-type":"schema-table",` +
		`"schema-name":"shop","table-name":"user_dim","transaction-id":7,"commit-timestamp":"2024-07-29T00:58:44.886717Z"},` + rest + `}`
}

func TestDMS(t *testing.T) {
	const commit, stamp = 1722214724886717, 1722214724895
	keys := Options{Source: "shop.user_dim", KeyColumns: []string{"id"}}
	for _, c := range []struct {
		name, value   string
		opts          Options
		op            change.Op
		after, before map[string]string
		unsure        bool
	}{
		{"load", dmsOf("load", `"data":{"id":1,"n":"a"}`), keys, change.Read, map[string]string{"id": "1", "n": "a"}, nil, false},
		{"insert", dmsOf("insert", `"data":{"id":1,"n":null}`), keys, change.Insert, map[string]string{"id": "1", "n": show(typed{})}, nil, false},
		{"update", dmsOf("update", `"data":{"id":1}`), keys, change.Update, map[string]string{"id": "1"}, nil, true},
		{"update, keys never change", dmsOf("update", `"data":{"id":1}`), Options{DMS: DMS{KeyChanges: "none"}}, change.Update, map[string]string{"id": "1"}, nil, false},
		{"update, nothing before", dmsOf("update", `"data":{"id":1},"before-image":{}`), keys, change.Update, map[string]string{"id": "1"}, map[string]string{"id": "1"}, false},
		{"key change by the object", dmsOf("update", `"before-image":{"id":1,"n":"a"},"data":{"id":2,"n":"a"}`), keys, change.Update, map[string]string{"id": "2", "n": "a"}, map[string]string{"id": "1"}, false},
		{"key change by columns", dmsOf("update", `"data":{"id":2,"n":"a","BI_id":1,"BI_n":"b"}`), keys, change.Update, map[string]string{"id": "2", "n": "a"}, map[string]string{"id": "1"}, false},
		{"names configured", dmsOf("update", `"data":{"id":2,"old_id":1,"BI_n":"b"},"was":{"n":3}`), Options{DMS: DMS{BeforeImage: "was", BeforePrefix: "old_"}}, change.Update,
			map[string]string{"id": "2", "BI_n": "b"}, map[string]string{"id": "1", "BI_n": "b", "n": "3"}, false},
		{"a column that begins so", dmsOf("insert", `"data":{"id":2,"BI_id":1}`), Options{Columns: map[string]ColumnSpec{"bi_id": specOf(t, "int")}}, change.Insert, map[string]string{"id": "2", "BI_id": "1"}, nil, false},
		{"delete", dmsOf("delete", `"data":{"id":1,"n":null}`), keys, change.Delete, nil, map[string]string{"id": "1"}, false},
		{"delete by the row before", dmsOf("delete", `"data":{},"before-image":{"id":1,"n":"x"}`), keys, change.Delete, nil, map[string]string{"id": "1"}, false},
		{"control", strings.Replace(dmsOf("add-column", `"control":{}`), `"data"`, `"control"`, 1), keys, change.Filtered, nil, nil, false},
		{"another table", strings.Replace(dmsOf("insert", `"data":{"id":1}`), "user_dim", "orders", 1), keys, change.Filtered, nil, nil, false},
		{"its own table", strings.Replace(dmsOf("insert", `"data":{"id":1}`), "user_dim", "awsdms_status", 1), Options{}, change.Filtered, nil, nil, false},
		{"truncate", strings.Replace(dmsOf("truncate-table", `"control":{}`), `"data"`, `"control"`, 1), keys, change.Truncate, nil, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := decodeAs(t, AWSDMS, c.opts, "shop.user_dim.1", c.value)
			if err != nil {
				t.Fatal(err)
			}
			if after, before := cellsOf(got.Columns, got.After), cellsOf(got.BeforeColumns, got.Before); got.Op != c.op || got.KeyUnsure != c.unsure ||
				got.Whole != (c.op == change.Update) || !reflect.DeepEqual(after, c.after) || !reflect.DeepEqual(before, c.before) || got.HasPosition || got.Key != nil {
				t.Errorf("%+v: after %v, before %v", got, after, before)
			}
			switch c.op {
			case change.Filtered:
			case change.Read:
				if got.EventTime != 0 || got.ProcessingTime != stamp {
					t.Errorf("a read has the time %d, %d", got.EventTime, got.ProcessingTime)
				}
			default:
				if got.EventTime != commit || !got.EventTimeIsCommit || got.ProcessingTime != stamp {
					t.Errorf("time %d, commit %v, %d", got.EventTime, got.EventTimeIsCommit, got.ProcessingTime)
				}
			}
		})
	}
	// Without transaction details there is no time of the source: timestamp is DMS's clock.
	c, err := decodeAs(t, AWSDMS, Options{}, "", strings.Replace(dmsOf("insert", `"data":{"id":1}`), "commit-", "other-", 1))
	if err != nil || c.EventTime != 0 || c.EventTimeIsCommit || c.ProcessingTime != stamp {
		t.Errorf("%+v, %v", c, err)
	}
	if c, err = decodeAs(t, AWSDMS, Options{EventTime: "kafka"}, "", dmsOf("insert", `"data":{"id":1}`)); err != nil || c.EventTime != 1_700_000_000_000_000 {
		t.Errorf("time of the broker: %+v, %v", c, err)
	}
}

func TestDMSTypes(t *testing.T) {
	for _, c := range []struct{ typ, cell, want string }{
		{"varbinary(4)", `"0x00ff"`, "0x00ff"}, {"binary(4)", `"0X00FF"`, "0x00ff0000"}, {"blob", `"00ff"`, "0x00ff"}, {"blob", `""`, "0x"},
		{"bit(12)", `"0x0102"`, "258"}, {"bit(12)", `5`, "5"}, {"bit(64)", `"0xffffffffffffffff"`, "18446744073709551615"}, {"bit(1)", `true`, "true"},
		{"bigint unsigned", `18446744073709551615`, "18446744073709551615"}, {"bigint unsigned", `"18446744073709551615"`, "18446744073709551615"}, {"int", `"7"`, "7"},
		{"decimal(20,4)", `"1234567890123456.7890"`, "1234567890123456.7890"}, {"decimal(20,4)", `1.5`, "1.5000"}, {"double", `"1.5"`, "1.5"},
		{"datetime(6)", `"2020-01-09T04:13:38.123456Z"`, "2020-01-09 04:13:38.123456"}, {"timestamp", `"2020-01-09T04:13:38Z"`, "2020-01-09T04:13:38Z"},
		{"date", `"2023-03-23"`, "2023-03-23"}, {"time", `"-01:00:00"`, "-3600000000"}, {"year", `2012`, "2012"}, {"tinyint(1)", `1`, "1"},
		{"json", `"{\"a\": 1}"`, `{"a": 1}`}, {"enum('a')", `"a"`, "a"}, {"set('a','b')", `"a,b"`, "a,b"},
	} {
		got, err := decodeAs(t, AWSDMS, Options{Columns: map[string]ColumnSpec{"v": specOf(t, c.typ)}}, "", dmsOf("insert", `"data":{"v":`+c.cell+`}`))
		if cells := cellsOf(got.Columns, got.After); err != nil || cells["v"] != c.want {
			t.Errorf("%s %s: %v, %v; want %s", c.typ, c.cell, cells, err, c.want)
		}
	}
}

func TestDMSFaults(t *testing.T) {
	for _, c := range []struct{ value, fault string }{
		{`{"data":{"id":1}}`, "no record of AWS DMS"},
		{`{"data":{"id":1},"metadata":{"operation":"upsert","schema-name":"d","table-name":"t"}}`, `unknown operation "upsert"`},
		{`{"data":{"id":1},"metadata":{"operation":"insert","table-name":"t"}}`, "schema-name"},
		{`{"metadata":{"operation":"insert","schema-name":"d","table-name":"t"}}`, "no data"},
		{dmsOf("insert", `"data":{}`), "no data"},
		{dmsOf("insert", `"data":{"id":1},"data":{"id":2}`), "twice"},
		{dmsOf("insert", `"data":{"id":1,"id":2}`), `column "id" twice`},
		{strings.Replace(dmsOf("insert", `"data":{"id":1}`), `"transaction-id":7`, `"operation":"delete"`, 1), "twice"},
		{strings.Replace(dmsOf("insert", `"data":{"id":1}`), "44.886717Z", "44.886717", 1), "commit-timestamp"},
		{dmsOf("insert", `"data":{"v":"0xz"}`), "hexadecimal"}, {dmsOf("insert", `"data":{"v":"0x123"}`), "hexadecimal"}, {dmsOf("insert", `"data":{"v":"0x123456"}`), "too large"},
	} {
		_, err := decodeAs(t, AWSDMS, Options{Columns: map[string]ColumnSpec{"v": specOf(t, "binary(2)")}}, "", c.value)
		if e := (*Error)(nil); !errors.As(err, &e) || !strings.Contains(err.Error(), c.fault) {
			t.Errorf("%s: %v, want %q", c.value, err, c.fault)
		}
	}
}
