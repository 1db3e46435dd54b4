package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gscd-io/gscd/ingest/change"
)

// cleanupPolicy is the setting of a topic that says what becomes of old records.
const cleanupPolicy = "cleanup.policy"

// ErrNoConfigs: the brokers don't tell us the settings of a topic.
var ErrNoConfigs = errors.New("the right DESCRIBE_CONFIGS on the topic is missing")

// Compacted gives the topics whose old records give way to newer ones of the
// same key. The error wraps ErrNoConfigs where the brokers refuse to tell; the
// topics that they told of are given beside it.
func (c *Consumer) Compacted(ctx context.Context) (topics []string, err error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	for _, t := range c.opts.Topics {
		r := kmsg.NewDescribeConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeTopic, t
		r.ConfigNames = []string{cleanupPolicy}
		req.Resources = append(req.Resources, r)
	}
	var errs []error
	for _, shard := range c.cluster.client.RequestSharded(ctx, req) {
		if shard.Err != nil {
			errs = append(errs, fmt.Errorf("ask for the settings of the topics: %w", shard.Err))
			continue
		}
		for _, r := range shard.Resp.(*kmsg.DescribeConfigsResponse).Resources {
			switch err := kerr.ErrorForCode(r.ErrorCode); {
			case errors.Is(err, kerr.TopicAuthorizationFailed), errors.Is(err, kerr.ClusterAuthorizationFailed):
				errs = append(errs, fmt.Errorf("topic %s: %w: %w", r.ResourceName, ErrNoConfigs, err))
			case err != nil:
				errs = append(errs, fmt.Errorf("topic %s: ask for its settings: %w", r.ResourceName, err))
			}
			for _, config := range r.Configs {
				if config.Name == cleanupPolicy && config.Value != nil && strings.Contains(*config.Value, "compact") {
					topics = append(topics, r.ResourceName)
				}
			}
		}
	}
	slices.Sort(topics)
	return topics, errors.Join(errs...)
}

// OffsetsAt gives, for each partition of the topics, the offset of the first
// record whose broker timestamp is at or after t; the end where there is none.
func (c *Consumer) OffsetsAt(ctx context.Context, t time.Time) (map[change.PartitionID]int64, error) {
	meta, err := c.metadata(ctx)
	if err != nil {
		return nil, err
	}
	// The end is asked for first: a record that comes in between is then read, not left out.
	ends, err := c.listOffsets(ctx, meta, atEnd, uncommitted)
	if err != nil {
		return nil, err
	}
	found, err := c.listOffsets(ctx, meta, max(0, t.UnixMilli()), uncommitted)
	if err != nil {
		return nil, err
	}
	for id, end := range ends {
		if _, ok := found[id]; !ok {
			found[id] = end
		}
	}
	return found, nil
}

// SettledEnds gives, for each partition of the topics, the last stable offset:
// below it every transaction was committed or aborted, so reading comes that far.
func (c *Consumer) SettledEnds(ctx context.Context) (map[change.PartitionID]int64, error) {
	meta, err := c.metadata(ctx)
	if err != nil {
		return nil, err
	}
	return c.listOffsets(ctx, meta, atEnd, committed)
}

// metadata asks for the table's own topics.
func (c *Consumer) metadata(ctx context.Context) (metadata, error) {
	meta, err := loadMetadata(ctx, c.cluster.client, c.opts.Topics)
	if err != nil {
		return meta, err
	}
	return meta.of(c.opts.Topics)
}

// listOffsets asks for offsets of which all must be answered.
func (c *Consumer) listOffsets(ctx context.Context, m metadata, place int64, isolation int8) (map[change.PartitionID]int64, error) {
	got := listOffsets(ctx, c.cluster.client, m, place, isolation)
	return got.at, got.fault(c.opts.Topics)
}

// Retryable tells whether asking again may help after an error of this package:
// see Classify. A login that was accepted once and no longer is may have been
// rotated, so it is tried again.
func (c *Consumer) Retryable(err error) bool {
	retry, _ := Classify(err)
	return retry || c.cluster.login.passes() && isLogin(err)
}
