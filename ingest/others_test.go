package ingest_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/upsert"
	"github.com/gscd-io/gscd/savepoint"
)

// successor has another ingester work on the table while one is frozen that began at
// version start. It gives the version up to which the other came, where the table is
// its own from then on: -1 where it did nothing, or the one that is frozen had not
// committed yet, and may still take the table.
func (tr *trial) successor(start int64, work func()) int64 {
	before := tr.newest()
	took := before > start && tr.epochAt(before) > tr.epochAt(start) // it may have switched on change data alone
	work()
	if now := tr.newest(); now > before && took {
		return now
	}
	return -1
}

// epochAt is the owner's epoch at a version, 0 before the first.
func (tr *trial) epochAt(version int64) int64 {
	if version < 0 {
		return 0
	}
	table := delta.New(tr.store)
	s, err := table.SnapshotAt(ctx, version)
	if err != nil {
		return 0
	}
	p, err := savepoint.ProgressOf(ctx, table, s)
	if err != nil {
		return 0
	}
	return p.OwnerEpoch
}

// usurp is another ingester that takes the table, and ends in the middle of its work.
func (tr *trial) usurp(s step, topic map[int32][]*event) error {
	r := rand.New(rand.NewPCG(s.seed, 31))
	err := tr.life(s, topic, r, fault{pick(r, "crash", "lost"), 1 + r.Int64N(40)})
	if wrong, ok := err.(*wrongError); ok {
		return wrong
	}
	return nil
}

// commitOther commits as another engine.
func (tr *trial) commitOther(operation string, store objstore.Store, change func(snap *delta.Snapshot, tx *delta.Transaction) error) error {
	table := delta.New(store, delta.WithEngineInfo("other/1"))
	snap, err := table.Snapshot(ctx)
	if err != nil {
		return err
	}
	tx := delta.NewTransaction(table, snap)
	tx.SetCommitInfo(operation, nil, nil, nil)
	if err := change(snap, tx); err != nil {
		return err
	}
	out, err := tx.Commit(ctx)
	if err != nil || !out.Committed {
		return fmt.Errorf("%s: %+v, %w", operation, out, err)
	}
	tr.others[out.Version] = true
	return nil
}

// addColumn is ALTER TABLE ADD COLUMN by another engine.
func (tr *trial) addColumn(s step, store objstore.Store) error {
	name := []string{"x1", "x2"}[s.seed%2]
	return tr.commitOther("ADD COLUMNS", store, func(snap *delta.Snapshot, tx *delta.Transaction) error {
		if snap.Schema().Index(name) >= 0 {
			return nil
		}
		columns, err := schema.New(append(slices.Clone(snap.Schema().Fields), schema.Field{Name: name, Type: schema.Of(schema.StringType), Nullable: true})...)
		if err != nil {
			return err
		}
		m := *snap.Metadata()
		m.SchemaString = columns.String()
		tx.SetMetadata(m)
		tr.m.columns = append(tr.m.columns, name)
		return nil
	})
}

// foreignRows changes rows, or moves all of them, in files without hidden columns.
func (tr *trial) foreignRows(s step, store objstore.Store) error {
	if !tr.whole || !tr.f.foreign || len(tr.key) != 1 {
		return nil // there is a partition with another one beside, or more to be taken
	}
	if _, snap, _, err := tr.snapshot(tr.store); err != nil || snap.Schema().Index("id") < 0 {
		return err // no row was there yet
	}
	states, _ := tr.m.states()
	rows := states[tr.m.open()].rows
	r := rand.New(rand.NewPCG(s.seed, 37))
	v := &verdict{event: &event{kind: foreign}, cut: map[int32]int{}}
	for p := range tr.m.topic {
		v.cut[p], _ = tr.m.reach(p)
	}
	key := `{"id":` + strconv.Itoa(900+r.IntN(2)) + `}`
	if live := sorted(rows); len(live) > 0 && r.IntN(2) == 0 {
		key = pick(r, live...)
	}
	id, err := strconv.ParseInt(key[len(`{"id":`):len(key)-1], 10, 64)
	if err != nil {
		return nil // the key that is NULL
	}
	old, live := rows[key]
	switch c := r.IntN(4); {
	case c == 0 && tr.o.PartitionBy == nil: // of a partition only files can be joined
		v.op = 'm'
	case c == 1 && live:
		v.op, v.old = 'd', key
	default:
		v.op, v.new, v.row = 'u', key, map[string]string{"id": strconv.FormatInt(id, 10)}
		if live {
			v.row = maps.Clone(old.row)
		}
	}
	operation := map[byte]string{'m': "OPTIMIZE", 'd': "DELETE", 'u': "MERGE"}[v.op]
	err = tr.commitOther(operation, store, func(snap *delta.Snapshot, tx *delta.Transaction) error {
		w, err := upsert.Open(ctx, store, snap, upsert.Options{Key: tr.key, CopyOnWrite: tr.o.CopyOnWrite})
		if err != nil {
			return err
		}
		if v.op == 'm' {
			var ids []uint32
			for _, f := range w.Files() {
				ids = append(ids, f.Segment)
			}
			_, err = w.Join(ctx, ids, snap.Schema(), snap.Metadata().PartitionColumns, nil, tx)
			return err
		}
		b := &upsert.Batch{Schema: snap.Schema(), PartitionBy: snap.Metadata().PartitionColumns}
		encoded := string(schema.IntValue(id).AppendEncoded(nil))
		ref := w.Index().Get(encoded)
		if (ref != 0) != live {
			return &wrongError{fmt.Errorf("the key %s is live: %v, the model says %v", key, ref != 0, live)}
		}
		if live {
			b.Replaced = append(b.Replaced, ref)
		}
		if v.op == 'd' {
			b.Removed = append(b.Removed, encoded)
		} else {
			row := make([]schema.Value, len(snap.Schema().Fields))
			for i, f := range snap.Schema().Fields {
				switch text, has := v.row[f.Name]; {
				case f.Name == "v": // the other engine's value
					v.row["v"] = strconv.FormatInt(70000+int64(s.seed%1000), 10)
					row[i] = schema.IntValue(70000 + int64(s.seed%1000))
				case f.Name == "id":
					row[i] = schema.IntValue(id)
				case has:
					row[i] = schema.Value{Kind: schema.String, S: text[1 : len(text)-1]}
				}
			}
			b.Rows, b.Keys, b.Tags = append(b.Rows, row), append(b.Keys, encoded), append(b.Tags, 0)
		}
		_, err = w.Write(ctx, b, tx)
		return err
	})
	if err == nil {
		tr.m.foreign = append(tr.m.foreign, v)
	}
	return err
}
