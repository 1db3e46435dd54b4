//go:build cgo

package sql

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gscd-io/gscd/savepoint"
)

// planner finds out which days a statement can see, without any file of a table.
// Each table is an empty one in the schema __gscd here, with one column more, the
// number of a branch.
type planner struct {
	*engine           // nil where the statement has no labels to choose from
	idle      *engine // has parsed the statement, and is the first executor's
	options   *Options
	statement *statement
	readings  []*reading            // of the tables that the statement names
	byTable   map[*Table]*reading   // the same
	branches  map[*reading][]branch // of a statement that uses dt
	asked     []string              // what the statement asks for by dt = …
	minute    string                // of the statement's clock; "" where it decided nothing
	notices   []string              // in order, each once
	whole     bool                  // excerpts are not enough: all of each file is fetched
}

// branch is a label, or a text that might be one, as a part of a table's view.
type branch struct {
	id    int
	label string
	entry *savepoint.Entry // nil for a text that the map does not have
}

// branchMark is how a branch is found in a plan: branch k has the filter
// __gscd_branch <> k, of which nothing is known.
var branchMark = regexp.MustCompile(`__gscd_branch\s*!=\s*([0-9]+)`)

// plannerSettings switch off what depends on the rows of the tables, which have
// none here, and what only costs time.
const plannerSettings = "SET TimeZone = 'UTC'; SET temp_directory = ''; SET disabled_optimizers = 'statistics_propagation,row_group_pruner," +
	"compressed_materialization,late_materialization,join_elimination,join_order,build_side_probe_side,join_filter_pushdown," +
	"common_subplan,reorder_filter,top_n_window_elimination'; SET enable_external_access = false; SET lock_configuration = true; CREATE SCHEMA __gscd"

// openPlanner parses a statement and opens the tables that it names. An engine takes
// 10 ms to start, so the one that parses, which runs nothing else and has no part of the
// statement but its text, is the executor's later.
func openPlanner(ctx context.Context, text string, o *Options) (_ *planner, err error) {
	p := &planner{options: o, byTable: map[*Table]*reading{}}
	if p.idle, err = openEngine(executorSettings(o)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if p.statement, err = parse(ctx, p.idle, text, o); err != nil {
		return nil, err
	}
	if err := p.openTables(ctx); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(p.readings, (*reading).hasDays) {
		return p, nil
	}
	p.engine, err = openEngine(map[string]string{
		"memory_limit": fmt.Sprintf("%dB", min(o.MemoryLimit, 1<<30)), "threads": "1",
	})
	if err != nil {
		return nil, err
	}
	if err := p.exec(ctx, plannerSettings); err != nil {
		return nil, fmt.Errorf("start DuckDB: %w", err)
	}
	return p, nil
}

func (p *planner) close() {
	for _, e := range []*engine{p.engine, p.idle} {
		if e != nil {
			e.close()
		}
	}
	p.engine, p.idle = nil, nil
}

func (p *planner) notice(r *reading, text string) {
	if len(p.readings) > 1 {
		text = r.Name + ": " + text
	}
	if !slices.Contains(p.notices, text) {
		p.notices = append(p.notices, text)
	}
}

// openTables opens what the statement names.
func (p *planner) openTables(ctx context.Context) error {
	for _, ref := range p.statement.refs {
		if p.byTable[ref.table] != nil {
			continue
		}
		s, err := ref.table.Open(ctx)
		if err != nil {
			return err
		}
		r := newReading(s)
		p.byTable[ref.table] = r
		p.readings = append(p.readings, r)
	}
	return nil
}

// plan decides what the statement sees of each table. A statement that can't be
// bound is an *Error.
func (p *planner) plan(ctx context.Context) error {
	p.notices, p.minute = nil, ""
	for _, r := range p.readings {
		r.days = nil
	}
	daily := slices.ContainsFunc(p.readings, (*reading).hasDays)
	if daily {
		if err := p.createTables(ctx); err != nil {
			return err
		}
		uses, err := p.usesLabels(ctx)
		if err != nil {
			return err
		}
		daily = uses
	}
	if daily {
		p.compareCalendars()
		return p.planDays(ctx)
	}
	for _, r := range p.readings {
		if err := r.useNewest(p.options, p.notice); err != nil {
			return err
		}
	}
	return nil
}

// compareCalendars warns where tables whose labels the statement uses have different
// calendars: one label is then not one stretch of time.
func (p *planner) compareCalendars() {
	var first *reading
	for _, r := range p.readings {
		switch {
		case !r.hasDays():
		case first == nil:
			first = r
		case !r.Labels.Calendar.Equal(first.Labels.Calendar):
			p.notice(r, fmt.Sprintf("its calendar is %s, that of %s is %s: one label is not the same time in both", r.Labels.Calendar, first.Name, first.Labels.Calendar))
		}
	}
}

// emptyTable is the name of a table's empty one.
func (p *planner) emptyTable(r *reading) string {
	return "__gscd.t" + strconv.Itoa(slices.Index(p.readings, r))
}

func (p *planner) createTables(ctx context.Context) error {
	for _, r := range p.readings {
		var columns strings.Builder
		for _, f := range r.fields {
			columns.WriteString(identifier(f.Name) + " " + typeName(f.Type) + ", ")
		}
		if err := p.exec(ctx, "CREATE OR REPLACE TABLE "+p.emptyTable(r)+" ("+columns.String()+"__gscd_branch INTEGER)"); err != nil {
			return fmt.Errorf("table %s: %w", r.Name, err)
		}
	}
	return nil
}

// createViews gives every table that the statement names, under the names that
// it uses, the rows of a query.
func createViews(ctx context.Context, e *engine, refs []reference, query func(*Table) (string, error)) error {
	for _, ref := range refs {
		q, err := query(ref.table)
		if err != nil {
			return err
		}
		name := identifier(ref.name)
		if ref.schema != "" {
			if err := e.exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+identifier(ref.schema)); err != nil {
				return err
			}
			name = identifier(ref.schema) + "." + name
		}
		if err := e.exec(ctx, "CREATE OR REPLACE VIEW "+name+" AS "+q); err != nil {
			return err
		}
	}
	return nil
}

