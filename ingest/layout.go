package ingest

import (
	"encoding/json"

	"github.com/gscd-io/gscd/delta/action"
	"github.com/gscd-io/gscd/delta/layout"
	"github.com/gscd-io/gscd/progress"
)

// Layout gives what layout.Optimize must keep of a gscd table beside its rows: the
// hidden columns, and what footers say of them. Files whose rows have lost their
// positions are left alone: the progress names them by path. p is the progress in
// force, nil for a table that is not gscd's.
func Layout(p *progress.Progress) layout.Options {
	if p == nil {
		return layout.Options{}
	}
	lost := map[string]bool{}
	for _, r := range p.Rewritten {
		for _, path := range r.Files {
			lost[path] = true
		}
	}
	return layout.Options{
		Extra: Hidden, Footer: joinFooters,
		Leave: func(add *action.Add) bool { return lost[add.Path] },
	}
}

// joinFooters gives the footer of a file of rows of several files.
func joinFooters(inputs []map[string]string) map[string]string {
	var joined facts
	for i, footer := range inputs {
		one := unknownFacts
		if text, ok := footer[factsKey]; !ok || json.Unmarshal([]byte(text), &one) != nil {
			return nil
		}
		if i == 0 {
			joined = one
		} else {
			joined.merge(one)
		}
	}
	if joined.Line < 0 || len(inputs) == 0 {
		return nil
	}
	return joined.encode()
}
