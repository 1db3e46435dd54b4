package format

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrNewer is wrapped by every Newer.
var ErrNewer = errors.New("written by a newer gscd")

// Newer is what a program can't read because a newer one wrote it.
type Newer struct {
	// What names the property, object or file: "property gscd.format_version".
	What string
	// Found is the version it has, Known the newest that this program reads.
	Found, Known string
	// Release is the program that wrote it, as commitInfo names it ("gscd/v0.3.0"); "" where that is not known.
	Release string
}

func (e *Newer) Error() string {
	use := "the release that wrote it"
	if e.Release != "" {
		use = strings.Replace(e.Release, "/", " ", 1)
	}
	return fmt.Sprintf("%s has version %s, this program knows %s: it was %v; use %s or newer", e.What, e.Found, e.Known, ErrNewer, use)
}

func (e *Newer) Unwrap() error { return ErrNewer }

// CheckHead looks at the first bytes of a file, NAME, a blank, its version and a line feed, and gives the
// bytes behind them. ok is false where they are not that: the file is damaged, or none of these. The error
// is a Newer.
func CheckHead(what string, b []byte, name string, known int) (rest []byte, ok bool, err error) {
	b, ok = bytes.CutPrefix(b, []byte(name+" "))
	if !ok {
		return nil, false, nil
	}
	end := bytes.IndexByte(b[:min(len(b), 10)], '\n')
	if end < 0 {
		return nil, false, nil
	}
	version, err := strconv.Atoi(string(b[:end]))
	switch {
	case err != nil || version < 1:
		return nil, false, nil
	case version > known:
		return nil, true, &Newer{What: what, Found: strconv.Itoa(version), Known: strconv.Itoa(known)}
	}
	return b[end+1:], true, nil
}
