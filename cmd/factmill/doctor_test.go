package main

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/bus"
	"github.com/factmill/factmill/services/committer"
)

// What keeps the doctor out is a finding too.
func TestUnopened(t *testing.T) {
	for code, err := range map[string]error{
		"cannot_open": fmt.Errorf("committer: %w", committer.ErrNewerFormat), "nats_refused": bus.ErrRefused, "nats_unreachable": bus.ErrUnreachable,
		"data_in_use": &target.InUse{Dir: "/x", By: &target.Up{PID: 7, Command: "up", URL: "nats://127.0.0.1:4222"}},
	} {
		f := (&cli{}).unopened(err)
		require.NotNil(t, f, code)
		require.Equal(t, code, f.Code)
		require.NotEmpty(t, f.Why)
		require.NotEmpty(t, f.Mend)
	}
	require.Equal(t, "factmill doctor --nats nats://127.0.0.1:4222", (&cli{}).unopened(&target.InUse{Dir: "/x", By: &target.Up{URL: "nats://127.0.0.1:4222"}}).Mend)
	require.Equal(t, "factmill doctor --nats tls://127.0.0.1:4222 --tls-ca /d/cert.pem --token-file FILE", (&cli{}).unopened(&target.InUse{
		Dir: "/x", By: &target.Up{URL: "tls://127.0.0.1:4222", CA: "/d/cert.pem", Token: "sesame"},
	}).Mend)
	require.Nil(t, (&cli{}).unopened(&bus.BadOption{Key: "nats.nkey"}), "wrong usage, which no backup mends")
	require.Nil(t, (&cli{}).unopened(target.ErrBothTargets))
	require.Nil(t, (&cli{}).unopened(fmt.Errorf("x: %w", context.Canceled)))
	require.NotNil(t, (&cli{}).unopened(errors.New("the store is damaged")))
}
