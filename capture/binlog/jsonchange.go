package binlog

import (
	"fmt"

	"github.com/gscd-io/gscd/capture/event"
)

// jsonChange applies what PARTIAL_UPDATE_ROWS has of a column.
func (s *slot) jsonChange(b []byte, before, out *event.Cell) error {
	return fmt.Errorf("changes of a JSON value %w: set binlog_row_value_options to '' at the source", ErrUnsupported)
}