// usesLabels tells whether a statement names the label's column of any table:
// whether it can't be bound without. A star that leaves the column out does not
// count.
func (p *planner) usesLabels(ctx context.Context) (bool, error) {
	err := createViews(ctx, p.engine, p.statement.refs, func(t *Table) (string, error) {
		return "SELECT * EXCLUDE (__gscd_branch) FROM " + p.emptyTable(p.byTable[t]), nil
	})
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(p.statement.trees(), hasNaturalJoin) { // which joins by the label too
		return true, nil
	}
	including := func(tree any, query string) (string, error) {
		if tree, changed := withoutExclusions(tree, p.labelColumns()); changed {
			return p.render(ctx, tree)
		}
		return query, nil
	}
	err = createDefined(ctx, p.engine, p.statement.views, func(v *defined) (string, error) { return including(v.tree, v.Query) })
	var inView *Error
	if errors.As(err, &inView) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	query, err := including(p.statement.tree, p.statement.query)
	if err != nil {
		return false, err
	}
	bound, err := p.prepare(ctx, query)
	var fault *duckError
	if errors.As(err, &fault) {
		return true, nil // with the labels it is bound, or the error is shown
	}
	if err != nil {
		return false, err
	}
	bound.close()
	return false, nil
}

func hasNaturalJoin(part any) bool {
	switch part := part.(type) {
	case []any:
		return slices.ContainsFunc(part, hasNaturalJoin)
	case map[string]any:
		if text(part, "ref_type") == "NATURAL" {
			return true
		}
		for _, p := range part {
			if hasNaturalJoin(p) {
				return true
			}
		}
	}
	return false
}

// labelColumns are the names that the label's column has, in lower case.
func (p *planner) labelColumns() map[string]bool {
	names := map[string]bool{}
	for _, r := range p.readings {
		if r.hasDays() {
			names[r.labelColumn] = true
		}
	}
	return names
}

