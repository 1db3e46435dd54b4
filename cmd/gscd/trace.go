package main

import (
	"context"
	"fmt"

	"github.com/gscd-io/gscd/config"
	"github.com/gscd-io/gscd/tracing"
)

// trace begins to trace, where that is configured. close sends what is left.
func (a *app) trace(ctx context.Context, cfg *config.Config) (close func(), err error) {
	t := cfg.Tracing
	if t == nil {
		return func() {}, nil
	}
	a.tracer, err = tracing.New(ctx, tracing.Options{
		Endpoint: t.Endpoint, HeadersFile: t.HeadersFile, CAFile: t.CAFile, Sample: float64(t.Sample),
		Version: fmt.Sprint(buildVersion()[0].Value), Log: a.log,
	})
	if err != nil {
		return nil, usagef("%w", err)
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), lastWords)
		defer cancel()
		a.tracer.Close(ctx)
	}, nil
}
