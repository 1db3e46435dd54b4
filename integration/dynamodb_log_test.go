//go:build integration

package integration

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	api "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	bucketapi "github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/attempt"
	"github.com/gscd-io/gscd/delta/objstore/dynamodb"
	"github.com/gscd-io/gscd/delta/objstore/s3"
	"github.com/gscd-io/gscd/delta/objstore/storetest"
)

// amazon is S3 and DynamoDB in one process, with a bucket and the table of the log.
type amazon struct {
	url   string
	items *api.Client
}

func startAmazon(t *testing.T) *amazon {
	t.Helper()
	port := freePort(t)
	p := startProcess(t, filepath.Join(component(t, "moto"), "bin", "moto_server"), "-H", "127.0.0.1", "-p", port)
	listening(t, p, port)
	a := &amazon{url: "http://127.0.0.1:" + port}
	login := credentials.NewStaticCredentialsProvider(gatewayKey, gatewaySecret, "")
	_, err := bucketapi.New(bucketapi.Options{BaseEndpoint: &a.url, Region: "us-east-1", UsePathStyle: true, Credentials: login}).
		CreateBucket(ctx, &bucketapi.CreateBucketInput{Bucket: aws.String(gatewayBucket)})
	if err != nil {
		t.Fatal(err)
	}
	a.items = api.New(api.Options{BaseEndpoint: &a.url, Region: "us-east-1", Credentials: login})
	_, err = a.items.CreateTable(ctx, &api.CreateTableInput{
		TableName: aws.String("delta_log"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("tablePath"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("fileName"), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("tablePath"), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String("fileName"), KeyType: types.KeyTypeRange},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// bucket opens a folder without DynamoDB.
func (a *amazon) bucket(t *testing.T, prefix string) *s3.Store {
	t.Helper()
	s, err := s3.Open(ctx, gatewayBucket, prefix, s3.Options{
		Endpoint: a.url, Region: "us-east-1", PathStyle: true, AccessKeyID: gatewayKey, SecretAccessKey: gatewaySecret, FirstWait: 20 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// open opens a folder with a client of its own: another process, as it were.
func (a *amazon) open(t *testing.T, prefix string) *dynamodb.Store {
	t.Helper()
	c, err := dynamodb.NewClient(ctx, dynamodb.Options{
		Endpoint: a.url, Region: "us-east-1", AccessKeyID: gatewayKey, SecretAccessKey: gatewaySecret,
		Options: attempt.Options{FirstWait: 20 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := c.Store(a.bucket(t, prefix), "s3a://"+gatewayBucket+"/"+prefix)
	if err := s.Probe(ctx); err != nil {
		t.Fatal(err)
	}
	return s
}

// leave is what a writer leaves that dies after its entry, and before the copy.
func (a *amazon) leave(t *testing.T, prefix string, version int, temp, commit string) {
	t.Helper()
	if err := a.bucket(t, prefix).Put(ctx, "_delta_log/"+temp, []byte(commit)); err != nil {
		t.Fatal(err)
	}
	text := func(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
	_, err := a.items.PutItem(ctx, &api.PutItemInput{TableName: aws.String("delta_log"), Item: map[string]types.AttributeValue{
		"tablePath": text("s3a://" + gatewayBucket + "/" + prefix), "fileName": text(fmt.Sprintf("%020d.json", version)),
		"tempPath": text(temp), "complete": text("false"),
	}})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDynamoDBConformance(t *testing.T) {
	a, n := startAmazon(t), 0
	storetest.Run(t, func(t *testing.T) objstore.Store {
		n++
		return a.open(t, fmt.Sprintf("t%d", n))
	})
	var stores []objstore.Store
	for range 4 {
		stores = append(stores, a.open(t, "race"))
	}
	raceCommits(t, stores, 15, 900)
}

// delta-rs, which has the protocol of Spark's log store, and we write one table
// in turns, and each finishes what the other left.
func TestDynamoDBBesideDeltaRS(t *testing.T) {
	a := startAmazon(t)
	const prefix = "dim/shared"
	deltaRS := func(ids ...string) (state struct{ Version, Files int }) {
		t.Helper()
		cmd := exec.Command(filepath.Join(component(t, "moto"), "bin", "python"),
			append([]string{engineFile(t, "dynamodb_append.py"), "s3a://" + gatewayBucket + "/" + prefix, a.url}, ids...)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("delta-rs: %v", err)
		}
		if err := json.Unmarshal(out, &state); err != nil {
			t.Fatalf("delta-rs says %q: %v", out, err)
		}
		return state
	}
	key := func(version int) string { return fmt.Sprintf("_delta_log/%020d.json", version) }
	note := func(text string) string {
		return fmt.Sprintf(`{"commitInfo":{"timestamp":%d,"operation":"WRITE","operationParameters":{"note":%q}}}`+"\n", time.Now().UnixMilli(), text)
	}
	deltaRS("1", "2")
	if s := deltaRS("3"); s.Version != 1 {
		t.Fatalf("delta-rs is at version %d", s.Version)
	}
	s := a.open(t, prefix)
	if err := s.PutIfAbsent(ctx, key(1), []byte("x")); !errors.Is(err, objstore.ErrExist) {
		t.Errorf("a version of delta-rs's: %v", err)
	}
	if err := s.PutIfAbsent(ctx, key(2), []byte(note("ours"))); err != nil {
		t.Fatal(err)
	}
	if s := deltaRS("4"); s.Version != 3 || s.Files != 3 {
		t.Fatalf("delta-rs, behind ours: %+v", s)
	}

	// We die, delta-rs goes on.
	a.leave(t, prefix, 4, ".tmp/00000000000000000004.json.0c5b2a0e-8a5e-4a4e-9f43-7a2c3e0d1b11", note("left by us"))
	if s := deltaRS("5"); s.Version != 5 || s.Files != 4 {
		t.Fatalf("delta-rs, behind what we left: %+v", s)
	}
	if got, err := a.bucket(t, prefix).Get(ctx, key(4)); err != nil || !strings.Contains(string(got), "left by us") {
		t.Errorf("version 4 is %q, %v", got, err)
	}

	// delta-rs dies, we go on.
	a.leave(t, prefix, 6, "_commit_7fd76ba2-d737-4aab-afc7-e3b25a97503f.json.tmp", note("left by delta-rs"))
	if err := s.PutIfAbsent(ctx, key(7), []byte(note("ours again"))); err != nil {
		t.Fatal(err)
	}
	if got, err := a.bucket(t, prefix).Get(ctx, key(6)); err != nil || !strings.Contains(string(got), "left by delta-rs") {
		t.Errorf("version 6 is %q, %v", got, err)
	}
	if s := deltaRS(); s.Version != 7 || s.Files != 4 {
		t.Errorf("delta-rs, at the end: %+v", s)
	}

	// The program, by its configuration.
	a.leave(t, prefix, 8, ".tmp/00000000000000000008.json.4f8bd0f2-1111-4a4e-9f43-7a2c3e0d1b11", note("left once more"))
	config := filepath.Join(t.TempDir(), "gscd.yaml")
	text := fmt.Sprintf("s3: {endpoint: %q, region: us-east-1, path_style: true, access_key_id: %s, secret_access_key: %s, log_store: dynamodb, dynamodb_endpoint: %[1]q}\n", a.url, gatewayKey, gatewaySecret)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	out := gscd(t, "query", "-c", config, "--table", "s3://"+gatewayBucket+"/"+prefix, "--order-by", "id", "--format", "csv")
	if got := strings.Fields(string(out)); strings.Join(got, " ") != "id 1 2 3 4 5" {
		t.Errorf("gscd reads %q", got)
	}
	if _, err := a.bucket(t, prefix).Head(ctx, key(8)); err != nil {
		t.Errorf("a read of the program has not finished version 8: %v", err)
	}
}
