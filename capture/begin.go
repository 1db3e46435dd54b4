package capture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/capture/source"
	"github.com/gscd-io/gscd/ddl"
)

// begin makes the first state, or takes the kept one.
func (s *session) begin(ctx context.Context) error {
	catalog, session, err := s.newCatalog()
	if err != nil {
		return err
	}
	s.catalog = catalog
	if s.state.position != nil {
		for _, t := range s.state.tables() {
			catalog.Put(t)
		}
		return nil
	}
	// A new one: the tables as they are at one position.
	saved := &savedLoad{ServerID: s.who.ServerID, Done: s.o.Never}
	p, texts, err := s.oneMoment(ctx, func(string, string) bool { return true }, saved)
	if err != nil {
		return err
	}
	for _, name := range slices.SortedFunc(maps.Keys(texts), source.TableName.Compare) {
		session.Database = name.Database
		if _, err := catalog.Apply(texts[name], session); err != nil && s.o.wanted(name.Database, name.Name) {
			return fmt.Errorf("table %s: %w", name, err)
		}
	}
	for name := range s.state.loads { // of a load before
		s.state.put(tableLoads+name, nil)
	}
	clear(s.state.loads)
	for _, t := range catalog.Tables() {
		name := source.TableName{Database: t.Database, Name: t.Name}
		s.state.schema(&savedSchema{File: p.File, Pos: p.Pos, Database: t.Database, Name: t.Name, Table: t, Statement: texts[name]})
		if s.o.wanted(t.Database, t.Name) {
			l := &tableLoad{Definition: texts[name], Done: s.o.Never}
			s.state.loads[name.String()] = l
			s.state.put(tableLoads+name.String(), l)
		}
	}
	s.state.load = saved
	s.state.put(keyLoad, saved)
	s.state.at(s.o, s.who, p, 0)
	return s.out.commit(ctx)
}

// oneMoment gives the definitions of tables at a position, and opens the sessions that see
// their rows there, unless saved is of a load that is done.
func (s *session) oneMoment(ctx context.Context, wanted func(string, string) bool, saved *savedLoad) (p source.Position, texts map[source.TableName]string, err error) {
	for range 10 {
		if texts, err = s.definitions(wanted); err != nil {
			return p, nil, err
		}
		if saved.Done {
			if saved.Time, err = s.conn.Clock(); err == nil {
				p, err = s.conn.Position()
			}
		} else {
			err = s.open(ctx)
			if err == nil {
				p, saved.Time, saved.Rounds = s.snapshots.Position, s.snapshots.Time, 1
			}
		}
		if err != nil {
			return p, nil, err
		}
		now, err := s.definitions(wanted)
		if err != nil {
			return p, nil, err
		}
		if maps.Equal(texts, now) {
			saved.File, saved.Pos, saved.GTIDs = p.File, p.Pos, p.GTIDs
			return p, texts, nil
		}
	}
	return p, nil, fmt.Errorf("%s: tables are created or altered all the time: begin when that has ended", s.server.Name())
}

// definitions asks for the statements that create tables; those that are dropped in between
// are left out.
func (s *session) definitions(wanted func(string, string) bool) (map[source.TableName]string, error) {
	tables, err := s.conn.Tables(wanted)
	if err != nil {
		return nil, err
	}
	out := map[source.TableName]string{}
	for _, t := range tables {
		text, err := s.conn.Definition(t)
		if errors.Is(err, source.ErrChanged) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("table %s: %w", t, err)
		}
		out[t] = autoIncrement.ReplaceAllString(text, "")
	}
	return out, nil
}

// open opens the sessions that read rows.
func (s *session) open(ctx context.Context) (err error) {
	s.closeSnapshots()
	s.snapshots, err = s.server.Snapshot(ctx, s.o.Load.Parallel, s.o.Load.Lock)
	if err != nil {
		return err
	}
	if n := len(s.snapshots.Sessions); n < s.o.Load.Parallel {
		s.o.Log.Warn("one connection reads: transactions come too fast for several to see one moment, and the short lock is not allowed; GRANT RELOAD, with capture.load.lock: auto")
	}
	return nil
}

func (s *session) closeSnapshots() {
	if s.snapshots != nil {
		s.snapshots.Close()
		s.snapshots = nil
	}
}

