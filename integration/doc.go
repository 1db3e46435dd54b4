// Package integration holds the tests that look at the program as a whole: the
// rules of the house (which package imports which, a comment on each), the
// pipeline from records to the rows of a day under given cases, recorded streams
// and known outcomes, and, behind the build tag integration, real servers and
// other engines.
//
// A given case is read where it lies: each line of its expectation, and each of
// its Must and Choice lines, is asserted or left out by name, or the test fails.
//
// A test that needs shared test data skips with a line that names it. Servers
// and engines are installed by engines/install.sh: whoever asks for the tagged
// tests wants them run, so one that is missing is a failure.
package integration
