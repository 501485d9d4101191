package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// The limits of a schema file.
const (
	maxBytes   = 1 << 20
	maxDepth   = 32    // of nesting
	maxAliased = 10000 // nodes that aliases stand for
)

type nodeKind uint8

const (
	nullNode nodeKind = iota
	textNode
	listNode
	mapNode
)

// node is a value of a YAML or JSON file. Scalars keep their text, so that 2.10 stays 2.10.
type node struct {
	kind   nodeKind
	text   string
	quoted bool // a string by its spelling, not a number or true
	items  []*node
	fields []field // in the order of the file; may repeat a key
}

type field struct {
	key   string
	value *node
}

func (n *node) describe() string {
	switch n.kind {
	case nullNode:
		return "nothing"
	case textNode:
		return quote(n.text)
	case listNode:
		return "a list"
	}
	return "a map"
}

var errTrailing = errors.New("more than one document")

// read turns a file into a tree. Names that end in .json are read as JSON alone; other data that starts with { is tried
// as JSON first, because YAML reads some JSON escapes wrongly.
func read(data []byte, name string) (*node, error) {
	if len(data) > maxBytes {
		return nil, fmt.Errorf("the file has %d bytes, the limit is %d", len(data), maxBytes)
	}
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if !utf8.Valid(data) {
		return nil, errors.New("the file is not UTF-8")
	}
	if start := bytes.TrimSpace(data); len(start) == 0 {
		return nil, errors.New("the file is empty")
	} else if isJSON := strings.EqualFold(path.Ext(name), ".json"); isJSON || start[0] == '{' {
		tree, err := readJSON(data)
		var syntax *json.SyntaxError
		if err == nil || isJSON || !errors.As(err, &syntax) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
			return tree, err
		}
	}
	return readYAML(data)
}

func readJSON(data []byte) (*node, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	tree, err := jsonValue(dec, 0)
	if err != nil {
		return nil, fmt.Errorf("JSON, byte %d: %w", dec.InputOffset(), err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("JSON, byte %d: %w", dec.InputOffset(), errTrailing)
	}
	return tree, nil
}

func jsonValue(dec *json.Decoder, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	token, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Delim:
		n := &node{kind: mapNode}
		if token == '[' {
			n.kind = listNode
		}
		for dec.More() {
			key := ""
			if n.kind == mapNode {
				word, err := dec.Token()
				if err != nil {
					return nil, err
				}
				key, _ = word.(string) // the decoder lets nothing else stand here
			}
			value, err := jsonValue(dec, depth+1)
			if err != nil {
				return nil, err
			}
			if n.kind == mapNode {
				n.fields = append(n.fields, field{key, value})
			} else {
				n.items = append(n.items, value)
			}
		}
		_, err := dec.Token()
		return n, err
	case json.Number:
		return &node{kind: textNode, text: token.String()}, nil
	case string:
		return &node{kind: textNode, text: token, quoted: true}, nil
	case bool:
		return &node{kind: textNode, text: fmt.Sprint(token)}, nil
	}
	return &node{}, nil
}

// readYAML refuses what the parser cannot take instead of passing its panics on.
func readYAML(data []byte) (tree *node, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			tree, err = nil, fmt.Errorf("YAML: %v", cause)
		}
	}()
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, second yaml.Node
	if err := dec.Decode(&doc); err != nil {
		if err == io.EOF {
			return nil, errors.New("the file is empty")
		}
		return nil, fmt.Errorf("YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := dec.Decode(&second); err != io.EOF {
		return nil, fmt.Errorf("YAML: %w", errTrailing)
	}
	aliased := 0
	return yamlValue(&doc, 0, false, &aliased)
}

func yamlValue(y *yaml.Node, depth int, inAlias bool, aliased *int) (*node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("YAML: line %d: nested deeper than %d", y.Line, maxDepth)
	}
	if inAlias {
		if *aliased++; *aliased > maxAliased {
			return nil, fmt.Errorf("YAML: line %d: aliases stand for more than %d values", y.Line, maxAliased)
		}
	}
	switch y.Kind {
	case yaml.DocumentNode:
		if len(y.Content) == 0 {
			return &node{}, nil
		}
		return yamlValue(y.Content[0], depth, inAlias, aliased)
	case yaml.AliasNode:
		return yamlValue(y.Alias, depth+1, true, aliased)
	case yaml.SequenceNode:
		n := &node{kind: listNode}
		for _, item := range y.Content {
			value, err := yamlValue(item, depth+1, inAlias, aliased)
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, value)
		}
		return n, nil
	case yaml.MappingNode:
		n := &node{kind: mapNode}
		for i := 0; i+1 < len(y.Content); i += 2 {
			key := y.Content[i]
			if key.Kind == yaml.AliasNode {
				key = key.Alias
			}
			if key.Kind != yaml.ScalarNode {
				return nil, fmt.Errorf("YAML: line %d: a key must be text", y.Content[i].Line)
			}
			value, err := yamlValue(y.Content[i+1], depth+1, inAlias, aliased)
			if err != nil {
				return nil, err
			}
			n.fields = append(n.fields, field{key.Value, value})
		}
		return n, nil
	case yaml.ScalarNode:
		tag := y.ShortTag()
		if tag == "!!null" {
			return &node{}, nil
		}
		return &node{kind: textNode, text: y.Value, quoted: tag == "!!str"}, nil
	}
	return &node{}, nil
}
