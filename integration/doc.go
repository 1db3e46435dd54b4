// Package integration holds the tests that look at the program as a whole: the
// rules of the house (which package imports which, a comment on each), and,
// behind the build tag integration, real servers and other engines.
//
// A test that needs shared test data skips with a line that names it. Servers
// and engines are installed by engines/install.sh: whoever asks for the tagged
// tests wants them run, so one that is missing is a failure.
package integration