// withoutExclusions gives a tree whose stars exclude none of the columns.
func withoutExclusions(part any, columns map[string]bool) (out any, changed bool) {
	switch part := part.(type) {
	case []any:
		list := slices.Clone(part)
		for i := range list {
			var c bool
			list[i], c = withoutExclusions(list[i], columns)
			changed = changed || c
		}
		return list, changed
	case map[string]any:
		object := maps.Clone(part)
		for key, value := range part {
			if list, ok := value.([]any); ok && key == "exclude_list" {
				left := slices.DeleteFunc(slices.Clone(list), func(name any) bool {
					s, _ := name.(string)
					return columns[strings.ToLower(s)]
				})
				object[key], changed = left, changed || len(left) < len(list)
				continue
			}
			var c bool
			object[key], c = withoutExclusions(value, columns)
			changed = changed || c
		}
		return object, changed
	}
	return part, false
}

// render writes a tree as SQL.
func (p *planner) render(ctx context.Context, tree any) (string, error) {
	raw, err := json.Marshal(map[string]any{"error": false, "statements": []any{tree}})
	if err != nil {
		return "", err
	}
	rows, err := p.engine.texts(ctx, "SELECT json_deserialize_sql($1::JSON)", string(raw))
	if err != nil {
		return "", fmt.Errorf("write the syntax tree as SQL: %w", err)
	}
	return rows[0][0], nil
}

// planDays finds the days that the statement's conditions leave over.
func (p *planner) planDays(ctx context.Context) error {
	var err error
	if p.asked, err = p.askedFor(ctx); err != nil {
		return err
	}
	p.makeBranches()
	err = createViews(ctx, p.engine, p.statement.refs, func(t *Table) (string, error) {
		r := p.byTable[t]
		if !r.hasDays() {
			q := "SELECT * EXCLUDE (__gscd_branch)"
			if r.labelColumn != "" {
				q += ", " + quoted(r.FixedLabel) + " AS " + identifier(r.labelColumn)
			}
			return q + " FROM " + p.emptyTable(r), nil
		}
		parts := make([]string, len(p.branches[r]))
		for i, b := range p.branches[r] {
			parts[i] = fmt.Sprintf("SELECT * EXCLUDE (__gscd_branch), %s AS %s FROM %s WHERE __gscd_branch <> %d",
				quoted(b.label), identifier(r.labelColumn), p.emptyTable(r), b.id)
		}
		return union(parts), nil
	})
	if err == nil {
		err = createDefined(ctx, p.engine, p.statement.views, nil)
	}
	if err != nil {
		return err
	}
	plan, err := p.explain(ctx)
	if err != nil {
		return err
	}
	left := map[int]bool{}
	for _, m := range branchMark.FindAllStringSubmatch(plan, -1) {
		if id, err := strconv.Atoi(m[1]); err == nil {
			left[id] = true
		}
	}
	for _, r := range p.readings {
		if !r.hasDays() {
			if err := r.useNewest(p.options, p.notice); err != nil {
				return err
			}
			continue
		}
		if err := p.keep(r, left); err != nil {
			return err
		}
	}
	return nil
}

// explain gives the plan of the statement's query, and keeps the minute of its
// clock. The errors are those of the statement: it is bound here to what it will be
// bound to.
func (p *planner) explain(ctx context.Context) (string, error) {
	if err := p.exec(ctx, "BEGIN"); err != nil {
		return "", err
	}
	var err error
	if p.minute, err = p.engine.minute(ctx); err != nil {
		return "", err
	}
	query, err := p.folded(ctx)
	if err != nil {
		return "", err
	}
	const prefix = "EXPLAIN (FORMAT JSON) "
	var rows [][]string
	if query != "" {
		rows, err = p.engine.texts(ctx, prefix+query)
	}
	var fault *duckError
	if query == "" || errors.As(err, &fault) { // with the positions of what was given
		if err = createDefined(ctx, p.engine, p.statement.views, nil); err != nil {
			return "", err
		}
		rows, err = p.engine.texts(ctx, prefix+p.statement.query)
	}
	if errors.As(err, &fault) {
		if fault.at >= 0 {
			fault.at += len(p.statement.text) - len(p.statement.query) - len(prefix)
		}
		return "", asError(p.statement.text, fault, true)
	}
	if err != nil {
		return "", err
	}
	var plan strings.Builder
	for _, row := range rows {
		plan.WriteString(row[len(row)-1])
	}
	return plan.String(), p.exec(ctx, "COMMIT")
}

