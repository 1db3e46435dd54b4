//go:build integration

package integration

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/attempt"
	"github.com/gscd-io/gscd/delta/objstore/azure"
	"github.com/gscd-io/gscd/delta/objstore/gcs"
	"github.com/gscd-io/gscd/delta/objstore/storetest"
)

// freePort is a port of this machine that nobody listens on.
func freePort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// listening waits until a process takes connections.
func listening(t testing.TB, p *process, port string) {
	t.Helper()
	go io.Copy(io.Discard, p.stdout)
	for range 600 {
		select {
		case <-p.ended:
			t.Fatalf("%s has ended: %s", p.cmd.Path, p.errors)
		case <-time.After(50 * time.Millisecond):
		}
		if c, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
			c.Close()
			return
		}
	}
	t.Fatalf("%s does not answer: %s", p.cmd.Path, p.errors)
}

// raceCommits lets stores put one key at the same moment, round after round, and
// wants one winner, whose bytes are the object.
func raceCommits(t *testing.T, stores []objstore.Store, rounds, size int) {
	t.Helper()
	for round := range rounds {
		key := fmt.Sprintf("_delta_log/%020d.json", round)
		errs, bodies := make([]error, len(stores)), make([][]byte, len(stores))
		var ready, done sync.WaitGroup
		ready.Add(len(stores))
		for w, s := range stores {
			bodies[w] = bytes.Repeat([]byte{byte('a' + w)}, size)
			done.Go(func() {
				ready.Done()
				ready.Wait()
				errs[w] = s.PutIfAbsent(ctx, key, bodies[w])
			})
		}
		done.Wait()
		winner := -1
		for w, err := range errs {
			switch {
			case err == nil && winner >= 0:
				t.Fatalf("round %d: %d and %d won both", round, winner, w)
			case err == nil:
				winner = w
			case !errors.Is(err, objstore.ErrExist):
				t.Errorf("round %d: a loser's error is %v", round, err)
			}
		}
		if winner < 0 {
			t.Fatalf("round %d: nobody won: %v", round, errs)
		}
		for _, s := range stores {
			if got, err := s.Get(ctx, key); err != nil || !bytes.Equal(got, bodies[winner]) {
				t.Fatalf("round %d: the object is not the winner's: %d bytes, %v", round, len(got), err)
			}
		}
	}
}

// large writes and reads an object that other clients would send in parts.
func large(t *testing.T, s objstore.Store) {
	t.Helper()
	data := make([]byte, 40<<20)
	for i := range data {
		data[i] = byte(i * 7 >> 3)
	}
	if err := s.PutIfAbsent(ctx, "large", data); err != nil {
		t.Fatal(err)
	}
	got, err := s.Get(ctx, "large")
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes came back, %v", len(got), err)
	}
	part, err := s.GetRange(ctx, "large", 17<<20-3, 6)
	if err != nil || !bytes.Equal(part, data[17<<20-3:17<<20+3]) {
		t.Errorf("a range: %v, %v", part, err)
	}
	if err := s.PutIfAbsent(ctx, "large", data[1:]); !errors.Is(err, objstore.ErrExist) {
		t.Errorf("a taken key: %v", err)
	}
}

// probed has each store find out, as at the start of the program, that the storage keeps
// the condition of a commit.
func probed(t *testing.T, stores []objstore.Store) {
	t.Helper()
	for _, s := range stores {
		p, ok := s.(interface{ Probe(context.Context) error })
		if !ok {
			t.Fatalf("%s has no probe", s)
		}
		if err := p.Probe(ctx); err != nil {
			t.Error(err)
		}
	}
}

const googleBucket = "lake"

// startGoogle starts an emulator of Google Cloud Storage with a bucket, and gives its URL.
func startGoogle(t *testing.T) string {
	t.Helper()
	port := freePort(t)
	url := "http://127.0.0.1:" + port
	p := startProcess(t, filepath.Join(component(t, "fake-gcs-server"), "fake-gcs-server"),
		"-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", port, "-external-url", url, "-log-level", "error")
	listening(t, p, port)
	response, err := http.Post(url+"/storage/v1/b", "application/json", strings.NewReader(`{"name":"`+googleBucket+`"}`))
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("make a bucket: %v, %v", response, err)
	}
	response.Body.Close()
	return url
}

