//go:build !linux && !darwin

package upsert

import "errors"

func mapBytes(int) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmapBytes([]byte) {}
