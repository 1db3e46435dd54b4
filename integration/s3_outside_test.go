//go:build integration

package integration

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// A shallow clone in S3 names files of another prefix: what reads its rows refuses
// them by name, and takes them with --allow-outside, of that prefix alone.
func TestOutsideInS3(t *testing.T) {
	g := startGateway(t)
	environment := append(os.Environ(), g.variables(t, g.url)...)
	run := func(args ...string) (stdout, stderr string, code int) {
		t.Helper()
		var out, faults bytes.Buffer
		c := program(t, args...)
		c.Env, c.Stdout, c.Stderr = environment, &out, &faults
		if err := c.Run(); err != nil && c.ProcessState == nil {
			t.Fatal(err)
		}
		return out.String(), faults.String(), c.ProcessState.ExitCode()
	}
	must := func(args ...string) string {
		t.Helper()
		out, faults, code := run(args...)
		if code != 0 {
			t.Fatalf("gscd %q: %d: %s", args, code, faults)
		}
		return out
	}
	const source, shallow, deep = "s3://" + gatewayBucket + "/dim/people", "s3://" + gatewayBucket + "/clones/people", "s3://" + gatewayBucket + "/clones/deep"
	r := usersIn(t, g, "dim/people")
	day := []string{"--format", "csv", "--order-by", "id"}
	want := must(append([]string{"query", "--table", source, "--as-of", "2022-07-16"}, day...)...)
	if strings.Count(want, "\n") != 5 {
		t.Fatalf("the source has %s", want)
	}
	must("export", "--table", source, "--as-of", "2022-07-16", "--to", shallow)
	for _, command := range [][]string{
		append([]string{"query", "--table", shallow}, day...),
		{"check", "--table", shallow, "--files"},
		{"export", "--table", shallow, "--version", "0", "--to", deep, "--deep"},
	} {
		for _, allowed := range []string{"", "s3://" + gatewayBucket + "/dim/peopl", "s3://" + gatewayBucket + "/other"} {
			refused := command
			if allowed != "" {
				refused = append(refused[:len(refused):len(refused)], "--allow-outside", allowed)
			}
			out, faults, code := run(refused...)
			if code == 0 || !strings.Contains(out+faults, "s3://"+gatewayBucket+"/dim/people/part-") || strings.Contains(out+faults, gatewaySecret) {
				t.Errorf("gscd %q: %d: %s%s", refused, code, out, faults)
			}
		}
		must(append(command, "--allow-outside", source)...)
	}
	if got := must(append([]string{"query", "--table", shallow, "--allow-outside", source}, day...)...); got != want {
		t.Errorf("the clone has %s, want %s", got, want)
	}
	if got := must(append([]string{"query", "--table", deep}, day...)...); got != want {
		t.Errorf("the deep copy of the clone has %s, want %s", got, want)
	}
	// The source goes on; the clone stays what it was.
	user(r.topic, "u", 1, "Nanjing", "17T12", 300)
	r.mustWork()
	if got := must(append([]string{"query", "--table", shallow, "--allow-outside", source + "/"}, day...)...); got != want {
		t.Errorf("later the clone has %s, want %s", got, want)
	}
}

// usersIn is usersRig on a prefix of the gateway's bucket.
func usersIn(t *testing.T, g *gateway, prefix string) *rig {
	topic := newTopic(0)
	return users(rigOn(t, g.open(t, prefix), g.open(t, prefix+"__dead_letter"), topic), topic)
}
