package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// actionsOf reads the policies of SECURITY.md: the actions of each.
func actionsOf(t *testing.T, page string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, m := range regexp.MustCompile("(?s)<!-- policy: ([a-z]+) -->\n```json\n(.*?)```").FindAllStringSubmatch(page, -1) {
		var policy struct {
			Version   string
			Statement []struct {
				Effect, Resource string
				Action           any
				Condition        map[string]map[string]string
			}
		}
		d := json.NewDecoder(strings.NewReader(m[2]))
		d.DisallowUnknownFields()
		if err := d.Decode(&policy); err != nil || policy.Version != "2012-10-17" {
			t.Fatalf("policy %s: %v", m[1], err)
		}
		for _, s := range policy.Statement {
			switch actions := s.Action.(type) {
			case string:
				out[m[1]] = append(out[m[1]], actions)
			case []any:
				for _, a := range actions {
					out[m[1]] = append(out[m[1]], a.(string))
				}
			}
			if s.Effect != "Allow" || !strings.HasPrefix(s.Resource, "arn:aws:s3:::lake") {
				t.Errorf("policy %s: %+v", m[1], s)
			}
		}
		slices.Sort(out[m[1]])
	}
	return out
}

// TestSecurityPage: its policies allow what the code asks for and no more, and the tests that it
// names are there.
func TestSecurityPage(t *testing.T) {
	data, err := os.ReadFile("../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	asked := []string{"s3:AbortMultipartUpload"} // best effort, so no request names it
	right := regexp.MustCompile(`"(s3:[A-Za-z]+)"`)
	files, err := filepath.Glob("../delta/objstore/s3/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var tests strings.Builder
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") {
			code, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range right.FindAllStringSubmatch(string(code), -1) {
				asked = append(asked, m[1])
			}
		}
	}
	slices.Sort(asked)
	asked = slices.Compact(asked)
	without := func(names ...string) []string {
		return slices.DeleteFunc(slices.Clone(asked), func(a string) bool { return slices.Contains(names, a) })
	}
	got := actionsOf(t, page)
	for name, want := range map[string][]string{
		"maintain": asked, "ingest": without("s3:DeleteObject"), "read": without("s3:DeleteObject", "s3:PutObject", "s3:AbortMultipartUpload"),
	} {
		if !slices.Equal(got[name], want) {
			t.Errorf("policy %s allows %q, and the code asks for %q", name, got[name], want)
		}
	}
	err = filepath.WalkDir("..", func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (name == "build" || name == "node_modules" || strings.HasPrefix(name, ".") && name != "..") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, "_test.go") {
			code, err := os.ReadFile(path)
			tests.Write(code)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile("`(Test[A-Za-z]+)(?:/([a-z ]+))?`").FindAllStringSubmatch(page, -1) {
		if !strings.Contains(tests.String(), "func "+m[1]+"(") || m[2] != "" && !strings.Contains(tests.String(), `"`+m[2]+`"`) {
			t.Errorf("SECURITY.md names the test %s, which is not there", m[0])
		}
	}
}
