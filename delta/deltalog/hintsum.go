package deltalog

import (
	"bytes"
	"crypto/md5" //nolint:gosec // the protocol names it
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// hintSum gives the checksum of a _last_checkpoint as the protocol defines it: MD5 over its
// members, but for the checksum, in one order and one form. stands is the one in it, "" for
// none.
func hintSum(data []byte) (sum, stands string, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var members map[string]any
	if err := d.Decode(&members); err != nil {
		return "", "", err
	}
	stands, _ = members["checksum"].(string)
	delete(members, "checksum")
	if stands == "" {
		for name, v := range members { // under a name of one other bit it would not be seen
			if s, ok := v.(string); ok && len(s) == 2*md5.Size {
				return "", "", fmt.Errorf("a checksum by the name of %q", name)
			}
		}
	}
	lines := flatten(nil, "", members)
	slices.SortFunc(lines, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	var all strings.Builder
	for i, l := range lines {
		if i > 0 {
			all.WriteByte(',')
		}
		all.WriteString(l[0] + "=" + l[1])
	}
	of := md5.Sum([]byte(all.String())) //nolint:gosec // see above
	return hex.EncodeToString(of[:]), stands, nil
}

// flatten appends path and value of each leaf.
func flatten(lines [][2]string, path string, v any) [][2]string {
	below := func(key string) string {
		if path == "" {
			return key
		}
		return path + "+" + key
	}
	switch v := v.(type) {
	case map[string]any:
		for key, member := range v {
			lines = flatten(lines, below(quoted(key)), member)
		}
		return lines
	case []any:
		for i, element := range v {
			lines = flatten(lines, below(strconv.Itoa(i)), element)
		}
		return lines
	case string:
		return append(lines, [2]string{path, quoted(v)})
	case nil:
		return append(lines, [2]string{path, "null"})
	}
	return append(lines, [2]string{path, fmt.Sprint(v)})
}

// quoted encodes a text as in a URL, in quotation marks.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range []byte(s) {
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
