package action

import (
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// What is wrong with a path of the log.
var (
	// ErrPathEscapes: the path leads out of the table's root.
	ErrPathEscapes = errors.New("path leaves the table")
	// ErrAbsolutePath: the path is an absolute one or a URI with a scheme. Such
	// a file (a shallow clone has them) is outside of what a Store reaches.
	ErrAbsolutePath = errors.New("path is absolute")
	// ErrBadPath: the path can't be decoded to a name in UTF-8.
	ErrBadPath = errors.New("path is not URI-encoded")
)

// Key decodes the path of a file action, exactly once, to the key of its object
// below the table's root. The error wraps one of the sentinels above and quotes
// the path.
func Key(encoded string) (string, error) {
	if strings.HasPrefix(encoded, "/") || hasScheme(encoded) {
		return "", fmt.Errorf("%w: %q", ErrAbsolutePath, encoded)
	}
	decoded, ok := unescape(encoded)
	if !ok || strings.IndexByte(decoded, 0) >= 0 || !utf8.ValidString(decoded) {
		return "", fmt.Errorf("%w: %q", ErrBadPath, encoded)
	}
	for part := range strings.SplitSeq(decoded, "/") {
		if part == ".." {
			return "", fmt.Errorf("%w: %q", ErrPathEscapes, encoded)
		}
	}
	if strings.HasPrefix(decoded, "/") { // %2Fetc
		return "", fmt.Errorf("%w: %q", ErrAbsolutePath, encoded)
	}
	key := path.Clean(decoded)
	if key == "." {
		return "", fmt.Errorf("%w: %q names no file", ErrBadPath, encoded)
	}
	return key, nil
}

// AbsolutePath decodes an absolute path of a file action, exactly once: a URI without
// a trailing part, or the bare path that a file: URI names. The error wraps one of
// the sentinels above.
func AbsolutePath(encoded string) (string, error) {
	bare := canonical(encoded)
	if !strings.HasPrefix(bare, "/") && !hasScheme(bare) {
		return "", fmt.Errorf("%w: %q is relative", ErrBadPath, encoded)
	}
	decoded, ok := unescape(bare)
	if !ok || strings.IndexByte(decoded, 0) >= 0 || !utf8.ValidString(decoded) {
		return "", fmt.Errorf("%w: %q", ErrBadPath, encoded)
	}
	for part := range strings.SplitSeq(decoded, "/") {
		if part == ".." || part == "." {
			return "", fmt.Errorf("%w: %q", ErrPathEscapes, encoded)
		}
	}
	return decoded, nil
}

// canonical gives one form of the forms that a path of the local file system has:
// file:/x, file:///x and /x are one file. Other paths stay as they are.
func canonical(path string) string {
	if len(path) < 6 || path[0] != 'f' && path[0] != 'F' || !strings.EqualFold(path[:6], "file:/") {
		return path
	}
	bare := path[5:]
	if rest, ok := strings.CutPrefix(bare, "///"); ok {
		return "/" + rest
	}
	if strings.HasPrefix(bare, "//") { // of another host
		return path
	}
	return bare
}

// hasScheme reports whether s begins with a URI scheme. "ts=2024-01-01 10:00/f"
// does not: a scheme has no "=".
func hasScheme(s string) bool {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		default:
			return i > 0 && c == ':'
		}
	}
	return false
}

func unescape(s string) (string, bool) {
	if strings.IndexByte(s, '%') < 0 {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+3 > len(s) {
			return "", false
		}
		c, err := hex.DecodeString(s[i+1 : i+3])
		if err != nil {
			return "", false
		}
		b.Write(c)
		i += 2
	}
	return b.String(), true
}

const upperHex = "0123456789ABCDEF"

// EncodePath URI-encodes a key for the path of a file action. Letters, digits
// and -._~/=!$&'()*+,;@ stand as they are, as Spark writes them; a ":" too,
// but in the first part, where it could read as the end of a scheme.
func EncodePath(key string) string {
	var b strings.Builder
	first := true
	for i := 0; i < len(key); i++ {
		c := key[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			strings.IndexByte("-._~/=!$&'()*+,;@", c) >= 0, c == ':' && !first:
			first = first && c != '/'
			b.WriteByte(c)
		default:
			b.WriteByte('%')
			b.WriteByte(upperHex[c>>4])
			b.WriteByte(upperHex[c&15])
		}
	}
	return b.String()
}
