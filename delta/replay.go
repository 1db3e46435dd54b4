package delta

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/schema"
)

// replay turns commits into the next snapshot. Without a base it starts from
// nothing, and its first commit may be a checkpoint.
type replay struct {
	base     *Snapshot
	protocol *action.Protocol
	metadata *action.Metadata
	files    map[string]**file
	numFiles int
	nextSeq  int64
	txns     map[string]*action.Txn
	domains  map[string]*action.DomainMetadata
	removes  []*action.Remove
	recent   []summary
}

func newReplay(base *Snapshot) *replay {
	r := &replay{
		base:  base,
		files: make(map[string]**file), txns: make(map[string]*action.Txn), domains: make(map[string]*action.DomainMetadata),
	}
	if base != nil {
		r.protocol, r.metadata = base.protocol, base.metadata
		r.numFiles, r.nextSeq, r.recent = base.numFiles, base.nextSeq, base.recent
	}
	return r
}

func (r *replay) file(path string) *file {
	if p, ok := r.files[path]; ok {
		if p == nil {
			return nil
		}
		return *p
	}
	if r.base != nil {
		f, _ := r.base.files.get(path)
		return f
	}
	return nil
}

func (r *replay) setFile(path string, f *file) {
	if f == nil {
		r.files[path] = nil
		return
	}
	r.files[path] = &f
}

// apply applies one commit. Actions within a commit have no order, so removes
// come first: "remove a, add a under another deletion vector" replaces.
func (r *replay) apply(c *action.Commit) {
	if c.Protocol != nil {
		r.protocol = c.Protocol
	}
	if c.Metadata != nil {
		r.metadata = c.Metadata
	}
	for i := range c.Txns {
		r.txns[c.Txns[i].AppID] = &c.Txns[i]
	}
	for i := range c.Domains {
		d := &c.Domains[i]
		if d.Removed {
			r.domains[d.Domain] = nil
		} else {
			r.domains[d.Domain] = d
		}
	}
	var places map[string]int64 // of the paths that this commit takes away
	for _, remove := range c.Removes {
		key := remove.Key()
		kept, gone := without(r.file(key.Path), key)
		if gone != nil {
			r.setFile(key.Path, kept)
			r.numFiles--
			if len(c.Adds) > 0 {
				if places == nil {
					places = make(map[string]int64, len(c.Removes))
				}
				places[key.Path] = gone.seq
			}
		}
	}
	r.removes = append(r.removes, c.Removes...)
	for _, add := range c.Adds {
		key := add.Key()
		seq, placed := places[key.Path]
		kept, gone := without(r.file(key.Path), key)
		switch {
		case gone != nil: // the same logical file again: new stats or tags
			seq = gone.seq
			r.numFiles--
		case !placed:
			seq = r.nextSeq
			r.nextSeq++
		}
		r.setFile(key.Path, &file{add: add, seq: seq, other: kept})
		r.numFiles++
	}
}

// without takes one logical file out of a chain.
func without(chain *file, key action.FileKey) (kept, gone *file) {
	if chain == nil {
		return nil, nil
	}
	if chain.add.Key() == key {
		return chain.other, chain
	}
	rest, gone := without(chain.other, key)
	if gone == nil {
		return chain, nil
	}
	return &file{add: chain.add, seq: chain.seq, other: rest}, gone
}

// note keeps a commit for Rebase. Only commits on top of a snapshot in hand are
// noted: opening a table would read its commitInfos for nothing.
func (r *replay) note(version int64, c *action.Commit) {
	r.recent = append(slices.Clip(r.recent), summarize(version, c))
	if len(r.recent) > maxRecent {
		r.recent = r.recent[len(r.recent)-maxRecent:]
	}
}

// snapshot gives the state after the last commit applied. The error names a
// feature that can't be read, or wraps ErrCorrupt where protocol or metaData
// are missing.
func (r *replay) snapshot(version int64, confirmed time.Time) (*Snapshot, error) {
	if r.protocol == nil {
		return nil, fmt.Errorf("%w: version %d has no protocol action", ErrCorrupt, version)
	}
	if r.metadata == nil {
		// Said before the metadata is missed: a protocol gscd does not know may have reasons for it.
		if err := checkReadable(r.protocol, &action.Metadata{}); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: version %d has no metaData action", ErrCorrupt, version)
	}
	s := &Snapshot{
		version: version, protocol: r.protocol, metadata: r.metadata, confirmed: confirmed,
		numFiles: r.numFiles, nextSeq: r.nextSeq, recent: r.recent,
	}
	if base := r.base; base != nil {
		s.files, s.txns, s.domains = base.files, base.txns, base.domains
		s.removed = base.removed
		s.schema = base.schema
	}
	s.files, s.txns, s.domains = s.files.with(r.files), s.txns.with(r.txns), s.domains.with(r.domains)
	if len(r.removes) > 0 {
		s.removed = &removed{r.removes, s.removed}
	}
	if r.base != nil && r.base.protocol == r.protocol && r.base.metadata == r.metadata {
		return s, nil
	}
	if err := checkReadable(r.protocol, r.metadata); err != nil {
		return nil, err
	}
	var err error
	s.schema, err = parseSchema(r.protocol, r.metadata)
	return s, err
}

// parseSchema gives the columns of a table, with column mapping applied where it is
// in force and known widenings of types.
func parseSchema(p *action.Protocol, m *action.Metadata) (*schema.Schema, error) {
	parsed, err := schema.Parse(m.SchemaString)
	if errors.Is(err, schema.ErrType) {
		return nil, &UnsupportedFeatureError{Feature: "a column type", Reading: true, Why: err.Error()}
	}
	if err == nil {
		if mode := mappingMode(p, m); mode != "" {
			parsed, err = parsed.Mapped(mode == "id")
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: metaData.schemaString: %w", ErrCorrupt, err)
	}
	if err := checkWidenings(parsed.Fields); err != nil {
		return nil, err
	}
	return parsed, nil
}
