package progress

import (
	"slices"

	"github.com/gscd-io/gscd/ingest/change"
	"github.com/gscd-io/gscd/snapshotter"
)

// AppliedDDL is a statement of the source that the table's columns follow.
type AppliedDDL struct {
	// Line and Position are where it stands in the source's log.
	Line        int32             `json:"line"`
	Position    change.Position   `json:"position"`
	HasPosition bool              `json:"has_position,omitempty"`
	Label       snapshotter.Label `json:"label"`
	Statement   string            `json:"statement"`
	// Renamed and Dropped are columns of the source, by its names.
	Renamed []Renamed `json:"renamed,omitempty"`
	Dropped []string  `json:"dropped,omitempty"`
	// Seen says at which offset partitions have brought it.
	Seen []SeenAt `json:"seen"`
}

// Renamed is a column that has another name.
type Renamed struct {
	Old string `json:"old"`
	New string `json:"new"`
}

// SeenAt is a partition by its number and an offset of it.
type SeenAt struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

// See notes that a partition has brought the statement.
func (d *AppliedDDL) See(partition int32, offset int64) {
	if _, seen := d.SeenAt(partition); !seen {
		d.Seen = append(slices.Clip(d.Seen), SeenAt{partition, offset})
	}
}

// SeenAt gives the offset at which a partition has brought the statement.
func (d *AppliedDDL) SeenAt(partition int32) (offset int64, seen bool) {
	for _, s := range d.Seen {
		if s.Partition == partition {
			return s.Offset, true
		}
	}
	return 0, false
}
