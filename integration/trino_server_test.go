//go:build integration

package integration

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// trinoJava finds a Java that Trino runs on: that of TRINO_JAVA_HOME, of JAVA_HOME, or
// one of the system's; "" where there is none.
func trinoJava() string {
	homes, _ := filepath.Glob("/usr/lib/jvm/*")
	for _, home := range append([]string{os.Getenv("TRINO_JAVA_HOME"), os.Getenv("JAVA_HOME")}, homes...) {
		release, err := os.ReadFile(filepath.Join(home, "release"))
		if home == "" || err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(release), `JAVA_VERSION="`)
		major := 0
		if _, err := fmt.Sscanf(rest, "%d", &major); err == nil && major >= 24 {
			return home
		}
	}
	return ""
}

// trinoLacks says why there is no Trino to test with, "" where there is one. It is larger
// than all else that is installed and needs a newer Java, so a machine may go without,
// unless GSCD_ENGINES=all asks for it.
func trinoLacks(t testing.TB) string {
	t.Helper()
	why := ""
	if _, err := os.Stat(filepath.FromSlash("../build/integration/trino.installed")); err != nil {
		why = "Trino is not installed, so nothing was tried with it: integration/engines/install.sh says why"
	} else if trinoJava() == "" {
		why = "Trino was not tried: it needs Java 24 or newer (TRINO_JAVA_HOME)"
	}
	if why != "" && os.Getenv("GSCD_ENGINES") == "all" {
		t.Fatal(why)
	}
	return why
}

// startTrino starts a server that reads tables of this machine by their absolute paths,
// and those of a gateway by s3:// URLs; the latter it writes too.
func startTrino(t testing.TB, g *gateway) (address string) {
	t.Helper()
	dir := t.TempDir()
	return startTrinoWith(t, dir, nil, map[string]string{"delta": strings.Join([]string{
		"connector.name=delta_lake", "hive.metastore=file", "hive.metastore.catalog.dir=local://" + dir + "/metastore",
		"fs.native-local.enabled=true", "local.location=/", "delta.register-table-procedure.enabled=true",
		"fs.native-s3.enabled=true", "s3.endpoint=" + g.url, "s3.region=" + gatewayRegion, "s3.path-style-access=true",
		"s3.aws-access-key=" + gatewayKey, "s3.aws-secret-key=" + gatewaySecret,
		// A table that others write on between two statements is looked at anew.
		"delta.metadata.cache-ttl=0s",
	}, "\n") + "\n"})
}

// startTrinoWith starts a server in a folder, with catalogs by their names and more variables
// in its environment.
func startTrinoWith(t testing.TB, dir string, environment []string, catalogs map[string]string) (address string) {
	t.Helper()
	home, server := trinoJava(), component(t, "trino")
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := port.Addr().(*net.TCPAddr).Port
	port.Close()
	for name, lines := range map[string][]string{
		"node.properties": {"node.environment=test", "node.id=t1", "node.data-dir=" + dir + "/data"},
		"jvm.config":      {"-server", "-Xmx2G", "-XX:+UseSerialGC", "-XX:InitialRAMPercentage=5", "-XX:TieredStopAtLevel=1", "-Djdk.attach.allowAttachSelf=true"},
		"log.properties":  {"io.trino=WARN", "org.apache=WARN"},
		"config.properties": {
			"coordinator=true", "node-scheduler.include-coordinator=true", fmt.Sprint("http-server.http.port=", at), "node.internal-address=127.0.0.1",
			fmt.Sprint("discovery.uri=http://127.0.0.1:", at), "query.max-memory=1GB", "query.max-memory-per-node=512MB", "catalog.management=static", "http-server.log.enabled=false",
			"plugin.dir=" + server + "/plugin",
		},
	} {
		path := filepath.Join(dir, "etc", filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "etc", "catalog"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range catalogs {
		if err := os.WriteFile(filepath.Join(dir, "etc", "catalog", name+".properties"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// What bin/launcher runs, which is a process that this test can end.
	options := readFile(t, filepath.Join(dir, "etc", "jvm.config"))
	args := slices.Concat(strings.Fields(string(options)), []string{
		"-Dnode.environment=test", "-Dnode.id=t1", "-Dnode.data-dir=" + dir + "/data",
		"-Dlog.levels-file=" + dir + "/etc/log.properties", "-Dconfig=" + dir + "/etc/config.properties", "-Dcatalog.config-dir=" + dir + "/etc/catalog",
		"-cp", server + "/lib/*", "io.trino.server.TrinoServer",
	})
	p := startProcessIn(t, environment, filepath.Join(home, "bin", "java"), args...)
	go io.Copy(io.Discard, p.stdout)
	return fmt.Sprintf("http://127.0.0.1:%d", at)
}
