package main

import (
	"cmp"
	"context"

	"go.uber.org/zap"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/attempt"
	"github.com/gscd-io/gscd/delta/objstore/azure"
	"github.com/gscd-io/gscd/delta/objstore/dynamodb"
	"github.com/gscd-io/gscd/delta/objstore/gcs"
)

// storages are the clients of the storages beside S3, each made when it is first
// asked for, under app.s3Mu. One serves all tables.
type storages struct {
	google *gcs.Client
	// azure has a client for each account.
	azure  map[string]*azure.Client
	dynamo *dynamodb.Client
}

// patience has requests that are made again logged.
func (a *app) patience() attempt.Options {
	return attempt.Options{Retried: func(r attempt.Retry) {
		a.log.Warn("the storage is asked again", zap.String("at", r.Store), zap.String("op", r.Op), zap.String("key", r.Key),
			zap.Int("attempt", r.Attempt), zap.Duration("in", r.Wait), zap.Error(r.Err))
	}}
}

// openGoogle opens a folder of a bucket of Google Cloud Storage.
func (a *app) openGoogle(ctx context.Context, bucket, folder string) (objstore.Store, error) {
	a.s3Mu.Lock()
	defer a.s3Mu.Unlock()
	if a.storages.google == nil {
		cfg, err := a.config()
		if err != nil {
			return nil, err
		}
		a.storages.google, err = gcs.NewClient(ctx, gcs.Options{
			Endpoint: cfg.GCS.Endpoint, CredentialsFile: cfg.GCS.CredentialsFile, Anonymous: cfg.GCS.Anonymous, Options: a.patience(),
		})
		if err != nil {
			return nil, err
		}
	}
	return a.storages.google.Store(bucket, folder)
}

// openAzure opens a folder of a container. account is that of the address, ""
// where it names none.
func (a *app) openAzure(_ context.Context, account, container, folder string) (objstore.Store, error) {
	a.s3Mu.Lock()
	defer a.s3Mu.Unlock()
	cfg, err := a.config()
	if err != nil {
		return nil, err
	}
	own := cmp.Or(account, cfg.Azure.Account)
	if own != cfg.Azure.Account && (cfg.Azure.AccountKey != "" || cfg.Azure.SASToken != "" || cfg.Azure.Endpoint != "") {
		return nil, usagef("the address is in the account %s, and the section azure is about %q: a process with key, signature or endpoint has one account", own, cfg.Azure.Account)
	}
	client := a.storages.azure[own]
	if client == nil {
		client, err = azure.NewClient(azure.Options{
			Account: own, Endpoint: cfg.Azure.Endpoint, AccountKey: string(cfg.Azure.AccountKey), SASToken: string(cfg.Azure.SASToken),
			Anonymous: cfg.Azure.Anonymous, Options: a.patience(),
		})
		if err != nil {
			return nil, err
		}
		if a.storages.azure == nil {
			a.storages.azure = map[string]*azure.Client{}
		}
		a.storages.azure[own] = client
	}
	return client.Store(container, folder)
}

// logStore puts the commits of a table in S3 through DynamoDB, where that is set.
// The caller holds s3Mu.
func (a *app) logStore(ctx context.Context, store objstore.Store, bucket, folder string) (objstore.Store, error) {
	cfg, err := a.config()
	if err != nil {
		return nil, err
	}
	if cfg.S3.LogStore != "dynamodb" {
		return store, nil
	}
	if a.storages.dynamo == nil {
		o := dynamodb.Options{
			Table: cfg.S3.DynamoDBTable, Endpoint: cfg.S3.DynamoDBEndpoint, Region: cmp.Or(cfg.S3.DynamoDBRegion, cfg.S3.Region),
			AccessKeyID: cfg.S3.AccessKeyID, SecretAccessKey: string(cfg.S3.SecretAccessKey), SessionToken: string(cfg.S3.SessionToken),
			Options: a.patience(),
		}
		if cfg.S3.Role != nil {
			o.Credentials = a.s3.Credentials()
		}
		if a.storages.dynamo, err = dynamodb.NewClient(ctx, o); err != nil {
			return nil, err
		}
	}
	return a.storages.dynamo.Store(store, cfg.S3.DynamoDBScheme+"://"+bucket+"/"+folder), nil
}

// prober is a storage that can be tried before the first commit.
type prober interface {
	Probe(ctx context.Context) error
}
