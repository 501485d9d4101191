package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// An interruption, whenever it comes, hides nothing else that went wrong.
func TestAnInterruptionHidesNothing(t *testing.T) {
	closing := errors.New("up.json cannot be removed")
	start := fmt.Errorf("start: %w", context.Canceled)
	for _, err := range []error{errors.Join(start, closing), fmt.Errorf("up: %w", errors.Join(closing, start)), errors.Join(errors.Join(start), errors.Join(context.Canceled, closing))} {
		require.EqualError(t, others(err), closing.Error())
	}
	require.NoError(t, others(start))
	require.NoError(t, others(errors.Join(start, context.Canceled)))
	require.Equal(t, closing, others(closing))
}

func TestAtStop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	start := fmt.Errorf("start: %w", context.Canceled)
	require.Equal(t, start, atStop(ctx, start), "somebody else cancelled")
	cancel()
	require.NoError(t, atStop(ctx, start))
	require.NoError(t, atStop(ctx, nil))
	require.EqualError(t, atStop(ctx, errors.Join(start, errors.New("disk full"))), "disk full")
}
