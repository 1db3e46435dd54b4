package dynamodb

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/attempt"
)

// The attributes of an item.
const (
	attrTable    = "tablePath"
	attrFile     = "fileName"
	attrTemp     = "tempPath"
	attrComplete = "complete"
	attrExpire   = "expireTime"
)

// keptFor is how long a complete entry stays: longer than any writer may be busy
// with the same version.
const keptFor = 24 * time.Hour

// entry says which temporary file is a version of the table.
type entry struct {
	file string // "%020d.json"
	// temp is relative to the log.
	temp     string
	complete bool
}

// request names a question to DynamoDB, for messages.
func (s *Store) request(op, file, right string) attempt.Request {
	return attempt.Request{Op: op, Key: "the entry of " + file, Store: "DynamoDB for " + s.tablePath, Right: right}
}

func text(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }

// entryOf reads an item; what is missing or of another type is an error.
func (s *Store) entryOf(item map[string]types.AttributeValue) (entry, error) {
	var e entry
	var complete string
	for _, field := range []struct {
		name string
		to   *string
	}{{attrFile, &e.file}, {attrTemp, &e.temp}, {attrComplete, &complete}} {
		v, ok := item[field.name].(*types.AttributeValueMemberS)
		if !ok {
			return e, fmt.Errorf("DynamoDB table %s: an item of %s has no text %s: remove it, or name the right table", s.client.table, s.tablePath, field.name)
		}
		*field.to = v.Value
	}
	e.complete = strings.EqualFold(complete, "true")
	return e, nil
}

// entry reads the entry of a file; found is false where there is none.
func (s *Store) entry(ctx context.Context, file string) (e entry, found bool, err error) {
	var out *dynamodb.GetItemOutput
	_, err = s.client.service.Do(ctx, s.request("read", file, "dynamodb:GetItem"), func(ctx context.Context) (err error) {
		out, err = s.client.api.GetItem(ctx, &dynamodb.GetItemInput{
			TableName: &s.client.table, ConsistentRead: aws.Bool(true),
			Key: map[string]types.AttributeValue{attrTable: text(s.tablePath), attrFile: text(file)},
		})
		return err
	})
	if err != nil || len(out.Item) == 0 {
		return entry{}, false, err
	}
	e, err = s.entryOf(out.Item)
	return e, err == nil, err
}

// latest reads the entry of the newest file that is no past one's.
func (s *Store) latest(ctx context.Context) (e entry, found bool, err error) {
	var out *dynamodb.QueryOutput
	_, err = s.client.service.Do(ctx, s.request("read", "the newest version", "dynamodb:Query"), func(ctx context.Context) (err error) {
		out, err = s.client.api.Query(ctx, &dynamodb.QueryInput{
			TableName: &s.client.table, ConsistentRead: aws.Bool(true), ScanIndexForward: aws.Bool(false), Limit: aws.Int32(1),
			KeyConditionExpression:    aws.String(attrTable + " = :t"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":t": text(s.tablePath)},
		})
		return err
	})
	if err != nil || len(out.Items) == 0 {
		return entry{}, false, err
	}
	e, err = s.entryOf(out.Items[0])
	return e, err == nil, err
}

// claim puts the entry of a commit if there is none. The error wraps ErrExist
// where another writer has the version.
func (s *Store) claim(ctx context.Context, e entry) error {
	r := s.request("put", e.file, "dynamodb:PutItem")
	err := s.client.service.Settle(ctx, r, true, func(ctx context.Context) error {
		_, err := s.client.api.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: &s.client.table, Item: s.item(e),
			ConditionExpression: aws.String("attribute_not_exists(" + attrFile + ")"),
		})
		return err
	}, func(ctx context.Context) (attempt.Owner, error) {
		there, found, err := s.entry(ctx, e.file)
		switch {
		case err != nil || !found:
			return attempt.Nobody, err
		case there.temp == e.temp:
			return attempt.Own, nil
		}
		return attempt.Other, nil
	})
	return err
}

// finish makes an entry complete, if it is still the same one.
func (s *Store) finish(ctx context.Context, e entry) error {
	e.complete = true
	item := s.item(e)
	item[attrExpire] = &types.AttributeValueMemberN{Value: strconv.FormatInt(s.now().Add(keptFor).Unix(), 10)}
	_, err := s.client.service.Do(ctx, s.request("put", e.file, "dynamodb:PutItem"), func(ctx context.Context) error {
		_, err := s.client.api.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: &s.client.table, Item: item,
			ConditionExpression:       aws.String("attribute_not_exists(" + attrFile + ") OR " + attrTemp + " = :t"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":t": text(e.temp)},
		})
		var other *types.ConditionalCheckFailedException
		if errors.As(err, &other) {
			return nil // the table was made anew meanwhile
		}
		return err
	})
	return err
}

func (s *Store) item(e entry) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		attrTable: text(s.tablePath), attrFile: text(e.file), attrTemp: text(e.temp), attrComplete: text(strconv.FormatBool(e.complete)),
	}
}

// recover finishes a commit that its writer left, or is about to finish itself.
func (s *Store) recover(ctx context.Context, e entry) error {
	key, temp := logFolder+e.file, logFolder+e.temp
	if _, ok := fileOf(key); !ok || objstore.CheckKey(temp) != nil {
		return fmt.Errorf("DynamoDB table %s: the entry %q of %s names %q, which is no file of a log: remove the item", s.client.table, e.file, s.tablePath, e.temp)
	}
	_, err := s.Store.Head(ctx, key)
	if errors.Is(err, objstore.ErrNotExist) {
		var data []byte
		data, err = s.Store.Get(ctx, temp)
		if err == nil {
			err = s.Store.PutIfAbsent(ctx, key, data)
		}
		if errors.Is(err, objstore.ErrNotExist) { // its writer may just have finished it
			if _, again := s.Store.Head(ctx, key); again == nil {
				err = nil
			}
		}
		switch {
		case errors.Is(err, objstore.ErrExist):
			err = nil
		case errors.Is(err, objstore.ErrNotExist):
			return fmt.Errorf("recover %s in %s: DynamoDB table %s says that it is %s, which is not there: if the table was made anew at this place, remove the items of %s; else restore the file: %w",
				e.file, s.Store, s.client.table, e.temp, s.tablePath, err)
		}
	}
	if err != nil {
		return fmt.Errorf("recover %s, which another writer left: %w", e.file, err)
	}
	return s.finish(ctx, e)
}
