package objstore

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ErrKey is wrapped by the refusal of a key or prefix that is no clean path
// below the root.
var ErrKey = errors.New("not a key of an object store")

// CheckKey refuses what is no key: empty, absolute, ending in "/", with an
// empty, "." or ".." part, with a NUL byte or with bytes that are no UTF-8.
// Every Store calls it first. The error wraps ErrKey and quotes the key.
func CheckKey(key string) error {
	if key == "" {
		return fmt.Errorf("%w: it is empty", ErrKey)
	}
	if strings.HasSuffix(key, "/") {
		return fmt.Errorf("%w: %q names a folder", ErrKey, key)
	}
	return checkParts(key, key)
}

// CheckPrefix refuses a prefix of List under which no key can be. The empty
// prefix is every key's. The error wraps ErrKey.
func CheckPrefix(prefix string) error {
	folder, last, found := prefix, "", false
	if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
		folder, last, found = prefix[:i], prefix[i+1:], true
	}
	if !found {
		folder, last = "", prefix
	}
	// The last part may be the beginning of a name, "." and ".." too.
	if err := checkText(prefix, last); err != nil {
		return err
	}
	if !found {
		return nil
	}
	return checkParts(prefix, folder)
}

func checkParts(key, path string) error {
	if err := checkText(key, path); err != nil {
		return err
	}
	for part := range strings.SplitSeq(path, "/") {
		switch part {
		case "":
			return fmt.Errorf("%w: %q has an empty part", ErrKey, key)
		case ".", "..":
			return fmt.Errorf("%w: %q has a part %q", ErrKey, key, part)
		}
	}
	return nil
}

func checkText(key, text string) error {
	if strings.IndexByte(text, 0) >= 0 || !utf8.ValidString(text) {
		return fmt.Errorf("%w: %q has bytes that no name may have", ErrKey, key)
	}
	return nil
}
