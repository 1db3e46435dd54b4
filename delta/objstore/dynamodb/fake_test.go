package dynamodb_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/attempt"
	"github.com/gscd-io/gscd/delta/objstore/dynamodb"
)

// fake answers as DynamoDB does, from memory, what the log store asks.
type fake struct {
	*httptest.Server
	mu sync.Mutex
	// items are the table's, by tablePath and fileName.
	items map[[2]string]item
	// before sees each request first; true: it has answered.
	before func(w http.ResponseWriter, op string) bool
	// ops are the requests that were answered.
	ops []string
}

type item map[string]map[string]string

func newFake(t *testing.T) *fake {
	t.Helper()
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_CA_BUNDLE", "AWS_WEB_IDENTITY_TOKEN_FILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	f := &fake{items: map[[2]string]item{}}
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.Close)
	return f
}

func (f *fake) options() dynamodb.Options {
	return dynamodb.Options{
		Endpoint: f.URL, AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "very-hush", Options: attempt.Options{FirstWait: time.Millisecond},
	}
}

func (f *fake) client(t *testing.T, o dynamodb.Options) *dynamodb.Client {
	t.Helper()
	c, err := dynamodb.NewClient(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const tablePath = "s3a://lake/t"

func (f *fake) open(t *testing.T, base objstore.Store) *dynamodb.Store {
	t.Helper()
	return f.client(t, f.options()).Store(base, tablePath)
}

// entry describes the item of a version, "" where there is none.
func (f *fake) entry(version int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	i, ok := f.items[[2]string{tablePath, fmt.Sprintf("%020d.json", version)}]
	if !ok {
		return ""
	}
	return i["complete"]["S"]
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":%q}`, code, message)
}

func (f *fake) serve(w http.ResponseWriter, r *http.Request) {
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	var in struct {
		TableName                 string
		Item, Key                 item
		ConditionExpression       string
		ExpressionAttributeValues item
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		return // the client has given up
	}
	if before := f.hook(); before != nil && before(w, op) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ops = append(f.ops, op)
	if in.TableName != "delta_log" {
		refuse(w, 400, "ResourceNotFoundException", "Requested resource not found")
		return
	}
	answer := map[string]any{}
	keyOf := func(i item) [2]string { return [2]string{i["tablePath"]["S"], i["fileName"]["S"]} }
	switch op {
	case "GetItem":
		if i, ok := f.items[keyOf(in.Key)]; ok {
			answer["Item"] = i
		}
	case "PutItem":
		old, taken := f.items[keyOf(in.Item)]
		same := strings.HasSuffix(in.ConditionExpression, "OR tempPath = :t") && old["tempPath"]["S"] == in.ExpressionAttributeValues[":t"]["S"]
		if taken && !same {
			refuse(w, 400, "ConditionalCheckFailedException", "The conditional request failed")
			return
		}
		f.items[keyOf(in.Item)] = in.Item
	case "Query":
		var files []string
		for k := range f.items {
			if k[0] == in.ExpressionAttributeValues[":t"]["S"] {
				files = append(files, k[1])
			}
		}
		if len(files) > 0 {
			answer["Items"] = []item{f.items[[2]string{in.ExpressionAttributeValues[":t"]["S"], slices.Max(files)}]}
		}
	case "DescribeTable":
		answer["Table"] = map[string]any{"KeySchema": []map[string]string{
			{"AttributeName": "tablePath", "KeyType": "HASH"}, {"AttributeName": "fileName", "KeyType": "RANGE"},
		}}
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		panic(err)
	}
}

// set has before answer the requests to come.
func (f *fake) set(before func(w http.ResponseWriter, op string) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = before
}

func (f *fake) hook() func(w http.ResponseWriter, op string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.before
}
