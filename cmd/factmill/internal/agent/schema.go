package agent

import "encoding/json"

// part of an input schema.
type part func(s map[string]any, props map[string]any)

// object is the JSON schema of a tool's arguments.
func object(parts ...part) json.RawMessage {
	s, props := map[string]any{"type": "object", "additionalProperties": false}, map[string]any{}
	for _, p := range parts {
		p(s, props)
	}
	s["properties"] = props
	b, err := json.Marshal(s)
	if err != nil { // maps of texts and numbers
		return json.RawMessage(`{"type":"object"}`)
	}
	return b
}

func required(names ...string) part { return func(s, _ map[string]any) { s["required"] = names } }

func field(name, kind, description string) part {
	return func(_, props map[string]any) { props[name] = map[string]any{"type": kind, "description": description} }
}

func number(name, description string, byDefault, most int) part {
	return func(_, props map[string]any) {
		props[name] = map[string]any{"type": "integer", "description": description, "minimum": 1, "maximum": most, "default": byDefault}
	}
}

func enum(name, description string, values ...string) part {
	return func(_, props map[string]any) {
		props[name] = map[string]any{"type": "string", "description": description, "enum": values}
	}
}

func list(name, description string) part {
	return func(_, props map[string]any) {
		props[name] = map[string]any{"type": "array", "description": description, "items": map[string]any{"type": "string"}, "maxItems": maxList}
	}
}

func enums(name, description string, values ...string) part {
	return func(_, props map[string]any) {
		props[name] = map[string]any{"type": "array", "description": description, "items": map[string]any{"type": "string", "enum": values}}
	}
}

func cursorField() part {
	return field("cursor", "string", "goes on behind a result that gave it; the other arguments must be the same")
}
