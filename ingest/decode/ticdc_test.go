package decode

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/ingest/change"
)

// TestTiCDCDebezium reads the record of all types that TiCDC holds its own Debezium
// encoder against, as Debezium wrote it and with the source block of TiCDC: no
// position, and the commit's TSO. The values are those of its INSERT statement, as
// MySQL stores them.
func TestTiCDCDebezium(t *testing.T) {
	raw, err := os.ReadFile(cdcFile(t, "ticdc/debezium/datatype.dbz.pretty.json"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(cdcFile(t, "ticdc/debezium/datatype.dbz.key.pretty.json"))
	if err != nil {
		t.Fatal(err)
	}
	null := show(typed{})
	want := map[string]string{
		"pk": "1", "col_d_2023": "2023-11-30", "col_d_1000": "1000-01-01", "col_d_9999": "9999-12-31", "col_d_0000": null,
		"col_dt": "2023-11-30 12:34:56", "col_dt_fsp_0": "2023-11-30 12:34:56", "col_dt_fsp_1": "2023-11-30 12:34:56.1",
		"col_dt_fsp_4": "2023-11-30 12:34:56.1235", "col_dt_fsp_6": "2023-11-30 12:34:56.123456", "col_dt_0000": null,
		"col_t": "45296000000", "col_t_fsp_0": "45296000000", "col_t_fsp_1": "45296100000", "col_t_fsp_4": "45296123500", "col_t_fsp_6": "45296123456", "col_t_neg": "-45296123456",
		"col_ts": "2023-11-30T12:34:56Z", "col_ts_fsp_0": "2023-11-30T12:34:56Z", "col_ts_fsp_1": "2023-11-30T12:34:56.1Z", "col_ts_fsp_5": "2023-11-30T12:34:56.12346Z",
		"col_ts_fsp_6": "2023-11-30T12:34:56.123456Z", "col_y": "2023", "col_bit_1": "true", "col_bit_5": "16", "col_bit_6": "16", "col_bit_60": "16",
		"col_varchar": "foo", "col_char": "foo", "col_varbinary": "0x666f6f", "col_binary": "0x666f6f" + strings.Repeat("00", 97), "col_blob": "0x666f6f",
		"col_decimal": "12345.12345", "col_numeric": "12345.12345", "col_float": "12345.123", "col_double": "12345.12345", "col_int": "-2147483648", "col_int_unsigned": "4294967295",
		"col_tinyint": "-128", "col_tinyint_unsigned": "255", "col_smallint": "-32768", "col_smallint_unsigned": "65535", "col_mediumint": "-8388608",
		"col_mediumint_unsigned": "16777215", "col_bigint": "-9223372036854775808", "col_bigint_unsigned": "18446744073709551615",
		"col_enum": "a", "col_enum_invalid": "", "col_set": "a,b", "col_set_invalid": "", "col_json": `["foo"]`,
	}
	text := string(raw)
	ticdc := strings.NewReplacer(`"mysql-bin.000005"`, `""`, `10394`, `0`, `"ts_ms": 1701673705000`, `"cluster_id": "default", "commit_ts": 446083543869423616, "ts_ms": 1701673675039`).Replace(text)
	for _, c := range []struct {
		value            string
		position, commit bool
	}{{text, true, false}, {ticdc, false, true}} {
		if c.position != strings.Contains(c.value, `"mysql-bin.000005"`) || c.commit != strings.Contains(c.value, `"commit_ts"`) {
			t.Fatal("the sample is not as it was")
		}
		d, err := New(Auto, Options{Source: "test.foo", Columns: map[string]ColumnSpec{
			"col_bigint_unsigned": specOf(t, "bigint unsigned"), // which has wrapped
			// binary.handling.mode was base64, which makes them strings.
			"col_varbinary": specOf(t, "varbinary(100)"), "col_binary": specOf(t, "binary(100)"), "col_blob": specOf(t, "blob"),
		}})
		if err != nil {
			t.Fatal(err)
		}
		var got change.Change
		if err := d.Decode(&change.Record{Key: key, Value: []byte(c.value)}, &change.Arena{}, &got); err != nil {
			t.Fatal(err)
		}
		if cells := cellsOf(got.Columns, got.After); !reflect.DeepEqual(cells, want) {
			for name := range want {
				if cells[name] != want[name] {
					t.Errorf("%s is %q, want %q", name, cells[name], want[name])
				}
			}
		}
		if got.Op != change.Insert || got.HasPosition != c.position || got.EventTimeIsCommit != c.commit || cellsOf(got.KeyColumns, got.Key)["pk"] != "1" || d.Format() != "debezium-json" {
			t.Errorf("%+v", got)
		}
	}
}
