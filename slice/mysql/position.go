package mysql

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gscd-io/gscd/capture/source"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
)

// position asks where in the binlog the consistent read of a session stands. MariaDB says
// it without a lock; nil where the server does not.
func position(c *source.Session) (*ingest.SourcePosition, error) {
	file, pos, err := c.SnapshotAt()
	if errors.Is(err, source.ErrNoLog) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	at := &ingest.SourcePosition{}
	if at.Position, err = Position(file + ":" + pos); err != nil {
		return nil, err
	}
	who, err := c.Identity()
	if err != nil {
		return nil, err
	}
	at.ServerID = int64(who.ServerID)
	at.Time, err = c.Clock()
	return at, err
}

// Position reads FILE:POS, a log file by its name, which ends with a number, and a byte in it.
func Position(text string) (p change.Position, err error) {
	wrong := fmt.Errorf("%q is no position in a binlog: write it as mysql-bin.000042:1234", text)
	file, pos, _ := strings.Cut(text, ":")
	if p.Pos, err = strconv.ParseInt(pos, 10, 64); err != nil || p.Pos < 0 {
		return p, wrong
	}
	if p.File, err = strconv.ParseInt(file[strings.LastIndexByte(file, '.')+1:], 10, 64); err != nil || p.File < 0 {
		return p, wrong
	}
	return p, nil
}
