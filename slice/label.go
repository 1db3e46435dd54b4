package slice

import (
	"context"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/gscd-io/gscd/delta/schema"
	"github.com/gscd-io/gscd/delta/spill"
	"github.com/gscd-io/gscd/ingest"
)

// ParseLabel tells whether a text is a label, and its number, by which labels are in order.
type ParseLabel func(text string) (number int64, ok bool)

// LabelOfName finds the one label in the name of a file or folder, such as
// users-2022-07-16.csv.gz or dt=2022-07-16. What has digits right before or behind it is none.
func LabelOfName(name string, parse ParseLabel) (label string, number int64, err error) {
	digit := func(i int) bool { return i >= 0 && i < len(name) && name[i] >= '0' && name[i] <= '9' }
	for from := 0; from < len(name); from++ {
		if !digit(from) || digit(from-1) {
			continue
		}
		for to := len(name); to > from; to-- {
			n, ok := parse(name[from:to])
			if !ok || digit(to-1) && digit(to) {
				continue
			}
			if label != "" {
				return "", 0, fmt.Errorf("%w: the name %s has two labels, %s and %s", ErrLabel, name, label, name[from:to])
			}
			label, number = name[from:to], n
			from = to - 1
			break
		}
	}
	if label == "" {
		return "", 0, fmt.Errorf("%w: the name %s has none", ErrLabel, name)
	}
	return label, number, nil
}

// Labelled is a slice and the label that its name, or a column of it, says.
type Labelled struct {
	Label  string
	Number int64
	Source Source
}

// Folder gives the slices of a folder, in the order of their labels: files, and folders
// of files that are one slice. Names that begin with . or _ are left out. With a mark,
// such as .done, a slice is whole where NAME.done is beside it, or NAME/.done in it;
// others are left out, and given in waiting.
func Folder(folder Place, mark string, parse ParseLabel, o FileOptions) (list []Labelled, waiting []string, err error) {
	entries, err := fs.ReadDir(folder.In, folder.Path)
	if err != nil {
		return nil, nil, folder.fault(err)
	}
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || mark != "" && strings.HasSuffix(name, mark) {
			continue
		}
		at := folder.inside(name)
		if mark != "" && !folder.inside(name+mark).exists() && !(e.IsDir() && at.inside(mark).exists()) {
			waiting = append(waiting, at.Name)
			continue
		}
		l := Labelled{}
		if l.Label, l.Number, err = LabelOfName(name, parse); err != nil {
			return nil, nil, err
		}
		if l.Source, err = OpenFile(at, o); err != nil {
			return nil, nil, err
		}
		list = append(list, l)
	}
	slices.SortStableFunc(list, func(a, b Labelled) int { return int(max(-1, min(1, a.Number-b.Number))) })
	for i := 1; i < len(list); i++ {
		if list[i].Number == list[i-1].Number {
			return nil, nil, fmt.Errorf("%w: %s and %s are both of %s: put the files of one slice into a folder", ErrLabel, list[i-1].Source.Name(), list[i].Source.Name(), list[i].Label)
		}
	}
	return list, waiting, nil
}

func (p Place) exists() bool {
	_, err := fs.Stat(p.In, p.Path)
	return err == nil
}

// maxLabels bounds how many labels one source may have: each has a temporary file open.
const maxLabels = 500

// Split reads a source once and makes a slice of the rows of each label that a column of
// it has; the column itself is left out. The rows wait in dir, which the caller closes.
func Split(ctx context.Context, s Source, columns *schema.Schema, by string, parse ParseLabel, dir *spill.Dir) ([]Labelled, error) {
	in, err := s.Open(ctx, columns)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(in.Columns, func(f schema.Field) bool { return strings.EqualFold(f.Name, by) })
	if at < 0 {
		return nil, fmt.Errorf("%w: %s has no column %s to take labels from", ingest.ErrSlice, s.Name(), by)
	}
	rest := slices.Delete(slices.Clone(in.Columns), at, at+1)
	files := map[string]*spill.File{}
	var list []Labelled
	cells := make([]schema.Value, 0, len(rest))
	n := int64(0)
	for row, err := range in.Rows {
		if err != nil {
			return nil, err
		}
		n++
		label := ""
		if !row[at].IsNull() {
			label = string(schema.AppendText(nil, in.Columns[at].Type, row[at]))
		}
		f := files[label]
		if f == nil {
			number, ok := parse(label)
			if !ok {
				return nil, fmt.Errorf("%w: row %d of %s has %q in the column %s, which is no label", ErrLabel, n, s.Name(), label, by)
			}
			if len(files) == maxLabels {
				return nil, fmt.Errorf("%w: %s has more than %d of them: load it in parts", ErrLabel, s.Name(), maxLabels)
			}
			if f, err = dir.Create(len(rest)); err != nil {
				return nil, err
			}
			files[label] = f
			list = append(list, Labelled{label, number, &spilled{s.Name() + ", " + by + " = " + label, rest, f}})
		}
		cells = append(append(cells[:0], row[:at]...), row[at+1:]...)
		if err := f.Add(cells); err != nil {
			return nil, err
		}
	}
	for _, f := range files {
		if err := f.End(); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(list, func(a, b Labelled) int { return int(max(-1, min(1, a.Number-b.Number))) })
	return list, nil
}

// spilled is rows in a temporary file.
type spilled struct {
	name    string
	columns []schema.Field
	file    *spill.File
}

func (s *spilled) Name() string { return s.name }

func (s *spilled) Open(context.Context, *schema.Schema) (ingest.SliceRows, error) {
	return ingest.SliceRows{Columns: s.columns, Rows: s.file.All()}, nil
}
