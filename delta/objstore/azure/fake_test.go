package azure_test

import (
	"crypto/md5"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/objstore/attempt"
	"github.com/gscd-io/gscd/delta/objstore/azure"
	"github.com/gscd-io/gscd/delta/objstore/storetest"
)

const (
	account = "acct"
	lake    = "lake"
)

var accountKey = base64.StdEncoding.EncodeToString([]byte("very-hush"))

// fake answers as Azure Blob Storage does, from memory, for the container "lake".
// It is there for faults and speed; the emulator of the integration tests is another's.
type fake struct {
	*storetest.Service
	mu    sync.Mutex
	blobs map[string]*stored
	// blocks are those that are in no blob, by key and name.
	blocks map[string][]byte
	// page is the number of blobs on a page of a listing.
	page int
}

type stored struct {
	data     []byte
	modified time.Time
	metadata http.Header
	kind     string
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := &fake{blobs: map[string]*stored{}, blocks: map[string][]byte{}, page: 5000}
	f.Service = storetest.NewService(t, f.serve)
	return f
}

func (f *fake) options() azure.Options {
	return azure.Options{
		Account: account, Endpoint: f.URL + "/" + account, AccountKey: accountKey,
		Options: attempt.Options{FirstWait: time.Millisecond},
	}
}

func (f *fake) open(t *testing.T, prefix string) *azure.Store {
	t.Helper()
	s, err := azure.Open(lake, prefix, f.options())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("X-Ms-Error-Code", code)
	w.Header().Set("X-Ms-Request-Id", "r-1")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>%s\nRequestId:r-1\nTime:now</Message></Error>", code, message)
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has given up
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	name, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"+account+"/"), "/")
	b := f.blobs[key]
	switch {
	case !strings.HasPrefix(r.Header.Get("Authorization"), "SharedKey "+account+":"):
		refuse(w, http.StatusForbidden, "AuthenticationFailed", "Server failed to authenticate the request.")
	case name != lake:
		refuse(w, http.StatusNotFound, "ContainerNotFound", "The specified container does not exist.")
	case r.URL.Query().Get("comp") == "list":
		f.list(w, r)
	case r.Method == http.MethodPut:
		sum := md5.Sum(body)
		switch comp := r.URL.Query().Get("comp"); {
		case comp == "blocklist":
			if body = f.joined(key, body); body == nil {
				refuse(w, http.StatusBadRequest, "InvalidBlockList", "The specified block list is invalid.")
				return
			}
		case b != nil && r.Header.Get("If-None-Match") == "*":
			refuse(w, http.StatusConflict, "BlobAlreadyExists", "The specified blob already exists.")
			return
		case r.Header.Get("Content-Md5") != base64.StdEncoding.EncodeToString(sum[:]):
			refuse(w, http.StatusBadRequest, "Md5Mismatch", "The MD5 value does not match.")
			return
		case comp == "block":
			f.blocks[key+"\n"+r.URL.Query().Get("blockid")] = body
			w.WriteHeader(http.StatusCreated)
			return
		}
		b = &stored{data: body, modified: time.Now(), metadata: http.Header{}}
		for name, v := range r.Header {
			if strings.HasPrefix(name, "X-Ms-Meta-") {
				b.metadata[name] = v
			}
		}
		f.blobs[key] = b
		w.WriteHeader(http.StatusCreated)
	case b == nil:
		refuse(w, http.StatusNotFound, "BlobNotFound", "The specified blob does not exist.")
	case r.Method == http.MethodDelete:
		delete(f.blobs, key)
		w.WriteHeader(http.StatusAccepted)
	default:
		maps.Copy(w.Header(), b.metadata)
		if r.Header.Get("X-Ms-Range") == "" {
			sum := md5.Sum(b.data)
			w.Header().Set("Content-Md5", base64.StdEncoding.EncodeToString(sum[:]))
		}
		r.Header.Set("Range", r.Header.Get("X-Ms-Range"))
		http.ServeContent(w, r, "", b.modified, strings.NewReader(string(b.data)))
	}
}

// joined gives the bytes of a list of blocks; nil where one is not there.
func (f *fake) joined(key string, list []byte) []byte {
	var names struct{ Latest []string }
	if err := xml.Unmarshal(list, &names); err != nil {
		return nil
	}
	data := []byte{}
	for _, name := range names.Latest {
		block, ok := f.blocks[key+"\n"+name]
		if !ok {
			return nil
		}
		data = append(data, block...)
	}
	return data
}

func (f *fake) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	var names []string
	for name := range f.blobs {
		if strings.HasPrefix(name, q.Get("prefix")) && name > q.Get("marker") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	type item struct {
		Name       string
		Properties struct {
			Modified string `xml:"Last-Modified"`
			Size     int    `xml:"Content-Length"`
			Kind     string `xml:"ResourceType,omitempty"`
		}
	}
	answer := struct {
		XMLName xml.Name `xml:"EnumerationResults"`
		Blobs   struct{ Blob []item }
		Next    string `xml:"NextMarker"`
	}{}
	if len(names) > f.page {
		names = names[:f.page]
		answer.Next = names[f.page-1]
	}
	for _, name := range names {
		b := f.blobs[name]
		i := item{Name: name}
		i.Properties.Modified, i.Properties.Size, i.Properties.Kind = b.modified.UTC().Format(http.TimeFormat), len(b.data), b.kind
		answer.Blobs.Blob = append(answer.Blobs.Blob, i)
	}
	w.Header().Set("Content-Type", "application/xml")
	if err := xml.NewEncoder(w).Encode(answer); err != nil {
		panic(err)
	}
}
