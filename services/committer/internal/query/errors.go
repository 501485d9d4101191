package query

import (
	"errors"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/services/committer/internal/store"
)

func badValue(format string, args ...any) *api.Error {
	return api.Errorf(400, "bad_value", format, args...)
}

// clip keeps a caller's own text short in a message.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// refusal turns what the store says into the reply that a caller gets; other errors stay as they are.
func refusal(graphName string, err error) error {
	var refused *api.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return refused
	case errors.Is(err, store.ErrNoGraph), errors.Is(err, store.ErrSequence):
		return api.Errorf(404, "sequence_unknown", "graph %s has not reached that sequence", clip(graphName))
	case errors.Is(err, store.ErrClosed), errors.Is(err, store.ErrBroken):
		return api.Errorf(503, "not_ready", "the store is being opened")
	}
	return err
}

// limited returns a limit within its bounds: byDefault for 0.
func limited(name string, n, byDefault, most int) (int, *api.Error) {
	if n == 0 {
		return byDefault, nil
	}
	if n < 0 || n > most {
		return 0, badValue("%s is %d: it must be between 1 and %d", name, n, most)
	}
	return n, nil
}
