package validate

import (
	"strings"
	"testing"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
)

// stages parses a Dockerfile as BuildKit does.
func stages(t *testing.T, name string) []instructions.Stage {
	t.Helper()
	parsed, err := parser.Parse(strings.NewReader(read(t, name)))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	list, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return list
}

// Images run as nobody, take nothing but the program, and copy from stages that there are.
func TestDockerfiles(t *testing.T) {
	for name, images := range map[string][]string{"../image/Dockerfile": {"slim", "full"}, "../image/Dockerfile.scratch": {""}} {
		list := stages(t, name)
		known := map[string]bool{}
		final := map[string]instructions.Stage{}
		for _, s := range list {
			for _, c := range s.Commands {
				if c, ok := c.(*instructions.CopyCommand); ok && c.From != "" && !known[c.From] {
					t.Errorf("%s: the stage %s copies from %s, which is no stage before it", name, s.Name, c.From)
				}
			}
			known[s.Name], final[s.Name] = true, s
		}
		for _, image := range images {
			user, entry := "", ""
			for _, c := range final[image].Commands {
				switch c := c.(type) {
				case *instructions.UserCommand:
					user = c.User
				case *instructions.EntrypointCommand:
					entry = strings.Join(c.CmdLine, " ")
				case *instructions.RunCommand:
					t.Errorf("%s: the image %q runs %s in its last stage", name, image, c.CmdLine)
				}
			}
			if user != "65532:65532" || entry != "/usr/local/bin/gscd" {
				t.Errorf("%s: the image %q has the user %q and begins with %q", name, image, user, entry)
			}
		}
	}
}