// minute is what the transaction's clock shows, as a text.
func (e *engine) minute(ctx context.Context) (string, error) {
	rows, err := e.texts(ctx, "SELECT strftime(now(), '%Y-%m-%d %H:%M')")
	if err != nil {
		return "", fmt.Errorf("read the clock: %w", err)
	}
	return rows[0][0], nil
}

// union joins queries by UNION ALL, as a balanced tree: a parser goes down it.
func union(queries []string) string {
	if len(queries) <= 16 {
		return strings.Join(queries, " UNION ALL ")
	}
	half := len(queries) / 2
	return "(" + union(queries[:half]) + ") UNION ALL (" + union(queries[half:]) + ")"
}

// makeBranches makes a branch for each label of the map; and for each one that is
// asked for and can't be answered, one and its neighbours.
func (p *planner) makeBranches() {
	p.branches = map[*reading][]branch{}
	id := 0
	for _, r := range p.readings {
		if !r.hasDays() {
			continue
		}
		add := func(label string, entry *savepoint.Entry) {
			p.branches[r] = append(p.branches[r], branch{id, label, entry})
			id++
		}
		names := map[string]*savepoint.Entry{}
		for i := range r.Labels.Entries {
			if e := &r.Labels.Entries[i]; !e.Kept {
				add(e.Name, e)
				names[e.Name] = e
			}
		}
		for _, text := range p.asked {
			e := names[text]
			if e != nil && canAnswer(e) {
				continue
			}
			if e == nil {
				add(text, nil)
			}
			for _, n := range neighbours(text) {
				add(n, nil)
			}
		}
	}
}

func canAnswer(e *savepoint.Entry) bool {
	return e.State == savepoint.Open || e.State == savepoint.Sealed
}

// neighbours are texts that are no labels. Where they are left over, a text is not
// left over because it is asked for, but because nothing is.
func neighbours(text string) []string { return []string{text + "0", "~" + text} }

// keep takes the labels whose branches are left as the days of a table.
func (p *planner) keep(r *reading, left map[int]bool) error {
	kept := map[string]bool{}
	for _, b := range p.branches[r] {
		kept[b.label] = kept[b.label] || left[b.id]
	}
	var days []savepoint.Entry
	var gone []*savepoint.Entry
	all := true
	for _, b := range p.branches[r] {
		switch {
		case b.entry == nil:
		case !canAnswer(b.entry):
			if left[b.id] {
				gone = append(gone, b.entry)
			}
		case left[b.id]:
			days = append(days, *b.entry)
		default:
			all = false
		}
	}
	for _, text := range p.asked {
		known := slices.ContainsFunc(days, func(e savepoint.Entry) bool { return e.Name == text })
		if known || !kept[text] || slices.ContainsFunc(neighbours(text), func(n string) bool { return kept[n] }) {
			continue
		}
		answer, err := r.Labels.Resolve(text, p.options.Sealed)
		if err != nil {
			return fmt.Errorf("table %s: %w", r.Name, err)
		}
		days = append(days, answer.Entry) // a rolled-back savepoint, by its own name
	}
	if n := len(gone); n > 0 {
		p.notice(r, fmt.Sprintf("%s left out, for there is nothing to answer %s with: %s", count(n, "label"), pick(n, "it", "them"), list(gone)))
	}
	if all && len(days) > 1 {
		p.notice(r, fmt.Sprintf("all %d labels are read: no condition on %s leaves any out", len(days), r.labelColumn))
	}
	return r.useDays(days, p.options, p.notice)
}

func count(n int, noun string) string {
	return fmt.Sprintf("%d %s%s", n, noun, pick(n, "", "s"))
}

func pick(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// list names labels and what became of them.
func list(entries []*savepoint.Entry) string {
	const most = 5
	var parts []string
	for _, e := range entries[:min(len(entries), most)] {
		parts = append(parts, fmt.Sprintf("%s (%s)", e.Name, e.State))
	}
	if len(entries) > most {
		parts = append(parts, "…")
	}
	return strings.Join(parts, ", ")
}
