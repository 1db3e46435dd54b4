// Package integration holds the tests that look at the program as a whole: the
// rules of the house (which package imports which, a comment on each), and,
// behind the build tag integration, real servers and other engines.
//
// A test that needs something which is not there skips with a line that names it.
package integration
