package schema

import (
	"fmt"
	"strings"
)

// ParsePath reads the path of a field inside of columns: names with dots between them,
// each as it is or in backticks, a doubled one standing for one: address.`zip.code`. The
// error wraps ErrSchema.
func ParsePath(text string) (path []string, err error) {
	fault := func(why string) error { return fmt.Errorf("%w: the path %q %s", ErrSchema, text, why) }
	for rest := text; ; {
		var name string
		if quoted, ok := strings.CutPrefix(rest, "`"); ok {
			for {
				at := strings.IndexByte(quoted, '`')
				if at < 0 {
					return nil, fault("has a ` that is not closed")
				}
				name, quoted = name+quoted[:at], quoted[at+1:]
				if !strings.HasPrefix(quoted, "`") {
					break
				}
				name, quoted = name+"`", quoted[1:]
			}
			rest = quoted
		} else {
			at := strings.IndexByte(rest, '.')
			if at < 0 {
				at = len(rest)
			}
			name, rest = rest[:at], rest[at:]
		}
		if name == "" {
			return nil, fault("has an empty name")
		}
		path = append(path, name)
		if rest == "" {
			return path, nil
		}
		if rest[0] != '.' {
			return nil, fault("goes on behind a `")
		}
		rest = rest[1:]
	}
}

// FormatPath writes a path so that ParsePath gives it again. One name alone stays as it
// is, as names of columns do.
func FormatPath(path ...string) string {
	if len(path) == 1 {
		return path[0]
	}
	parts := make([]string, len(path))
	for i, name := range path {
		if parts[i] = name; strings.ContainsAny(name, ".` ,") {
			parts[i] = "`" + strings.ReplaceAll(name, "`", "``") + "`"
		}
	}
	return strings.Join(parts, ".")
}
