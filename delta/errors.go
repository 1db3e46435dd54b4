package delta

import (
	"errors"
	"fmt"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/deltalog"
)

// Opening and reading.
var (
	// ErrNotATable: there is no Delta log below the root.
	ErrNotATable = deltalog.ErrNotATable
	// ErrVersionNotFound is what a *VersionNotFoundError wraps.
	ErrVersionNotFound = deltalog.ErrVersionNotFound
	// ErrCorrupt marks a log that can't be what the protocol says.
	ErrCorrupt = action.ErrCorrupt
	// ErrUnsupportedFeature is what an *UnsupportedFeatureError wraps.
	ErrUnsupportedFeature = errors.New("table feature is not supported")
	// ErrPathEscapes and ErrAbsolutePath: a path of the log that is not below the root.
	ErrPathEscapes  = action.ErrPathEscapes
	ErrAbsolutePath = action.ErrAbsolutePath
)

// Writing.
var (
	// ErrInvalidTransaction: the transaction breaks a rule of the protocol; nothing was written.
	ErrInvalidTransaction = errors.New("not a legal transaction")
	// ErrConflict is what a *ConflictError wraps.
	ErrConflict = errors.New("conflicting commit")
)

// VersionNotFoundError says that a version is not readable and which ones are.
type VersionNotFoundError = deltalog.VersionNotFoundError

// UnsupportedFeatureError names what of the protocol stands in the way.
type UnsupportedFeatureError struct {
	// Feature is the protocol's name of it ("typeWidening"), or "minReaderVersion 99".
	Feature string
	// Reading is true where the table can't even be read.
	Reading bool
	// Why says what makes a known feature a hindrance here; may be empty.
	Why string
}

// Error names the feature.
func (e *UnsupportedFeatureError) Error() string {
	verb := "write"
	if e.Reading {
		verb = "read"
	}
	if e.Why != "" {
		return fmt.Sprintf("%v: can't %s the table: %s (%s)", ErrUnsupportedFeature, verb, e.Feature, e.Why)
	}
	return fmt.Sprintf("%v: can't %s the table: %s", ErrUnsupportedFeature, verb, e.Feature)
}

// Unwrap gives ErrUnsupportedFeature.
func (e *UnsupportedFeatureError) Unwrap() error { return ErrUnsupportedFeature }

// Rule names why a transaction can't follow a commit that won against it.
type Rule string

// The rules of Rebase.
const (
	// RuleData: the winner changed rows.
	RuleData Rule = "the winner changed data"
	// RuleMetadata: the winner changed schema or properties.
	RuleMetadata Rule = "the winner changed the metadata"
	// RuleProtocol: the winner changed the protocol.
	RuleProtocol Rule = "the winner changed the protocol"
	// RuleTxn: the winner wrote a txn of an application that we write too.
	RuleTxn Rule = "the winner wrote the same txn"
	// RuleFile: the winner removed a file that we remove.
	RuleFile Rule = "the winner removed a file of ours"
	// RuleRead: the winner removed or changed a file that was read.
	RuleRead Rule = "the winner changed a file that was read"
	// RuleAdded: the winner added rows that would have been read.
	RuleAdded Rule = "the winner added rows that would have been read"
	// RuleDomain: the winner wrote a metadata domain that we write too.
	RuleDomain Rule = "the winner wrote the same domain"
	// RuleUnknown: the commits between are not known to the newer snapshot.
	RuleUnknown Rule = "the commits between are not known"
	// RuleOwnCommit: the winner is this very transaction; it is committed.
	RuleOwnCommit Rule = "the winner is the transaction itself"
)

// ConflictError says which commit, by which rule, a transaction can't follow.
// The caller drops the transaction and plans it anew, but for RuleOwnCommit.
type ConflictError struct {
	Version   int64
	Operation string
	Rule      Rule
}

// Error names version, operation and rule.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("%v: version %d (%s): %s", ErrConflict, e.Version, e.Operation, e.Rule)
}

// Unwrap gives ErrConflict.
func (e *ConflictError) Unwrap() error { return ErrConflict }
