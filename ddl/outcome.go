package ddl

// Outcome is what a statement made of the table of a name, all its effects together:
// where two tables change their names, as at the end of an online schema change, the
// name has another definition, and no table was dropped or created.
type Outcome struct {
	Name Name
	// Old and New are the definitions under the name before and after the statement; nil:
	// there is none, or it is not known (see Known).
	Old, New *Table
	// Truncated: all rows of the table went, and it stands.
	Truncated bool
	// RowsRemoved is as Effect.RowsRemoved.
	RowsRemoved string
	// Known is false where the catalog does not know the definition that is there now.
	Known bool
}

// Outcomes puts the effects of one statement together by name, in the order in which
// names were first touched.
func Outcomes(effects []Effect) []Outcome {
	var all []Outcome
	of := func(n Name, old *Table) *Outcome {
		for i := range all {
			if all[i].Name == n {
				return &all[i]
			}
		}
		all = append(all, Outcome{Name: n, Old: old, Known: true})
		return &all[len(all)-1]
	}
	for _, e := range effects {
		o := of(e.Name, e.Old)
		switch e.Kind {
		case Create:
			o.New, o.Known = e.New, true
		case Alter:
			o.New, o.Known = e.New, e.New != nil
		case Rename:
			o.New = nil
			to := of(e.To, nil) // what was there before has been touched by an effect before, or there was none
			to.New, to.Known = e.New, e.New != nil
			to.RowsRemoved, o.RowsRemoved = o.RowsRemoved, ""
		case Drop:
			o.New, o.Known = nil, true
		case Truncate:
			o.New, o.Truncated, o.Known = e.New, true, e.New != nil
		}
		if e.RowsRemoved != "" {
			o.RowsRemoved = e.RowsRemoved
		}
	}
	return all
}
