//go:build integration

package integration

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// Everything that a program of ours prints in these tests is looked through for the secrets
// that it was given: by its environment, by the file that its -c names, by files that those
// name, and by the tests' own constants.

// constantSecrets are those of the servers that the tests start.
var constantSecrets = []string{brokerPassword, mariaPassword, gatewaySecret}

// shortest is the length from which a text is taken for a secret: a shorter one may be anywhere.
const shortest = 8

var (
	secretVariable = regexp.MustCompile(`(PASSWORD|SECRET|TOKEN|ACCOUNT_KEY)(_FILE)?$`)
	secretSetting  = regexp.MustCompile(`(?:password|secret_access_key|session_token|hash_secret|account_key|sas_token|token)(_file)?: *["']?([^"',}\s]+)`)
)

// secretsGiven are what a program with these arguments and this environment must not tell.
func secretsGiven(args, environment []string) []string {
	found := slices.Clone(constantSecrets)
	file := func(name string) {
		if data, err := os.ReadFile(name); err == nil {
			found = append(found, strings.TrimSpace(string(data)))
		}
	}
	for _, pair := range environment {
		name, value, _ := strings.Cut(pair, "=")
		switch m := secretVariable.FindStringSubmatch(name); {
		case m == nil:
		case m[2] != "":
			file(value)
		default:
			found = append(found, value)
		}
	}
	for i, arg := range args {
		if arg != "-c" || i+1 == len(args) {
			continue
		}
		data, _ := os.ReadFile(args[i+1])
		for _, m := range secretSetting.FindAllStringSubmatch(string(data), -1) {
			if m[1] != "" {
				file(m[2])
			} else {
				found = append(found, m[2])
			}
		}
	}
	slices.Sort(found)
	return slices.DeleteFunc(slices.Compact(found), func(s string) bool { return len(s) < shortest })
}

// forms are the ways in which a secret may be written.
func forms(secret string) map[string]string {
	quoted, _ := json.Marshal(secret)
	out := map[string]string{
		"plain": secret, "URL": url.QueryEscape(secret), "path": url.PathEscape(secret), "hex": hex.EncodeToString([]byte(secret)),
		"JSON": strings.Trim(string(quoted), `"`),
	}
	for _, enc := range []struct {
		name string
		*base64.Encoding
	}{{"base64", base64.RawStdEncoding}, {"base64url", base64.RawURLEncoding}} {
		// Within a longer text it may begin at each of three places; what hangs on its
		// neighbours is left out.
		for shift := range 3 {
			text := enc.EncodeToString(append(make([]byte, shift), secret...))
			text = text[(shift*8+5)/6:]
			out[fmt.Sprint(enc.name, " at ", shift)] = text[:len(text)-1]
		}
	}
	return out
}

// leak is a secret in a text.
type leak struct{ secret, form, around string }

// leaksIn looks for secrets in a text.
func leaksIn(data []byte, secrets []string) (found []leak) {
	for _, secret := range secrets {
		all := forms(secret)
		for _, name := range slices.Sorted(maps.Keys(all)) {
			if i := bytes.Index(data, []byte(all[name])); i >= 0 {
				around := data[max(i-120, 0):min(i+len(all[name])+40, len(data))]
				found = append(found, leak{secret, name, string(around)})
				break
			}
		}
	}
	return found
}

// watcher looks through a stream as it comes. It keeps all of it: what a test's program
// prints is some megabytes.
type watcher struct {
	mu   sync.Mutex
	data bytes.Buffer
}

func (w *watcher) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.data.Write(b)
}

func (w *watcher) bytes() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	return bytes.Clone(w.data.Bytes())
}

// check fails the test for each secret that was told.
func (w *watcher) check(t testing.TB, args, environment []string) {
	for _, l := range leaksIn(w.bytes(), secretsGiven(args, environment)) {
		t.Errorf("gscd %q tells a secret (%s): …%s…", args, l.form, l.around)
	}
}

