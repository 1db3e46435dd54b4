package ingest

import (
	"fmt"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/savepoint"
)

// feeds reports whether commits must write change data: the protocol asks that of
// every writer where the table's property is true, whoever set it.
func (l *Lane) feeds() bool {
	if l.base == nil {
		return l.o.ChangeData
	}
	on, _ := l.base.Property(delta.PropertyChangeDataFeed)
	return on == "true"
}

// reservedColumns are the columns that readers put beside a row of change data.
var reservedColumns = []string{"_change_type", "_commit_version", "_commit_timestamp"}

func reserved(name string) bool { return slices.Contains(reservedColumns, strings.ToLower(name)) }

// switchOnChangeData sets the property of a table that is there, in one commit of
// metadata; done tells that the table must be looked at again.
func (l *Lane) switchOnChangeData() (done bool, err error) {
	if !l.o.ChangeData || l.feeds() {
		return false, nil
	}
	for _, f := range l.base.Schema().Fields {
		if reserved(f.Name) {
			return false, fmt.Errorf("table %s: %w: its column %s has a name that change data gives to a column of its own: leave change_data out, or write to a new table without that column", l.o.Name, ErrRefused, f.Name)
		}
	}
	version, err := savepoint.FeedChanges(l.ctx, l.table)
	if err != nil {
		return false, fmt.Errorf("table %s: switch change data on: %w", l.o.Name, err)
	}
	l.o.Log.Info("change data is written from here on", zap.String("table", l.o.Name), zap.Int64("version", version))
	return true, nil
}
