package s3_test

import (
	"errors"
	"strings"
	"testing"
)

// noSecrets holds an error, and all that it wraps, against the keys.
func noSecrets(t *testing.T, what string, err error) {
	t.Helper()
	var visit func(error)
	visit = func(err error) {
		if err == nil {
			return
		}
		if strings.Contains(err.Error(), secretKey) {
			t.Errorf("%s: an error has the secret in it", what)
		}
		switch w := err.(type) {
		case interface{ Unwrap() []error }:
			for _, e := range w.Unwrap() {
				visit(e)
			}
		default:
			visit(errors.Unwrap(err))
		}
	}
	visit(err)
}
