package gcs_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/objstore/attempt"
	"github.com/gscd-io/gscd/delta/objstore/gcs"
	"github.com/gscd-io/gscd/delta/objstore/storetest"
)

const bucket = "lake"

// fake answers as the JSON API does, from memory, for the bucket "lake". It is
// there for faults and speed; the emulator of the integration tests is another's.
type fake struct {
	*storetest.Service
	mu      sync.Mutex
	objects map[string]*object
	// page is the number of objects on a page of a listing.
	page int
	// sessions are the uploads in pieces, by their number less one; nil is an ended one.
	sessions []*object
	// takes bounds what is taken of a piece, 0: all.
	takes int
}

type object struct {
	Kind     string            `json:"kind"`
	Name     string            `json:"name"`
	Size     string            `json:"size"`
	Updated  time.Time         `json:"updated"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Crc32c   string            `json:"crc32c"`
	data     []byte
}

func newFake(t *testing.T) *fake {
	t.Helper()
	t.Setenv("STORAGE_EMULATOR_HOST", "")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "")
	f := &fake{objects: map[string]*object{}, page: 1000}
	f.Service = storetest.NewService(t, f.serve)
	return f
}

func (f *fake) options() gcs.Options {
	return gcs.Options{Endpoint: f.URL, Anonymous: true, Options: attempt.Options{FirstWait: time.Millisecond}}
}

func (f *fake) open(t *testing.T, prefix string) *gcs.Store {
	t.Helper()
	s, err := gcs.Open(t.Context(), bucket, prefix, f.options())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func refuse(w http.ResponseWriter, status int, reason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"error":{"code":%d,"message":%q,"errors":[{"reason":%q,"message":%[2]q}]}}`, status, message, reason)
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has given up
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	path, upload := strings.CutPrefix(r.URL.Path, "/upload")
	rest, ok := strings.CutPrefix(path, "/storage/v1/b/")
	name, rest, _ := strings.Cut(rest, "/")
	key, isObject := strings.CutPrefix(rest, "o/")
	switch {
	case !ok:
		http.Error(w, "not found", http.StatusNotFound)
	case name != bucket:
		refuse(w, http.StatusNotFound, "notFound", "The specified bucket does not exist.")
	case upload && r.URL.Query().Get("uploadType") == "resumable":
		f.resumable(w, r, body)
	case upload && r.Method == http.MethodPost:
		f.insert(w, r, body)
	case r.Method == http.MethodGet && !isObject:
		f.list(w, r)
	case f.objects[key] == nil:
		refuse(w, http.StatusNotFound, "notFound", "No such object: "+bucket+"/"+key)
	case r.Method == http.MethodDelete:
		delete(f.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case r.URL.Query().Get("alt") == "media":
		o := f.objects[key]
		w.Header().Set("X-Goog-Hash", "crc32c="+o.Crc32c)
		http.ServeContent(w, r, "", o.Updated, strings.NewReader(string(o.data)))
	default:
		json.NewEncoder(w).Encode(f.objects[key])
	}
}

func (f *fake) insert(w http.ResponseWriter, r *http.Request, body []byte) {
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		refuse(w, http.StatusBadRequest, "badContent", "no multipart body")
		return
	}
	parts := multipart.NewReader(strings.NewReader(string(body)), params["boundary"])
	o := &object{Kind: "storage#object", Updated: time.Now().UTC()}
	for i := range 2 {
		part, err := parts.NextPart()
		if err != nil {
			refuse(w, http.StatusBadRequest, "badContent", "a part is missing")
			return
		}
		if i == 0 {
			err = json.NewDecoder(part).Decode(o)
		} else {
			o.data, err = io.ReadAll(part)
		}
		if err != nil {
			refuse(w, http.StatusBadRequest, "badContent", err.Error())
			return
		}
	}
	sum := base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.Checksum(o.data, crc32.MakeTable(crc32.Castagnoli))))
	if o.Crc32c != sum {
		refuse(w, http.StatusBadRequest, "invalid", "Provided CRC32C does not match")
		return
	}
	if r.URL.Query().Get("ifGenerationMatch") == "0" && f.objects[o.Name] != nil {
		refuse(w, http.StatusPreconditionFailed, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")
		return
	}
	o.Size = strconv.Itoa(len(o.data))
	f.objects[o.Name] = o
	fmt.Fprint(w, `{"generation":"1"}`)
}

// resumable answers what belongs to an upload in pieces.
func (f *fake) resumable(w http.ResponseWriter, r *http.Request, body []byte) {
	q := r.URL.Query()
	if r.Method == http.MethodPost {
		o := &object{Kind: "storage#object", Name: q.Get("name")}
		if err := json.Unmarshal(body, o); err != nil {
			refuse(w, http.StatusBadRequest, "invalid", err.Error())
			return
		}
		f.sessions = append(f.sessions, o)
		w.Header().Set("Location", fmt.Sprintf("%s%s?uploadType=resumable&upload_id=%d", f.URL, r.URL.Path, len(f.sessions)))
		return
	}
	id, _ := strconv.Atoi(q.Get("upload_id"))
	if id < 1 || id > len(f.sessions) || f.sessions[id-1] == nil {
		refuse(w, http.StatusGone, "gone", "the upload is over")
		return
	}
	o := f.sessions[id-1]
	if r.Method == http.MethodDelete {
		f.sessions[id-1] = nil
		w.WriteHeader(499)
		return
	}
	span, total, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Content-Range"), "bytes "), "/")
	if span != "*" {
		var first, last int
		fmt.Sscanf(span, "%d-%d", &first, &last)
		if o.Size != "" || first != len(o.data) || last-first+1 != len(body) || total == "*" && len(body)%(256<<10) != 0 {
			refuse(w, http.StatusBadRequest, "invalid", "a piece in the wrong place: "+r.Header.Get("Content-Range"))
			return
		}
		if f.takes > 0 {
			body = body[:min(len(body), f.takes)]
		}
		o.data = append(o.data, body...)
	}
	if total != strconv.Itoa(len(o.data)) {
		if len(o.data) > 0 {
			w.Header().Set("Range", fmt.Sprintf("bytes=0-%d", len(o.data)-1))
		}
		w.WriteHeader(http.StatusPermanentRedirect)
		return
	}
	o.Size, o.Updated = total, time.Now().UTC()
	o.Crc32c = base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, crc32.Checksum(o.data, crc32.MakeTable(crc32.Castagnoli))))
	f.objects[o.Name] = o
	json.NewEncoder(w).Encode(o)
}

func (f *fake) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	var names []string
	for name := range f.objects {
		if strings.HasPrefix(name, q.Get("prefix")) && name >= q.Get("startOffset") && name > q.Get("pageToken") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	answer := struct {
		Kind  string    `json:"kind"`
		Next  string    `json:"nextPageToken,omitempty"`
		Items []*object `json:"items,omitempty"`
	}{Kind: "storage#objects"}
	if len(names) > f.page {
		names = names[:f.page]
		answer.Next = names[f.page-1]
	}
	for _, name := range names {
		answer.Items = append(answer.Items, f.objects[name])
	}
	json.NewEncoder(w).Encode(answer)
}
