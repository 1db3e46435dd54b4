package azure

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/rand"
	"encoding/base64"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/streaming"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/attempt"
)

// Create implements objstore.Streamer: blocks of objstore.PieceBytes, and a list of them
// at the end. Azure takes 50,000 blocks, which is 390 GiB.
func (s *Store) Create(ctx context.Context, key string) (objstore.Writer, error) {
	r := s.request("put", key, "write")
	if err := check(r); err != nil {
		return nil, err
	}
	return &writer{ctx: ctx, s: s, r: r, token: rand.Text()}, nil
}

// writer is a blob in the making. Blocks that are in no list are removed by Azure after
// a week.
type writer struct {
	ctx    context.Context
	s      *Store
	r      attempt.Request
	token  string
	buf    []byte
	blocks []string
	ended  bool
}

// Write implements objstore.Writer.
func (w *writer) Write(data []byte) (int, error) {
	if w.ended {
		return 0, objstore.ErrEnded
	}
	n := 0
	for n < len(data) {
		if len(w.buf) == objstore.PieceBytes {
			if err := w.stage(); err != nil {
				return n, err
			}
		}
		take := data[n:min(len(data), n+objstore.PieceBytes-len(w.buf))]
		w.buf = append(w.buf, take...)
		n += len(take)
	}
	return n, nil
}

// stage sends what is held as a block. The names of blocks have one length, as Azure wants.
func (w *writer) stage() error {
	id := base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%s-%06d", w.token, len(w.blocks)))
	sum := md5.Sum(w.buf)
	_, err := w.s.service.Do(w.ctx, w.r, func(ctx context.Context) error {
		_, err := w.s.api.NewBlockBlobClient(w.s.prefix+w.r.Key).StageBlock(ctx, id, streaming.NopCloser(bytes.NewReader(w.buf)),
			&blockblob.StageBlockOptions{TransactionalValidation: blob.TransferValidationTypeMD5(sum[:])})
		return err
	})
	if err != nil {
		return err
	}
	w.blocks = append(w.blocks, id)
	w.buf = w.buf[:0]
	return nil
}

// Commit implements objstore.Writer.
func (w *writer) Commit() error {
	if w.ended {
		return objstore.ErrEnded
	}
	w.ended = true
	defer func() { w.buf = nil }()
	if len(w.blocks) == 0 { // it is small
		return w.s.write(w.ctx, w.r.Key, w.buf, false)
	}
	if err := w.stage(); err != nil {
		return err
	}
	return w.s.service.Settle(w.ctx, w.r, false, func(ctx context.Context) error {
		_, err := w.s.api.NewBlockBlobClient(w.s.prefix+w.r.Key).CommitBlockList(ctx, w.blocks,
			&blockblob.CommitBlockListOptions{Metadata: map[string]*string{tokenName: &w.token}})
		return err
	}, func(ctx context.Context) (attempt.Owner, error) { return w.s.whose(ctx, w.r.Key, nil, w.token) })
}

// Abort implements objstore.Writer.
func (w *writer) Abort() { w.ended, w.buf = true, nil }
