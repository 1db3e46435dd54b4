package kafka

import (
	"errors"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/gscd-io/gscd/ingest/change"
)

func TestCompacted(t *testing.T) {
	b := newBroker(t, 1, kfake.SeedTopics(1, "log"))
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.ListenAddrs()...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	both := "compact,delete"
	if _, err := kadm.NewClient(cl).CreateTopics(ctx(t), 1, 1, map[string]*string{"cleanup.policy": &both}, "latest"); err != nil {
		t.Fatal(err)
	}
	c := b.consumer(func(o *Options) { o.Topics = []string{"t", "latest", "log"} })
	got, err := c.Compacted(ctx(t))
	if err != nil || !slices.Equal(got, []string{"latest"}) {
		t.Errorf("compacted %v, %v, want latest", got, err)
	}
	if got, err = b.consumer().Compacted(ctx(t)); err != nil || got != nil {
		t.Errorf("compacted %v, %v, want none", got, err)
	}

	b.ControlKey(int16(kmsg.DescribeConfigs), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.KeepControl()
		r := req.(*kmsg.DescribeConfigsRequest)
		resp := r.ResponseKind().(*kmsg.DescribeConfigsResponse)
		for _, asked := range r.Resources {
			a := kmsg.NewDescribeConfigsResponseResource()
			a.ResourceType, a.ResourceName, a.ErrorCode = asked.ResourceType, asked.ResourceName, kerr.TopicAuthorizationFailed.Code
			resp.Resources = append(resp.Resources, a)
		}
		return resp, nil, true
	})
	if _, err := c.Compacted(ctx(t)); !errors.Is(err, ErrNoConfigs) {
		t.Errorf("without the right: %v, want ErrNoConfigs", err)
	}
}

func TestOffsetsAt(t *testing.T) {
	b := newBroker(t, 3)
	b.produce(0, 0, 10) // broker timestamps 1000 to 1009
	b.produce(1, 100, 5)
	c := b.consumer()
	for at, want := range map[int64][3]int64{
		0:    {0, 0, 0},
		1004: {4, 0, 0},
		1102: {10, 2, 0},
		9999: {10, 5, 0},
	} {
		got, err := c.OffsetsAt(ctx(t), time.UnixMilli(at))
		wanted := map[change.PartitionID]int64{{Topic: "t", Partition: 0}: want[0], {Topic: "t", Partition: 1}: want[1], {Topic: "t", Partition: 2}: want[2]}
		if err != nil || !reflect.DeepEqual(got, wanted) {
			t.Errorf("at %d: %v, %v, want %v", at, got, err, want)
		}
	}
}
