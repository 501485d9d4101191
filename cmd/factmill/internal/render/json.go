package render

import (
	"encoding/json"
	"fmt"
	"io"
)

// JSON prints a reply exactly as it came, with a line end.
func JSON(w io.Writer, reply json.RawMessage) error {
	if _, err := w.Write(append(append(make([]byte, 0, len(reply)+1), reply...), '\n')); err != nil {
		return fmt.Errorf("write the reply: %w", err)
	}
	return nil
}

// Value prints v as one line of JSON, without the HTML escapes that nobody asked for.
func Value(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}
