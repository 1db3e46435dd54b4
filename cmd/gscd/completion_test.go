package main

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Shells load the scripts of gscd completion and complete by them. Bash is on every machine
// that builds; the others are tried where they are.
func TestCompletionInShells(t *testing.T) {
	// TestMain has put this binary into PATH as gscd.
	if _, err := exec.LookPath("gscd"); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(t *testing.T, shell string, args ...string) []string {
		t.Helper()
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Skipf("%s is not on this machine", shell)
		}
		c := exec.Command(path, args...)
		c.Dir = dir
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "LC_ALL=C.UTF-8", "TERM=dumb"}
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", shell, err, out)
		}
		return strings.Fields(string(out))
	}
	has := func(t *testing.T, got []string, words ...string) {
		t.Helper()
		for _, w := range words {
			if !slices.Contains(got, w) {
				t.Errorf("%q is not offered: %q", w, got)
			}
		}
	}
	// What the package bash-completion would bring, where it is not installed.
	const words = `_get_comp_words_by_ref() { words=("${COMP_WORDS[@]}"); cword=$COMP_CWORD; cur=${COMP_WORDS[COMP_CWORD]}; prev=${COMP_WORDS[COMP_CWORD-1]}; }
__ltrim_colon_completions() { :; }
source <(gscd completion bash)
complete -p gscd > /dev/null || exit 1
try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}; COMPREPLY=(); __start_gscd; printf '%s\n' "${COMPREPLY[@]}"; }
`
	t.Run("bash", func(t *testing.T) {
		has(t, run(t, "bash", "--norc", "-c", words+`try gscd sn`), "snapshots")
		has(t, run(t, "bash", "--norc", "-c", words+`try gscd query --format ""`), "table", "json", "jsonl", "csv")
		has(t, run(t, "bash", "--norc", "-c", words+`try gscd completion ""`), "bash", "zsh", "fish", "powershell")
	})
	t.Run("zsh", func(t *testing.T) {
		// The functions of a completion are called by zsh's line editor alone; here it defines them, and reads what they ask for.
		got := run(t, "zsh", "-f", "-c", `autoload -Uz compinit && compinit -D && source <(gscd completion zsh) && print ${_comps[gscd]} && print ${functions[_gscd]:+defined} && gscd __complete sn 2> /dev/null`)
		has(t, got, "_gscd", "defined", "snapshots")
	})
	t.Run("fish", func(t *testing.T) {
		has(t, run(t, "fish", "--no-config", "-c", `gscd completion fish | source; complete -C 'gscd sn'`), "snapshots")
		has(t, run(t, "fish", "--no-config", "-c", `gscd completion fish | source; complete -C 'gscd query --format '`), "table", "csv")
	})
}