// program is a command of the program. What it has printed is looked through when the
// test ends.
func program(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command(binary(t), args...)
	t.Cleanup(func() {
		var w watcher
		w.Write(printedBy(c))
		w.check(t, args, c.Env)
	})
	return c
}

// printedBy is what a command that has ended has printed, where it was kept.
func printedBy(c *exec.Cmd) (all []byte) {
	for i, to := range []io.Writer{c.Stdout, c.Stderr} {
		if i == 1 && to == c.Stdout {
			break
		}
		switch to := to.(type) {
		case *bytes.Buffer:
			all = append(all, to.Bytes()...)
		case *tail:
			all = append(all, to.String()...)
		case *strings.Builder:
			all = append(all, to.String()...)
		}
	}
	return all
}

// filesBelow gives the content of all files of a folder, unpacked too.
func filesBelow(t testing.TB, dir string) (all []byte) {
	t.Helper()
	unpack, err := zstd.NewReader(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer unpack.Close()
	files := 0
	err = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		files++
		all = append(all, data...)
		if strings.HasSuffix(path, ".zst") {
			plain, err := unpack.DecodeAll(data, nil)
			if err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
			all = append(all, plain...)
		}
		return nil
	})
	if err != nil || files == 0 {
		t.Fatalf("%d files in %s: %v", files, dir, err)
	}
	return all
}

// A planted leak is found, in each form, so that the silence of the others means something.
func TestSecretsAreFound(t *testing.T) {
	t.Parallel()
	const secret = "pl4nted/secret+of=many bytes?"
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("pl4nted-token-of-a-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "gscd.yaml")
	if err := os.WriteFile(config, []byte("kafka: {sasl: {password: \"pl4nted-in-yaml\", token_file: "+file+"}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	given := secretsGiven([]string{"ingest", "-c", config}, []string{"GSCD_MYSQL_PASSWORD=" + secret, "GSCD_S3_SECRET_ACCESS_KEY_FILE=" + file, "HOME=/nothing-to-hide", "AWS_SESSION_TOKEN=short"})
	for _, want := range []string{secret, "pl4nted-token-of-a-file", "pl4nted-in-yaml", brokerPassword} {
		if !slices.Contains(given, want) {
			t.Errorf("%q is not known of: %q", want, given)
		}
	}
	if len(given) != 3+len(constantSecrets) {
		t.Errorf("taken for secrets: %q", given)
	}
	quoted, _ := json.Marshal(map[string]string{"p": secret})
	for name, text := range map[string]string{
		"plain": "x" + secret + "x", "JSON": string(quoted), "URL": "?p=" + url.QueryEscape(secret), "path": "/" + url.PathEscape(secret), "hex": fmt.Sprintf("%x", "a"+secret),
		"basic": "Basic " + base64.StdEncoding.EncodeToString([]byte("user:"+secret)), "at 1": base64.StdEncoding.EncodeToString([]byte("a" + secret + "b")),
		"at 2": base64.URLEncoding.EncodeToString([]byte("ab" + secret)), "struct": fmt.Sprintf("%+v", struct{ P string }{secret}),
	} {
		if found := leaksIn([]byte(text), []string{secret}); len(found) != 1 {
			t.Errorf("%s: %q gives %v", name, text, found)
		}
	}
	if found := leaksIn([]byte("pl4nted/secret+of=many byte and ********"), []string{secret}); found != nil {
		t.Errorf("found %v", found)
	}
	// The program itself is made to tell one: it names the table that it is asked for.
	c := exec.Command(binary(t), "describe", "--table", filepath.Join(t.TempDir(), "pl4nted-name"))
	c.Env = append(os.Environ(), "GSCD_MYSQL_PASSWORD=pl4nted-name")
	out, err := c.CombinedOutput()
	found := leaksIn(printedBy(c), secretsGiven(c.Args[1:], c.Env))
	if err == nil || len(found) != 1 || found[0].secret != "pl4nted-name" {
		t.Errorf("%v: %s\nfound %v", err, out, found)
	}
}
