package binlog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"

	"github.com/go-mysql-org/go-mysql/replication"
)

// Events is a Log of events that stand in memory one behind the other. Where the first
// is no FORMAT_DESCRIPTION the events are taken as those of MySQL 5.6 or later, or of MariaDB, without
// checksums.
type Events struct {
	raw   []byte
	at    int
	begun bool
}

// NewEvents makes a Log of the events in raw, which is not changed.
func NewEvents(raw []byte) *Events { return &Events{raw: raw} }

// Next implements Log.
func (e *Events) Next(context.Context) ([]byte, error) {
	left := e.raw[e.at:]
	if !e.begun {
		e.begun = true
		if len(left) > 4 && left[4] != byte(replication.FORMAT_DESCRIPTION_EVENT) {
			return plainFormat, nil
		}
	}
	if len(left) == 0 {
		return nil, io.EOF
	}
	raw, err := readEvent(bytes.NewReader(left))
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = ErrCut
		}
		return nil, &Error{Pos: uint64(e.at), Err: err}
	}
	e.at += len(raw)
	return raw, nil
}

// plainFormat describes events without checksums: the lengths of their fixed parts, those
// of MySQL 8.0, and of MariaDB's own from 160 on.
var plainFormat = func() []byte {
	lengths := []byte{0, 13, 0, 8, 0, 0, 0, 0, 4, 0, 4, 0, 0, 0, 97, 0, 4, 26, 8, 0, 0, 0, 8, 8, 8, 2, 0, 0, 0, 10, 10, 10, 42, 42, 0, 18, 52, 0, 10, 40, 0, 0}
	lengths = append(lengths, make([]byte, int(replication.MARIADB_DELETE_ROWS_COMPRESSED_EVENT_V1)-len(lengths))...)
	lengths[replication.MARIADB_QUERY_COMPRESSED_EVENT-1] = 13
	for _, t := range []replication.EventType{replication.MARIADB_WRITE_ROWS_COMPRESSED_EVENT_V1, replication.MARIADB_UPDATE_ROWS_COMPRESSED_EVENT_V1, replication.MARIADB_DELETE_ROWS_COMPRESSED_EVENT_V1} {
		lengths[t-1] = 8
	}
	raw := make([]byte, headerSize+2+50+4+1)
	raw[4] = byte(replication.FORMAT_DESCRIPTION_EVENT)
	binary.LittleEndian.PutUint16(raw[headerSize:], 4)
	copy(raw[headerSize+2:], "8.0.0")
	raw[headerSize+2+50+4] = headerSize
	raw = append(append(raw, lengths...), 0, 0, 0, 0, 0) // no checksums, and none here
	binary.LittleEndian.PutUint32(raw[9:], uint32(len(raw)))
	return raw
}()
