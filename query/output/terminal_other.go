//go:build !unix

package output

import "os"

// terminalWidth gives 80 for a character device; ok is false where f is none.
func terminalWidth(f *os.File) (width int, ok bool) {
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return 0, false
	}
	return 80, true
}