// load reads the rows of tables that were not read yet.
func (s *session) load(ctx context.Context) error {
	defer s.closeSnapshots()
	if s.state.load == nil {
		return fmt.Errorf("%w: it has a position and no load", ErrState)
	}
	extra, err := s.prepareLoad(ctx)
	if err != nil {
		return err
	}
	saved := s.state.load
	l := &loader{o: s.o, out: s.out, state: s.state, saved: saved}
	for _, name := range slices.Sorted(maps.Keys(s.state.loads)) {
		if t := s.state.loads[name]; !t.Done {
			l.tables = append(l.tables, t)
		}
	}
	if len(l.tables) > 0 {
		if err := s.resume(ctx, l); err != nil {
			return s.startOver(ctx, err, extra)
		}
		s.o.Log.Info("read the rows of tables", zap.Int("tables", len(l.tables)), zap.Int("connections", len(s.snapshots.Sessions)), zap.Int("round", saved.Rounds),
			zap.String("position", source.Position{File: saved.File, Pos: saved.Pos}.String()))
		if err := l.run(ctx, s.snapshots); err != nil {
			return s.startOver(ctx, err, extra)
		}
	}
	if !saved.Done {
		saved.Done = true
		s.state.put(keyLoad, saved)
		return s.out.commit(ctx)
	}
	return nil
}

// prepareLoad looks, where the load is done, for tables that were there before and are
// wanted now. It tells whether the load is one of those.
func (s *session) prepareLoad(ctx context.Context) (extra bool, err error) {
	if !s.state.load.Done {
		return s.state.load.Extra, nil
	}
	missing := func(database, table string) bool {
		// One that the catalog does not know is created further on in the stream.
		return s.o.wanted(database, table) && s.catalog.Table(database, table) != nil && s.state.loads[database+"."+table] == nil
	}
	tables, err := s.conn.Tables(missing)
	if err != nil || len(tables) == 0 {
		return false, err
	}
	saved := &savedLoad{ServerID: s.who.ServerID, Extra: true, Done: s.o.Never}
	_, texts, err := s.oneMoment(ctx, missing, saved)
	if err != nil {
		return false, err
	}
	for name, text := range texts {
		l := &tableLoad{Definition: text, Done: s.o.Never}
		s.state.loads[name.String()] = l
		s.state.put(tableLoads+name.String(), l)
	}
	s.state.load = saved
	s.state.put(keyLoad, saved)
	return true, s.out.commit(ctx)
}

// resume makes the tables of a load ready to be read, by sessions that are open or by new ones.
func (s *session) resume(ctx context.Context, l *loader) error {
	if s.snapshots == nil {
		l.saved.Rounds++
		s.state.put(keyLoad, l.saved)
		if err := s.open(ctx); err != nil {
			return err
		}
	}
	texts, err := s.definitions(func(database, table string) bool {
		t := s.state.loads[database+"."+table]
		return t != nil && !t.Done
	})
	if err != nil {
		return err
	}
	catalog, session, err := s.newCatalog()
	if err != nil {
		return err
	}
	for _, t := range l.tables {
		i := slices.IndexFunc(slices.Collect(maps.Keys(texts)), func(n source.TableName) bool { return s.state.loads[n.String()] == t })
		if i < 0 {
			return fmt.Errorf("%w: a table was dropped since its reading began", errReload)
		}
	}
	for name, text := range texts {
		t := s.state.loads[name.String()]
		if t.Definition != text {
			return fmt.Errorf("%w: table %s was altered since its reading began", errReload, name)
		}
		session.Database = name.Database
		if _, err := catalog.Apply(text, session); err != nil {
			return fmt.Errorf("table %s: %w", name, err)
		}
		table := catalog.Table(name.Database, name.Name)
		if kept := s.catalog.Table(name.Database, name.Name); kept != nil && sameColumns(kept, table) {
			table = kept // with the identities of its columns
		}
		t.name = name
		if t.table, err = s.conn.Table(table); err != nil {
			return err
		}
		t.begun, t.idle = t.First, slices.Clone(t.Open)
	}
	return nil
}

func sameColumns(a, b *ddl.Table) bool {
	return slices.EqualFunc(a.Columns, b.Columns, func(x, y ddl.Column) bool {
		x.ID, y.ID = 0, 0
		return x == y
	}) && slices.Equal(a.Key, b.Key)
}

// startOver forgets a load that can't go on, so that the next session begins a new one.
func (s *session) startOver(ctx context.Context, err error, extra bool) error {
	if !errors.Is(err, source.ErrChanged) && !errors.Is(err, errReload) {
		return err
	}
	// What was written of it is not taken back; a load from first to last replaces it.
	clear(s.state.pending)
	for name, t := range s.state.loads {
		if !t.Done || !extra {
			s.state.put(tableLoads+name, nil)
		}
	}
	if extra {
		saved := *s.state.load
		saved.Done = true
		s.state.put(keyLoad, &saved)
	} else {
		s.state.restart()
	}
	if cerr := s.out.commit(ctx); cerr != nil {
		return cerr
	}
	if !errors.Is(err, errReload) {
		return fmt.Errorf("%w: %w", errReload, err)
	}
	return err
}
