// Command gscd keeps a Delta table in step with a stream of changes and pins one
// version of it for every business day.
//
// One file is one command. A command turns flags and configuration into the
// options of a package and calls it; what the program does is in the packages.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], newApp(), commands))
}