func openGoogle(t *testing.T, url, prefix string) objstore.Store {
	t.Helper()
	s, err := gcs.Open(ctx, googleBucket, prefix, gcs.Options{Endpoint: url, Anonymous: true, Options: attempt.Options{FirstWait: 20 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestGoogleConformance(t *testing.T) {
	url, n := startGoogle(t), 0
	storetest.Run(t, func(t *testing.T) objstore.Store {
		n++
		return openGoogle(t, url, fmt.Sprintf("tables/t%d", n))
	})
	large(t, openGoogle(t, url, "large"))
	var stores []objstore.Store
	for range 8 {
		stores = append(stores, openGoogle(t, url, "race"))
	}
	raceCommits(t, stores, 20, 900)
	probed(t, stores)
	other, err := gcs.Open(ctx, "nowhere", "t", gcs.Options{Endpoint: url, Anonymous: true})
	if err != nil {
		t.Fatal(err)
	}
	// A get is answered in Google's words only by Google.
	if err := other.Put(ctx, "k", nil); err == nil || !strings.Contains(err.Error(), "has no bucket nowhere: create it") {
		t.Errorf("put in a bucket that is not there: %v", err)
	}
	for _, err := range other.List(ctx, "", "") {
		if err == nil || !strings.Contains(err.Error(), "has no bucket nowhere: create it") {
			t.Errorf("list of a bucket that is not there: %v", err)
		}
	}
}

const (
	azureAccount   = "gscdlake"
	azureContainer = "lake"
)

// azureKey is the key of the emulator's account.
var azureKey = base64.StdEncoding.EncodeToString([]byte("not-much-of-a-secret"))

// startAzure starts an emulator of Azure Blob Storage with a container, and gives
// the URL of its account.
func startAzure(t *testing.T) string {
	t.Helper()
	port := freePort(t)
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal(err)
	}
	p := startProcessIn(t, []string{"AZURITE_ACCOUNTS=" + azureAccount + ":" + azureKey}, node,
		filepath.Join(component(t, "azurite"), "node_modules", "azurite", "dist", "src", "blob", "main.js"),
		"--blobHost", "127.0.0.1", "--blobPort", port, "--inMemoryPersistence", "--silent", "--disableTelemetry", "--skipApiVersionCheck")
	listening(t, p, port)
	url := "http://127.0.0.1:" + port + "/" + azureAccount
	key, err := container.NewSharedKeyCredential(azureAccount, azureKey)
	if err != nil {
		t.Fatal(err)
	}
	c, err := container.NewClientWithSharedKeyCredential(url+"/"+azureContainer, key, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(ctx, nil); err != nil {
		t.Fatal(err)
	}
	return url
}

func azureOptions(url string) azure.Options {
	return azure.Options{Account: azureAccount, Endpoint: url, AccountKey: azureKey, Options: attempt.Options{FirstWait: 20 * time.Millisecond}}
}

func openAzure(t *testing.T, o azure.Options, prefix string) objstore.Store {
	t.Helper()
	s, err := azure.Open(azureContainer, prefix, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAzureConformance(t *testing.T) {
	url, n := startAzure(t), 0
	storetest.Run(t, func(t *testing.T) objstore.Store {
		n++
		return openAzure(t, azureOptions(url), fmt.Sprintf("tables/t%d", n))
	})
	large(t, openAzure(t, azureOptions(url), "large"))
	var stores []objstore.Store
	for range 8 {
		stores = append(stores, openAzure(t, azureOptions(url), "race"))
	}
	raceCommits(t, stores, 20, 900)
	probed(t, stores)
	t.Run("signature", func(t *testing.T) { azureSignature(t, url) })
	t.Run("bad input", func(t *testing.T) { azureBadInput(t, url) })
}

// A shared access signature opens the container, for what it names.
func azureSignature(t *testing.T, url string) {
	key, err := container.NewSharedKeyCredential(azureAccount, azureKey)
	if err != nil {
		t.Fatal(err)
	}
	sign := func(p sas.ContainerPermissions, end time.Time) azure.Options {
		q, err := sas.BlobSignatureValues{
			ContainerName: azureContainer, Permissions: p.String(), StartTime: time.Now().Add(-2 * time.Hour), ExpiryTime: end, Version: "2025-07-05",
		}.SignWithSharedKey(key)
		if err != nil {
			t.Fatal(err)
		}
		o := azureOptions(url)
		o.AccountKey, o.SASToken = "", q.Encode()
		return o
	}
	all := sas.ContainerPermissions{Read: true, Add: true, Create: true, Write: true, Delete: true, List: true}
	storetest.Run(t, func(t *testing.T) objstore.Store {
		return openAzure(t, sign(all, time.Now().Add(time.Hour)), fmt.Sprintf("signed/%d", time.Now().UnixNano()))
	})
	for name, c := range map[string]struct {
		o    azure.Options
		says string
	}{
		"read only": {sign(sas.ContainerPermissions{Read: true, List: true}, time.Now().Add(time.Hour)), "allow it to write in the container lake"},
		"expired":   {sign(all, time.Now().Add(-time.Hour)), "check azure.account_key or azure.sas_token (it may have expired)"},
	} {
		err := openAzure(t, c.o, "t").Put(ctx, "k", []byte("x"))
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "sig=") {
			t.Errorf("%s: %v, want one that says %s", name, err, c.says)
		}
	}
}

func azureBadInput(t *testing.T, url string) {
	wrong := azureOptions(url)
	wrong.AccountKey = base64.StdEncoding.EncodeToString([]byte("another key"))
	for name, c := range map[string]struct {
		o         azure.Options
		container string
		says      string
	}{
		"key":       {wrong, azureContainer, "does not take the login: check azure.account_key"},
		"container": {azureOptions(url), "nowhere", "has no container nowhere: create it"},
	} {
		s, err := azure.Open(c.container, "t", c.o)
		if err != nil {
			t.Fatal(err)
		}
		errs := []error{s.Put(ctx, "k", nil), s.Delete(ctx, "k")}
		_, err = s.Get(ctx, "k")
		errs = append(errs, err)
		for _, err := range s.List(ctx, "", "") {
			errs = append(errs, err)
		}
		for i, err := range errs {
			if err == nil || !strings.Contains(err.Error(), c.says) || errors.Is(err, objstore.ErrNotExist) {
				t.Errorf("%s, call %d: %v, want one that says %s", name, i, err, c.says)
			}
		}
	}
}
