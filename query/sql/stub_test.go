//go:build !cgo

package sql_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gscd-io/gscd/query/sql"
)

func TestWithoutDuckDB(t *testing.T) {
	_, err := sql.Run(context.Background(), "SELECT 1", sql.Options{})
	if !errors.Is(err, sql.ErrNotBuilt) || !strings.Contains(err.Error(), "cgo") || sql.Built {
		t.Errorf("got %v", err)
	}
}
