package integration

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var rewriteLicences = flag.Bool("rewrite-licences", false, "write docs/licences.md from the modules that are linked in")

// licence names the licence of a text, "" where it is none that is known.
func licence(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	has := func(part string) bool { return strings.Contains(strings.ToLower(text), strings.ToLower(part)) }
	switch {
	case has("GNU AFFERO GENERAL PUBLIC LICENSE"):
		return "AGPL"
	case has("Mozilla Public License"):
		return "MPL-2.0" // before the GPL, which its text names
	case has("GNU LESSER GENERAL PUBLIC LICENSE"):
		return "LGPL"
	case has("GNU GENERAL PUBLIC LICENSE"):
		return "GPL"
	case has("Server Side Public License"):
		return "SSPL"
	case has("Business Source License"):
		return "BUSL"
	case has("Apache License") && has("Version 2.0"):
		return "Apache-2.0"
	case has("Permission is hereby granted, free of charge"):
		return "MIT"
	case has("Redistribution and use in source and binary forms") && (has("Neither the name") || has("may not be used to endorse")):
		return "BSD-3-Clause"
	case has("Redistribution and use in source and binary forms"):
		return "BSD-2-Clause"
	case has("Permission to use, copy, modify, and/or distribute this software"), has("Permission to use, copy, modify, and distribute this software"):
		return "ISC"
	case has("This is free and unencumbered software"):
		return "Unlicense"
	case has("CC0 1.0 Universal"):
		return "CC0-1.0"
	}
	return ""
}

// allowed are the licences that may be linked into the program.
var allowed = []string{"Apache-2.0", "MIT", "BSD-3-Clause", "BSD-2-Clause", "ISC", "MPL-2.0", "Unlicense", "CC0-1.0"}

// licencesOf names the licences of a module's folder.
func licencesOf(dir string) (found []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		if e.IsDir() || !strings.HasPrefix(name, "LICENSE") && !strings.HasPrefix(name, "LICENCE") && !strings.HasPrefix(name, "COPYING") && !strings.HasPrefix(name, "UNLICENSE") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		l := licence(string(text))
		if l == "" {
			return nil, fmt.Errorf("%s is no licence that is known", e.Name())
		}
		found = append(found, l)
	}
	slices.Sort(found)
	if found = slices.Compact(found); len(found) == 0 {
		return nil, fmt.Errorf("no licence in %s", dir)
	}
	return found, nil
}

// TestLicences: what is linked into the program (with SQL, on Linux) may be, and is listed in
// docs/licences.md.
func TestLicences(t *testing.T) {
	modules := map[string]string{}
	c := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Dir}}{{end}}{{end}}", "../cmd/gscd")
	c.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=1")
	out, err := c.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		if module, dir, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok && dir != "" {
			modules[module] = dir
		}
	}
	if len(modules) < 20 {
		t.Fatalf("%d modules", len(modules))
	}
	var lines []string
	for module, dir := range modules {
		found, err := licencesOf(dir)
		if err != nil {
			t.Errorf("%s: %v", module, err)
			continue
		}
		for _, l := range found {
			if !slices.Contains(allowed, l) {
				t.Errorf("%s has the licence %s, which may not be linked in", module, l)
			}
		}
		lines = append(lines, fmt.Sprintf("| `%s` | %s |", module, strings.Join(found, ", ")))
	}
	slices.Sort(lines)
	page := "# Licences\n\ngscd itself has the Apache License 2.0. These modules are linked into it (`go list -deps ./cmd/gscd`); their texts lie in\n" +
		"each module's folder. Others, under the AGPL or licences of that kind, are refused by the test that holds this list.\n" +
		"Test servers are started as programs of their own and are not part of it.\n\n" +
		"| module | licence |\n| --- | --- |\n" + strings.Join(lines, "\n") + "\n"
	path := filepath.Join("..", "docs", "licences.md")
	if *rewriteLicences {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(path); err != nil || string(have) != page {
		t.Errorf("%s is not up to date (%v): make licences", path, err)
	}
}

func TestLicenceIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"GNU AFFERO GENERAL PUBLIC\nLICENSE Version 3": "AGPL", "GNU GENERAL PUBLIC LICENSE": "GPL", "Mozilla Public License Version 2.0 … GNU General Public License": "MPL-2.0",
		"Apache License\n Version 2.0, January 2004": "Apache-2.0", "all rights reserved": "",
	} {
		if got := licence(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for _, l := range []string{"AGPL", "GPL", "SSPL", "BUSL", "LGPL"} {
		if slices.Contains(allowed, l) {
			t.Errorf("%s is allowed", l)
		}
	}
}
