package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/gscd-io/gscd/delta"
	"github.com/gscd-io/gscd/delta/objstore"
	"github.com/gscd-io/gscd/delta/objstore/local"
)

const outsideFlag = "allow-outside"

// addOutsideFlag gives a command that reads the flag for tables whose log leads elsewhere.
func (a *app) addOutsideFlag(c *cobra.Command) {
	c.Flags().StringArrayVar(&a.flags.outside, outsideFlag, nil,
		"read files that the log names below this `address`, outside of the table, too (shallow clones); may be given again")
}

// elsewhere is the store of a table whose log may lead to other places as well.
type elsewhere struct {
	objstore.Store
	places []outsidePlace
}

var _ objstore.Elsewhere = (*elsewhere)(nil)

// outsidePlace is an address that was allowed, and its store.
type outsidePlace struct {
	prefix string
	store  objstore.Store
}

// Absolute implements objstore.Elsewhere for the places that were allowed.
func (e *elsewhere) Absolute(path string) (objstore.Store, string, error) {
	plain := path
	if rest, ok := strings.CutPrefix(path, "s3a://"); ok {
		plain = "s3://" + rest
	}
	for _, p := range e.places {
		if key, ok := strings.CutPrefix(plain, p.prefix); ok && key != "" {
			return p.store, key, nil
		}
	}
	return nil, "", fmt.Errorf("%w: %s", local.ErrOutside, path)
}

// openToRead opens the storage of a table that is only read: with --allow-outside its log
// may lead to other places.
func (a *app) openToRead(ctx context.Context, location string) (objstore.Store, error) {
	store, err := a.openStore(ctx, location)
	if err != nil || len(a.flags.outside) == 0 {
		return store, err
	}
	e := &elsewhere{Store: store}
	for _, address := range a.flags.outside {
		place, err := a.openStore(ctx, address)
		if err != nil {
			return nil, usagef("--%s: %w", outsideFlag, err)
		}
		e.places = append(e.places, outsidePlace{plainAddress(address) + "/", place})
	}
	return e, nil
}

// outsideHint is what to do about an error of a command that could have been allowed to
// leave the table, "" where that would not help.
func outsideHint(ran *cobra.Command, err error) string {
	if ran == nil || ran.Flags().Lookup(outsideFlag) == nil || ran.Flags().NArg() > 0 {
		return ""
	}
	if !errors.Is(err, local.ErrOutside) && !errors.Is(err, delta.ErrAbsolutePath) {
		return ""
	}
	return "The table names files of another one, as a shallow clone does. --" + outsideFlag + " ADDRESS, with the folder of that one, lets them be read."
}
