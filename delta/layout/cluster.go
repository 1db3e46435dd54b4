package layout

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/schema"
)

// A clustered table says by which columns its rows shall lie together. Files of rows that
// were laid out at one time are a cube, told by tags that Spark writes and reads too.
const (
	tagCube      = "ZCUBE_ID"
	tagCubeOrder = "ZCUBE_ZORDER_BY"
	liquid       = "liquid"
	// cubeBytes is the size from which a cube stays as it is when rows come in: below
	// it, it is laid out anew together with them.
	cubeBytes = 100 << 30
)

// clusterBy takes the order of a clustered table. Fields inside of structs are no columns
// to lay out by: tables clustered by one have their small files joined alone.
func (o *Options) clusterBy(s *delta.Snapshot) error {
	paths, err := s.ClusteringColumns()
	if err != nil || len(paths) == 0 || o.PurgeOnly {
		return err
	}
	if len(o.OrderBy) > 0 {
		return fmt.Errorf("%w: the table says itself what it is clustered by; optimize it without an order", ErrColumn)
	}
	var names []string
	for _, path := range paths {
		at := slices.IndexFunc(s.Schema().Fields, func(f schema.Field) bool { return f.Stored() == path[0] })
		if len(path) > 1 || at < 0 {
			return nil
		}
		names = append(names, s.Schema().Fields[at].Name)
	}
	o.OrderBy, o.Curve, o.clustered = names, Hilbert, true
	return nil
}

// unclustered picks the files of a clustered table that are to be laid out: those of no
// cube or a small one. Files that lie by other columns, or were laid out by another
// rule, stay as they are. Where all are one cube there is nothing to do.
func (o *Options) unclustered(files []*action.Add) []*action.Add {
	sizes := map[string]int64{}
	for _, add := range files {
		sizes[add.Tags[tagCube]] += add.Size
	}
	var picked []*action.Add
	one, purge := true, false
	for _, add := range files {
		cube := add.Tags[tagCube]
		if add.ClusteringProvider != nil && *add.ClusteringProvider != liquid || cube != "" && (!slices.Equal(cubeOrder(add), o.OrderBy) || sizes[cube] >= cubeBytes) {
			continue
		}
		picked = append(picked, add)
		one = one && cube != "" && cube == picked[0].Tags[tagCube]
		purge = purge || o.purges(add)
	}
	if one && !purge {
		return nil
	}
	return picked
}

// cubeOrder gives the columns that a cube lies by; nil where they can't be read.
func cubeOrder(add *action.Add) (names []string) {
	if json.Unmarshal([]byte(add.Tags[tagCubeOrder]), &names) != nil {
		return nil
	}
	return names
}

// cube marks the files of a bin as laid out together.
type cube struct{ id, order string }

func (o *Options) newCube() *cube {
	if !o.clustered {
		return nil
	}
	return &cube{uuid.NewString(), jsonList(o.OrderBy...)}
}

func (c *cube) mark(add *action.Add) {
	if c != nil {
		provider := liquid
		add.ClusteringProvider = &provider
		add.Tags = map[string]string{tagCube: c.id, tagCubeOrder: c.order}
	}
}
