package notify

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/gscd-io/gscd/delta/objstore/mem"
	"github.com/gscd-io/gscd/ingest"
	"github.com/gscd-io/gscd/progress"
	"github.com/gscd-io/gscd/snapshotter"
)

func sealOf(label string) *Event {
	version, rows := int64(7), int64(3)
	e := &Event{Kind: Seal, Time: time.Date(2022, 7, 17, 0, 10, 0, 0, time.UTC), version: version, Data: Data{
		Event: Seal, Table: "user_dim", Location: "/lake/user dim", Label: label, Version: &version, Rows: &rows, Digest: "d1",
	}}
	e.named("id-1")
	return e
}

// The envelope has what CloudEvents asks for, and the same ID each time.
func TestEventJSON(t *testing.T) {
	body, err := sealOf("2022-07-16").JSON()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"specversion":"1.0","id":"id-1/seal/2022-07-16/7","source":"/lake/user%20dim","type":"io.gscd.seal","subject":"user_dim/2022-07-16",` +
		`"time":"2022-07-17T00:10:00Z","datacontenttype":"application/json","data":{"event":"seal","table":"user_dim","location":"/lake/user dim",` +
		`"table_id":"id-1","label":"2022-07-16","version":7,"rows":3,"digest":"d1"}}`
	if string(body) != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
}

// A webhook is believed where it was signed with the secret a short while ago.
func TestSignature(t *testing.T) {
	now, body := time.Unix(1_658_000_000, 0), []byte(`{"a":1}`)
	header := Sign([]byte("hush"), "k1", now, body)
	// As openssl gives it: printf '1658000000.{"a":1}' | openssl dgst -sha256 -hmac hush
	if header != "keyid=k1,t=1658000000,v1="+"e34dd50a11e01f21a49a1517d75d81e7383792ff00b7c604e059be550efbc416" {
		t.Errorf("signed %s", header)
	}
	secrets := func(id string) []byte { return map[string][]byte{"k1": []byte("hush")}[id] }
	for name, c := range map[string]struct {
		header, body string
		at           time.Time
		good         bool
	}{
		"good":        {header, string(body), now.Add(time.Minute), true},
		"other body":  {header, `{"a":2}`, now, false},
		"other key":   {strings.Replace(header, "k1", "k2", 1), string(body), now, false},
		"old":         {header, string(body), now.Add(time.Hour), false},
		"from future": {header, string(body), now.Add(-time.Hour), false},
		"other time":  {strings.Replace(header, "1658000000", "1658000001", 1), string(body), now, false},
		"nothing":     {"", string(body), now, false},
		"no hex":      {header[:len(header)-1] + "x", string(body), now, false},
	} {
		if err := Verify(c.header, []byte(c.body), secrets, c.at, 5*time.Minute); (err == nil) != c.good || err != nil && !errors.Is(err, ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func webhook(t *testing.T, o WebhookOptions) *Webhook {
	t.Helper()
	w, err := NewWebhook(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// What a webhook does not do: trust strangers, follow to other hosts, wait for ever, tell
// the address.
func TestWebhookRefuses(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("another host was asked") }))
	defer other.Close()
	var got []string
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.URL.Path)
		switch r.URL.Path {
		case "/elsewhere":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/moved":
			http.Redirect(w, r, "/token", http.StatusFound)
		case "/here":
			http.Redirect(w, r, "/token", http.StatusPermanentRedirect)
		case "/slow":
			time.Sleep(time.Second)
		case "/busy":
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	web.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	web.StartTLS()
	defer web.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw}), 0o644); err != nil {
		t.Fatal(err)
	}
	for path, says := range map[string]string{
		"/token": "", "/here": "", "/elsewhere": "sends on to another host", "/moved": "sends on without the body",
		"/slow": "Timeout", "/busy": "429 Too Many Requests",
	} {
		err := webhook(t, WebhookOptions{URL: web.URL + path, CAFile: ca, Timeout: 200 * time.Millisecond}).Send(t.Context(), sealOf("2022-07-16"))
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: %v", path, err)
		}
		var answer *answerError
		if path == "/busy" && (!errors.As(err, &answer) || answer.after != 7*time.Second) {
			t.Errorf("%s: %+v", path, err)
		}
		if err != nil && strings.Contains(err.Error(), web.URL+path) {
			t.Errorf("the address is told: %v", err)
		}
	}
	if err := webhook(t, WebhookOptions{URL: web.URL + "/token"}).Send(t.Context(), sealOf("2022-07-16")); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("an unknown authority: %v", err)
	}
	for url, says := range map[string]string{
		"http://example.com/x": "must be https", "https://u:p@example.com/x": "no login", "x": "is no URL", "ftp://example.com": "must be https",
	} {
		if _, err := NewWebhook(WebhookOptions{URL: url}); err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// The receiver of the documentation takes what we sign, and nothing else.
func TestExampleReceiver(t *testing.T) {
	t.Parallel()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not here")
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "secret"), []byte("hush\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(python, filepath.Join("..", "examples", "webhook", "receiver.py"), "--port", "0", "--secret-file", filepath.Join(dir, "secret"))
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = c.Process.Kill()
		_ = c.Wait()
	}()
	lines := make(chan string, 16)
	go func() {
		for scan := bufio.NewScanner(out); scan.Scan(); {
			lines <- scan.Text()
		}
	}()
	port := strings.TrimPrefix(<-lines, "listening on port ")
	if _, err := strconv.Atoi(port); err != nil {
		t.Fatal(err)
	}
	send := func(secret string) error {
		return webhook(t, WebhookOptions{URL: "http://127.0.0.1:" + port + "/", KeyID: "gscd", Secret: func() ([]byte, error) { return []byte(secret), nil }}).
			Send(t.Context(), sealOf("2022-07-16"))
	}
	if err := send("wrong"); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("a wrong secret: %v", err)
	}
	if err := send("hush"); err != nil {
		t.Fatal(err)
	}
	if line := <-lines; line != "user_dim 2022-07-16 is sealed: version 7, 3 rows" {
		t.Errorf("the receiver says %q", line)
	}
	if err := send("hush"); err != nil {
		t.Fatal(err)
	}
	if line := <-lines; line != "id-1/seal/2022-07-16/7 came before" {
		t.Errorf("of a second time the receiver says %q", line)
	}
}

// A hook that hangs is ended with all that it has started; it sees no variable of ours.
func TestExec(t *testing.T) {
	t.Setenv("GSCD_S3_SECRET_ACCESS_KEY", "hush")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hush")
	dir := t.TempDir()
	run := func(script string, timeout time.Duration) error {
		return (&Exec{Command: []string{"/bin/sh", "-c", script, "hook", dir}, Timeout: timeout}).Send(t.Context(), sealOf("2022-07-16; echo x"))
	}
	if err := run(`env > "$1/env"; cat > "$1/body"`, time.Minute); err != nil {
		t.Fatal(err)
	}
	env, _ := os.ReadFile(filepath.Join(dir, "env"))
	if strings.Contains(string(env), "hush") || !strings.Contains(string(env), "GSCD_LABEL=2022-07-16; echo x\n") || !strings.Contains(string(env), "GSCD_VERSION=7\n") {
		t.Errorf("its environment: %s", env)
	}
	var e map[string]any
	if body, err := os.ReadFile(filepath.Join(dir, "body")); err != nil || json.Unmarshal(body, &e) != nil || e["id"] != "id-1/seal/2022-07-16; echo x/7" {
		t.Errorf("its input: %s, %v", body, err)
	}
	if err := run(`echo "no room" >&2; exit 3`, time.Minute); err == nil || err.Error() != `hook /bin/sh: exit status 3: "no room"` {
		t.Errorf("exit 3: %v", err)
	}
	began := time.Now()
	err := run(`sleep 60 & echo $! > "$1/child"; wait`, 300*time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "ran for longer than 300ms") || time.Since(began) > 10*time.Second {
		t.Errorf("a hook that hangs: %v in %s", err, time.Since(began))
	}
	child, _ := os.ReadFile(filepath.Join(dir, "child"))
	pid, err := strconv.Atoi(strings.TrimSpace(string(child)))
	if err != nil {
		t.Fatal(err)
	}
	gone := func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(stat), ") Z ")
	}
	for end := time.Now().Add(5 * time.Second); !gone() && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	if !gone() {
		t.Error("what the hook had started lives on")
	}
	if err := (&Exec{Command: []string{"/no/such/program"}}).Check(); err == nil {
		t.Error("a program that is not there was not found to be so")
	}
}

// asked is a Sender that a test answers for.
type asked struct {
	mu   sync.Mutex
	fail error
	got  []string
}

func (a *asked) Send(_ context.Context, e *Event) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.fail == nil {
		a.got = append(a.got, string(e.Kind)+" "+e.Data.Label)
	}
	return a.fail
}

func (a *asked) take() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.got)
}

// A sink that takes nothing holds up nobody, and the queue stays short; late changes and
// an overdue seal are told once a label.
func TestQueue(t *testing.T) {
	t.Parallel()
	cal, err := snapshotter.NewCalendar("day", "UTC", "00:00")
	if err != nil {
		t.Fatal(err)
	}
	core, logs := observer.New(zap.WarnLevel)
	down, up := &asked{fail: errors.New("away")}, &asked{}
	all := []Kind{Seal, Late, Stall, Failed}
	n := New([]*Sink{{Name: "down", Sender: down, On: all, LateChanges: 1, StallAfter: time.Hour}, {Name: "up", Sender: up, On: all, LateChanges: 2, StallAfter: 0, Tables: []string{"t"}}}, zap.New(core))
	store := mem.New()
	w, err := n.Watch(t.Context(), TableOptions{Name: "t", Location: "mem", Store: store})
	if err != nil {
		t.Fatal(err)
	}
	w.id = "id-1" // the table is not there to be asked
	p := &progress.Progress{LastSeal: -1}
	p.State.Open = 19189
	view := func() ingest.View {
		return ingest.View{Progress: p, Calendar: cal, Clock: time.UnixMicro(cal.End(p.State.Open)).Add(-time.Hour)}
	}
	w.Loaded(view())
	var took time.Duration
	for i := range 3 * maxQueue {
		p.State.Open++
		p.Seals = []progress.Evidence{{Label: p.State.Open - 1, Name: cal.Name(p.State.Open - 1)}}
		began := time.Now()
		w.Committed(ingest.Commit{Kind: progress.SealKind, Version: int64(i)}, view())
		took += time.Since(began)
		for waiting, _ := w.lines[1].undelivered(); waiting > maxQueue/2; waiting, _ = w.lines[1].undelivered() {
			time.Sleep(time.Millisecond) // up is not to run over
		}
	}
	p.Seals = nil
	if took > 2*time.Second {
		t.Errorf("commits waited: %s", took)
	}
	if n := len(w.lines[0].queue); n != maxQueue {
		t.Errorf("%d events are in memory", n)
	}
	p.Counts.Late = 1
	w.Took(view())
	p.Counts.Late = 2
	w.Took(view())
	p.Counts.Late = 3
	w.Took(view())
	late := view()
	late.Clock = time.UnixMicro(cal.End(p.State.Open)).Add(time.Minute)
	w.Took(late)
	w.Took(late)
	n.Failed("t", "mem", errors.New("broken"))
	n.Failed("elsewhere", "x", errors.New("broken"))
	stats := n.Stats()
	if stats[0].Undelivered < 3*maxQueue || stats[0].Oldest.IsZero() || stats[0].Delivered != 0 || stats[0].Failed == 0 {
		t.Errorf("%+v", stats[0])
	}
	if len(logs.FilterMessageSnippet("is told again").All()) == 0 {
		t.Error("no log line says that a sink does not take events")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	n.Close(ctx)
	got := up.take()
	if len(got) < maxQueue || !slices.IsSorted(got[:maxQueue]) || got[0] != "seal 2022-07-16" {
		t.Errorf("up heard %d, first %q", len(got), got[0])
	}
	if i := slices.Index(got, "late "+cal.Name(p.State.Open)); i < 0 || slices.Contains(got[i+1:], got[i]) {
		t.Errorf("late changes: %q", got[len(got)-4:])
	}
	if i := slices.Index(got, "stall "+cal.Name(p.State.Open)); i < 0 || slices.Contains(got[i+1:], got[i]) {
		t.Errorf("an overdue seal: %q", got[len(got)-4:])
	}
	if got[len(got)-1] != "failed " || slices.ContainsFunc(got, func(s string) bool { return s == "rolled_back" }) {
		t.Errorf("the end: %q", got[len(got)-4:])
	}
	// What was told is kept beside the log.
	known, err := readTold(t.Context(), store, "up")
	if err != nil || known.TableID != "id-1" || known.Version < int64(maxQueue-1) || known.Late == nil || *known.Late != p.State.Open {
		t.Errorf("kept: %+v, %v", known, err)
	}
	if known, err = readTold(t.Context(), store, "down"); err != nil || known.Version != -1 {
		t.Errorf("kept of the other: %+v, %v", known, err)
	}
}
