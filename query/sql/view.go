package sql

import (
	"regexp"
	"strings"
)

// View is a query under a name, which statements and later views may use as a table. It
// reaches what a statement reaches, and is kept nowhere.
type View struct {
	// Name in SQL, upper and lower case being one; not that of a table.
	Name string
	// Query is one SELECT.
	Query string
}

var viewForm = regexp.MustCompile(`(?is)^((?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*)CREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMP(?:ORARY)?\s+)?VIEW\s+("(?:[^"]|"")+"|[\pL_][\pL\pN_$]*)\s+AS\b(.*)$`)

var viewBegins = regexp.MustCompile(`(?is)^(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*CREATE\b`)

// ParseView reads CREATE [OR REPLACE] [TEMP] VIEW name AS query. isView is false for a
// text that begins another way; the error is an *Error for a CREATE of another form.
func ParseView(text string) (v View, isView bool, err error) {
	m := viewForm.FindStringSubmatch(text)
	switch {
	case m != nil:
	case viewBegins.MatchString(text):
		return v, true, rejectedf(text, -1, "only a view can be made here, and it is gone with the session: CREATE VIEW name AS SELECT …")
	default:
		return v, false, nil
	}
	v = View{Name: m[2], Query: strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(m[3]), ";"))}
	if strings.HasPrefix(v.Name, `"`) {
		v.Name = strings.ReplaceAll(v.Name[1:len(v.Name)-1], `""`, `"`)
	}
	return v, true, nil
}
