package mysql

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/go-mysql-org/go-mysql/client"

	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/ingest/change"
)

// position asks where in the binlog the consistent read of a connection stands. MariaDB
// says it without a lock; nil where the server does not.
func position(c *client.Conn) (*ingest.SourcePosition, error) {
	r, err := c.Execute("SHOW STATUS LIKE 'binlog_snapshot_%'")
	if err != nil {
		return nil, err
	}
	status := map[string]string{}
	for i := range r.RowNumber() {
		name, err := r.GetString(i, 0)
		if err != nil {
			return nil, err
		}
		if status[strings.ToLower(name)], err = r.GetString(i, 1); err != nil {
			return nil, err
		}
	}
	file := status["binlog_snapshot_file"]
	if file == "" {
		return nil, nil
	}
	at := &ingest.SourcePosition{}
	if at.Position, err = Position(file + ":" + status["binlog_snapshot_position"]); err != nil {
		return nil, err
	}
	if r, err = c.Execute("SELECT @@server_id, CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)"); err != nil {
		return nil, err
	}
	if at.ServerID, err = r.GetInt(0, 0); err != nil {
		return nil, err
	}
	at.Time, err = r.GetInt(0, 1)
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
