package main

import "github.com/gscd-io/gscd/query/output"

// printRecords begins a list of what a command reports, in the format of
// --format. The caller closes it, but not after an error.
func (a *app) printRecords(names ...string) (*output.RecordWriter, error) {
	return output.NewRecordWriter(a.flags.format, a.stdout, names)
}

// printObject prints one record: as an object, or as names and values.
func (a *app) printObject(record output.Record) error {
	return output.WriteObject(a.flags.format, a.stdout, record)
}
