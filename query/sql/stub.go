//go:build !cgo

package sql

import "context"

// Built tells whether this program can answer SQL.
const Built = false

// Run gives ErrNotBuilt: there is no DuckDB in this program.
func Run(context.Context, string, Options) (*Rows, error) { return nil, ErrNotBuilt }

// Explain gives ErrNotBuilt.
func Explain(context.Context, string, Options) (*Explanation, error) { return nil, ErrNotBuilt }
