package validate

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"sigs.k8s.io/yaml"
)

const composeFolder = "../compose"

// load is `docker compose config` of a file in the folder of the compose file.
func load(t *testing.T, file string) (*types.Project, error) {
	t.Helper()
	o, err := cli.NewProjectOptions([]string{file}, cli.WithWorkingDirectory(composeFolder))
	if err != nil {
		t.Fatal(err)
	}
	return o.LoadProject(context.Background())
}

var imageForm = regexp.MustCompile(`^[a-z0-9./-]+:v?[0-9][\w.-]*(@sha256:[0-9a-f]{64})?$`)

// The compose file is one: images have a version, what is mounted is there, nothing listens beyond the machine.
func TestCompose(t *testing.T) {
	p, err := load(t, filepath.Join(composeFolder, "docker-compose.yml"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"bucket", "changes", "connect", "connector", "grafana", "gscd", "kafka", "mariadb", "prometheus", "s3", "topics", "trino"}
	if got := p.ServiceNames(); !slices.Equal(got, want) {
		t.Errorf("services %q, want %q", got, want)
	}
	for name, s := range p.Services {
		if s.Build == nil && !imageForm.MatchString(s.Image) {
			t.Errorf("%s: the image %s has no version", name, s.Image)
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s: port %s listens at %q", name, port.Published, port.HostIP)
			}
		}
		for _, v := range s.Volumes {
			if v.Type != "bind" {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil || !v.ReadOnly {
				t.Errorf("%s: mounts %s (read-only: %t): %v", name, v.Source, v.ReadOnly, err)
			}
		}
		for on, d := range s.DependsOn {
			if d.Condition == types.ServiceConditionHealthy && p.Services[on].HealthCheck == nil {
				t.Errorf("%s waits for the health of %s, which has no check", name, on)
			}
		}
	}
	g := p.Services["gscd"]
	if !g.ReadOnly || len(g.CapDrop) != 1 || g.StopGracePeriod == nil {
		t.Errorf("gscd: read-only %t, drops %q, stops within %v", g.ReadOnly, g.CapDrop, g.StopGracePeriod)
	}
	if targets := []string{"slim", "full"}; !slices.Contains(targets, g.Build.Target) {
		t.Errorf("the target %s is no image", g.Build.Target)
	}
	if _, err := os.Stat(filepath.Join(g.Build.Context, g.Build.Dockerfile)); err != nil {
		t.Error(err)
	}

	// What the services say to each other.
	var connector map[string]string
	if err := json.Unmarshal([]byte(read(t, composeFolder+"/connector.json")), &connector); err != nil {
		t.Fatal(err)
	}
	var config struct {
		Kafka  struct{ Brokers []string }
		Tables []struct{ Topics []string }
	}
	if err := yaml.Unmarshal([]byte(read(t, composeFolder+"/gscd.yaml")), &config); err != nil {
		t.Fatal(err)
	}
	sql := read(t, composeFolder+"/shop.sql")
	made := strings.Join(p.Services["topics"].Command, " ")
	for _, table := range config.Tables {
		prefix, name, _ := strings.Cut(table.Topics[0], ".shop.")
		if prefix != connector["topic.prefix"] || !strings.Contains(sql, "CREATE TABLE "+name+" ") {
			t.Errorf("nobody writes the topic %s", table.Topics[0])
		}
		if !regexp.MustCompile(`for table in [a-z ]*\b`+name+`\b`).MatchString(made) || !strings.Contains(made, "--topic "+prefix+".shop.$table ") {
			t.Errorf("nobody makes the topic %s: %s", table.Topics[0], made)
		}
	}
	brokers := connector["schema.history.internal.kafka.bootstrap.servers"]
	if *p.Services["connect"].Environment["BOOTSTRAP_SERVERS"] != brokers || config.Kafka.Brokers[0] != brokers || !strings.Contains(*p.Services["kafka"].Environment["KAFKA_ADVERTISED_LISTENERS"], brokers) {
		t.Errorf("the brokers are not %s for all", brokers)
	}
	var prometheus struct {
		Scrapes []struct {
			Static []struct{ Targets []string } `json:"static_configs"`
		} `json:"scrape_configs"`
	}
	if err := yaml.Unmarshal([]byte(read(t, composeFolder+"/prometheus.yml")), &prometheus); err != nil || prometheus.Scrapes[0].Static[0].Targets[0] != "gscd:9090" || !slices.Contains(g.Command, "0.0.0.0:9090") {
		t.Errorf("prometheus scrapes %+v: %v", prometheus, err)
	}
	if data := read(t, composeFolder+"/grafana/datasources/prometheus.yml"); !strings.Contains(data, "http://prometheus:9090") {
		t.Errorf("grafana reads %s", data)
	}
}

// What compose would refuse is refused here too.
func TestComposeRefuses(t *testing.T) {
	text := read(t, composeFolder+"/docker-compose.yml")
	for _, c := range []struct{ was, is, want string }{
		{"    restart: unless-stopped", "    restarts: unless-stopped", ".restarts "},
		{"condition: service_started}, ", "condition: service_begun}, ", "value must be one of"},
		{"depends_on: {prometheus:", "depends_on: {prometheos:", `depends on undefined service "prometheos"`},
		{"[\"s3:/data\"]", "[\"s4:/data\"]", "undefined volume s4"},
	} {
		if c.was = strings.TrimSuffix(c.was, ", "); !strings.Contains(text, c.was) {
			t.Fatalf("the file has no %s", c.was)
		}
		file := filepath.Join(t.TempDir(), "docker-compose.yml")
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, c.was, strings.TrimSuffix(c.is, ", "))), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := load(t, file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n%v\nwant %s", c.is, err, c.want)
		}
	}
}
