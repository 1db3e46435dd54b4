package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/gscd-io/gscd/bench/broker"
	"github.com/gscd-io/gscd/bench/scenario"
)

// The kinds of children.
const (
	ScenarioChild = "scenario"
	BrokerChild   = "broker"
)

// patience is how long a child that was told to end is waited for.
const patience = 20 * time.Second

// child is a process of this program that reads JSON on its standard input and answers on
// its standard output.
type child struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	answer *json.Decoder
	errors bytes.Buffer
}

// start makes a child and hands it what it is to do.
func start(ctx context.Context, command func(ctx context.Context, kind string) *exec.Cmd, kind string, todo any) (_ *child, err error) {
	c := &child{cmd: command(ctx, kind)}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.cmd.Stderr = &c.errors
	c.cmd.WaitDelay = patience
	// The end of its input is the sign to clean up and go.
	c.cmd.Cancel = func() error { return c.stdin.Close() }
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the %s in a process of its own: %w", kind, err)
	}
	c.answer = json.NewDecoder(stdout)
	if err := c.tell(todo); err != nil {
		return nil, errors.Join(err, c.end())
	}
	return c, nil
}

func (c *child) tell(what any) error { return json.NewEncoder(c.stdin).Encode(what) }

// hear waits for the next answer. Where there is none the error says why the child ended.
func (c *child) hear(into any) error {
	if err := c.answer.Decode(into); err != nil {
		if ended := c.end(); ended != nil {
			return ended
		}
		return fmt.Errorf("a process of the benchmark said nothing: %w", err)
	}
	return nil
}

// end tells the child to go and waits until it has.
func (c *child) end() error {
	c.stdin.Close()
	err := c.cmd.Wait()
	if err != nil && c.errors.Len() > 0 {
		return errors.New(string(bytes.TrimSpace(c.errors.Bytes())))
	}
	return err
}

// perform runs one phase of a scenario in a process of its own.
func (o *Options) perform(ctx context.Context, s scenario.Spec) (*scenario.Result, error) {
	c, err := start(ctx, o.Command, ScenarioChild, s)
	if err != nil {
		return nil, err
	}
	var r *scenario.Result
	err = c.hear(&r)
	if err == nil {
		err = c.end()
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, fmt.Errorf("%s (%s): %w", s.Name, s.Phase, err)
	}
	return r, nil
}

// feed is what a broker's process says of its topic.
type feed struct {
	Brokers []string `json:"brokers"`
	Bytes   int64    `json:"bytes"`
}

// ServeScenario is a child of kind ScenarioChild: it reads a Spec, does its phase, and
// writes the Result.
func ServeScenario(ctx context.Context, in io.Reader, out io.Writer, env scenario.Env) error {
	var s scenario.Spec
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	decoder := json.NewDecoder(in)
	if err := decoder.Decode(&s); err != nil {
		return fmt.Errorf("read what to measure: %w", err)
	}
	go endWith(decoder, cancel)
	r, err := scenario.Do(ctx, &s, env)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(r)
}

// endWith cancels when the parent has gone.
func endWith(in *json.Decoder, cancel func()) {
	var rest any
	for in.Decode(&rest) == nil {
	}
	cancel()
}

// ServeBroker is a child of kind BrokerChild: it reads broker.Options, makes the topic, and
// says where it is: filled, or, where the workload has a rate, when it begins to be. It
// ends with its input.
func ServeBroker(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	var o broker.Options
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	decoder := json.NewDecoder(in)
	if err := decoder.Decode(&o); err != nil {
		return fmt.Errorf("read what to produce: %w", err)
	}
	f, err := broker.Open(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	go endWith(decoder, cancel)
	if o.Params.Rate == 0 {
		if err := f.Fill(ctx); err != nil {
			return err
		}
	}
	if err := json.NewEncoder(out).Encode(feed{f.Brokers, f.Bytes}); err != nil {
		return err
	}
	if o.Params.Rate > 0 {
		if err := f.Pace(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
	<-ctx.Done()
	return nil
}
