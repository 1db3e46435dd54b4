package layout

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/dv"
)

// vectorPack gathers the deletion vectors of a commit in one file.
type vectorPack struct {
	packer dv.Packer
	id     uuid.UUID
}

// add gives the descriptor of a vector.
func (p *vectorPack) add(rows *dv.Bitmap) (*action.DeletionVector, error) {
	if p.packer.Len() == 0 {
		p.id = uuid.New()
	}
	offset, size, cardinality, err := p.packer.Append(rows)
	if err != nil {
		return nil, err
	}
	return &action.DeletionVector{StorageType: "u", PathOrInlineDV: dv.PathOfID(p.id), Offset: &offset, SizeInBytes: size, Cardinality: cardinality}, nil
}

// storeVectors stores the pack, where there is one.
func (a *actions) storeVectors(ctx context.Context, table *delta.Table) error {
	if a.pack.packer.Len() == 0 {
		return nil
	}
	if err := table.Store().Put(ctx, dv.FileName(a.pack.id), a.pack.packer.Bytes()); err != nil {
		return fmt.Errorf("write deletion vectors: %w", err)
	}
	return nil
}
