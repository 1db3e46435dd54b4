package output

import "github.com/gscd-io/gscd/delta/schema"

// AppendJSON appends a cell as JSON; see schema.AppendJSON.
func AppendJSON(dst []byte, t schema.Type, v schema.Value) []byte {
	return schema.AppendJSON(dst, t, v)
}

// AppendText appends a cell as the text of table and csv; see schema.AppendText.
func AppendText(dst []byte, t schema.Type, v schema.Value) []byte {
	return schema.AppendText(dst, t, v)
}

// AppendJSONString appends a JSON string; see schema.AppendJSONString.
func AppendJSONString(dst []byte, s string) []byte { return schema.AppendJSONString(dst, s) }
