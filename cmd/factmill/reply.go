package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/pkg/api"
)

// reply prints a reply: exactly with --json, else as show does.
func reply[T any](c *cli, raw json.RawMessage, show func(w io.Writer, reply T) error) error {
	if c.json {
		return render.JSON(c.out, raw)
	}
	v, err := decode[T](raw)
	if err != nil {
		return err
	}
	return show(c.out, v)
}

// replyAnd is reply, and then looks at what came back.
func replyAnd[T any](c *cli, raw json.RawMessage, show func(w io.Writer, reply T) error, look func(reply T)) error {
	v, err := decode[T](raw)
	if err != nil {
		return err
	}
	if err := reply(c, raw, show); err != nil {
		return err
	}
	look(v)
	return nil
}

// decode reads a reply; fields that a newer service added are ignored.
func decode[T any](raw json.RawMessage) (T, error) {
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, fmt.Errorf("the reply is not what this version understands: %w", err)
	}
	return v, nil
}

// refusal is the service's refusal in err; nil when it has none.
func refusal(err error) *api.Error {
	var e *api.Error
	if errors.As(err, &e) {
		return e
	}
	return nil
}

// extended adds a field to a reply, which is a JSON object, and leaves the rest as it came.
func extended(raw json.RawMessage, name string, value any) (json.RawMessage, error) {
	b, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	head, ok := bytes.CutSuffix(bytes.TrimSpace(raw), []byte("}"))
	if !ok {
		return nil, fmt.Errorf("%s: the reply is no object", name)
	}
	comma := ","
	if bytes.HasSuffix(bytes.TrimSpace(head), []byte("{")) {
		comma = ""
	}
	return slices.Concat(head, []byte(fmt.Sprintf("%s%q:", comma, name)), b, []byte("}")), nil
}
