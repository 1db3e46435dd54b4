//go:build unix

package output

import (
	"os"

	"golang.org/x/sys/unix"
)

// terminalWidth gives the columns of a terminal; ok is false where f is none.
// A terminal that does not know its size counts as one of 80 columns.
func terminalWidth(f *os.File) (width int, ok bool) {
	size, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return 0, false
	}
	if size.Col == 0 {
		return 80, true
	}
	return int(size.Col), true
}
