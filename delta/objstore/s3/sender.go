package s3

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
)

// sender is the SDK's HTTPClient.
type sender struct{ *http.Client }

// Do implements the SDK's HTTPClient.
func (s sender) Do(r *http.Request) (*http.Response, error) {
	response, err := s.Client.Do(r)
	if err == nil && wantsTLS(r, response) {
		response.Body.Close()
		return nil, errWantsTLS
	}
	return response, err
}

// errWantsTLS is the error of a plain request to a port that speaks TLS.
var errWantsTLS = errors.New("a plain HTTP request was sent to an HTTPS port")

// wantsTLS tells the answer of a port that speaks TLS: it is a sentence, and no
// answer of S3's.
func wantsTLS(r *http.Request, response *http.Response) bool {
	if r.URL.Scheme != "http" || response.StatusCode != http.StatusBadRequest || strings.Contains(response.Header.Get("Content-Type"), "xml") {
		return false
	}
	start := make([]byte, 512)
	n, _ := io.ReadFull(response.Body, start) // what fails here fails again for who reads on
	response.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(start[:n]), response.Body), response.Body}
	text := strings.ToLower(string(start[:n]))
	return strings.Contains(text, "http request") && strings.Contains(text, "https")
}
