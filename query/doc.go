// Package query says what a person asks of a table: Description is what
// `gscd describe` says of a Snapshot. Package output prints, sql answers
// statements; rows are read by delta/scan.
package query
