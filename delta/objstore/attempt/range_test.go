package attempt_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/delta/objstore/attempt"
)

// A part of a range is never taken for all of it, whatever its length says.
func TestReadRange(t *testing.T) {
	for name, c := range map[string]struct {
		body           string
		size           int64
		said           string
		offset, length int64
		eof, refused   bool
	}{
		"all":                        {"abcde", 5, "bytes 10-14/100", 10, 5, false, false},
		"the end of the object":      {"abc", 3, "bytes 10-12/13", 10, 5, false, false},
		"nothing said":               {"abc", -1, "", 10, 5, false, false},
		"the whole is not known":     {"abc", 3, "bytes 10-12/*", 10, 5, false, false},
		"shorter than its length":    {"abc", 5, "bytes 10-14/100", 10, 5, true, false},
		"a length that was made fit": {"abc", 3, "bytes 10-14/100", 10, 5, true, false},
		"without a length":           {"abc", -1, "bytes 10-14/100", 10, 5, true, false},
		"less than there is":         {"abc", 3, "bytes 10-12/100", 10, 5, true, false},
		"another place":              {"abcde", 5, "bytes 0-4/100", 10, 5, false, true},
		"too much":                   {"abcdef", 6, "bytes 10-15/100", 10, 5, false, true},
	} {
		data, err := attempt.ReadRange(io.NopCloser(strings.NewReader(c.body)), c.size, c.said, c.offset, c.length)
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF) != c.eof, (err != nil) != (c.eof || c.refused):
			t.Errorf("%s: %v", name, err)
		case err == nil && string(data) != c.body:
			t.Errorf("%s: %q", name, data)
		}
	}
}
