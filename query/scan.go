package query

import "github.com/gscd-io/gscd/delta/scan"

// The names of package scan by which this package had them, for who has not moved yet.
type (
	Scan        = scan.Scan
	Options     = scan.Options
	Batch       = scan.Batch
	ChangeBatch = scan.ChangeBatch
)

// See package scan.
var (
	NewScan         = scan.New
	Changes         = scan.Changes
	CheckRows       = scan.CheckRows
	PartitionValue  = scan.PartitionValue
	CanSkipFile     = scan.CanSkipFile
	CanSkipRowGroup = scan.CanSkipRowGroup

	ErrFileMissing  = scan.ErrFileMissing
	ErrFileMismatch = scan.ErrFileMismatch
	ErrColumn       = scan.ErrColumn
	ErrNoChanges    = scan.ErrNoChanges
)
