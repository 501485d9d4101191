package main

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/factmill/factmill/cmd/factmill/internal/render"
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

// decode reads a reply; fields that a newer service added are ignored.
func decode[T any](raw json.RawMessage) (T, error) {
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		return v, fmt.Errorf("the reply is not what this version understands: %w", err)
	}
	return v, nil
}
