package output

import (
	"io"
	"os"
	"strconv"
)

// Terminal is what is known of the place that is printed to.
type Terminal struct {
	// Width is the number of columns; 0: no terminal, nothing is cut.
	Width int
	// Color says whether colours may be used: a terminal, and NO_COLOR is not set.
	Color bool
}

// minTerminalWidth is the least width taken from a terminal that reports less.
const minTerminalWidth = 20

// TerminalOf looks at w. The width of a terminal is that of COLUMNS where it is set.
func TerminalOf(w io.Writer) Terminal {
	f, ok := w.(*os.File)
	if !ok {
		return Terminal{}
	}
	width, ok := terminalWidth(f)
	if !ok {
		return Terminal{}
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		width = n
	}
	return Terminal{
		Width: max(width, minTerminalWidth),
		Color: os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb",
	}
}
