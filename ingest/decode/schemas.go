package decode

import (
	"errors"
	"fmt"
)

// IDKind is what the id of a schema counts at its registry.
type IDKind uint8

// The kinds of ids.
const (
	// ContentID is the id of a text, the same for every name that it is registered
	// under: the only kind of Confluent's registry, one of Apicurio's two.
	ContentID IDKind = iota
	// GlobalID is Apicurio's id of a version of one artifact.
	GlobalID
)

func (k IDKind) String() string {
	if k == GlobalID {
		return "global"
	}
	return "content"
}

// SchemaID names a schema of a registry. What it stands for never changes.
type SchemaID struct {
	Kind IDKind
	ID   int64
}

func (id SchemaID) String() string {
	if id.Kind == GlobalID {
		return fmt.Sprintf("schema with the global id %d", id.ID)
	}
	return fmt.Sprintf("schema %d", id.ID)
}

// Schemas is where the schemas of Avro records come from. All decoders share
// one, at the same time.
type Schemas interface {
	// Schema gives the texts of a schema: those that it refers to, each before
	// the one that needs it, and itself last. The error wraps ErrNoSchema where the
	// registry has said that there is none of the id, or none that can be used;
	// else it is a *SchemaError.
	Schema(id SchemaID) ([]string, error)
}

// ErrNoSchema: a record names a schema that is none. The record is at fault.
var ErrNoSchema = errors.New("there is no such schema")

// SchemaError says that a schema could not be had. It says nothing about the
// record that needs it, which must wait.
type SchemaError struct {
	// Retryable tells that asking again may help without anyone doing something.
	Retryable bool
	Err       error
}

func (e *SchemaError) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *SchemaError) Unwrap() error { return e.Err }
