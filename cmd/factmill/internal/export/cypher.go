package export

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const cypherHead = `// One statement a line. Make these first, so that the MATCHes are look-ups:
//   CREATE CONSTRAINT IF NOT EXISTS FOR (n:Entity) REQUIRE n.id IS UNIQUE;   (likewise Document, Chunk, Candidate)
`

func (g *collected) cypher(w io.Writer) error {
	p := &lines{w: w}
	p.f("%s", cypherHead)
	err := g.nodes.each(func(n Node) error {
		p.f("MERGE (n:%s {id: %s})", cypherName(n.Base), cypherString(n.ID))
		var sets []string
		for _, l := range n.Labels {
			if l != n.Base {
				sets = append(sets, "n:"+cypherName(l))
			}
		}
		p.sets("n", sets, n.Props)
		return p.err
	})
	if err != nil {
		return err
	}
	err = g.edges.each(func(e Edge) error {
		p.f("MATCH (a:%s {id: %s}), (b:%s {id: %s}) MERGE (a)-[r:%s {id: %s}]->(b)", cypherName(e.SourceBase), cypherString(e.Source),
			cypherName(e.TargetBase), cypherString(e.Target), cypherName(e.Type), cypherString(e.ID))
		p.sets("r", nil, e.Props)
		return p.err
	})
	if err != nil {
		return err
	}
	return p.err
}

func (p *lines) sets(variable string, sets []string, props map[string]any) {
	for _, name := range sortedKeys(props) {
		sets = append(sets, variable+"."+cypherName(name)+" = "+cypherValue(props[name]))
	}
	if len(sets) > 0 {
		p.f(" SET %s", strings.Join(sets, ", "))
	}
	p.f(";\n")
}

// cypherName writes a label, type or property name in back ticks.
func cypherName(s string) string {
	s = strings.ReplaceAll(s, "`", "``")
	// Some readers turn \u0060 into a back tick before they parse: a backslash in a name is not worth that.
	return "`" + strings.ReplaceAll(s, `\`, "_") + "`"
}

func cypherValue(v any) string {
	switch x := v.(type) {
	case bool:
		return strconv.FormatBool(x)
	case json.Number:
		return x.String()
	case int64:
		return strconv.FormatInt(x, 10)
	case float64:
		return strconv.FormatFloat(x, 'g', -1, 64)
	}
	return cypherString(text(v))
}

// cypherString writes a text literal. A backslash never stands before a u or U of the text, in two literals where it must:
// some readers replace \uXXXX before they parse, whatever stands before the backslash.
func cypherString(s string) string {
	var b strings.Builder
	b.WriteByte('\'')
	slash := false
	for _, r := range strings.ToValidUTF8(s, "\ufffd") {
		if slash && (r == 'u' || r == 'U') {
			b.WriteString("' + '")
		}
		slash = r == '\\'
		switch {
		case r == '\\':
			b.WriteString(`\\`)
		case r == '\'':
			b.WriteString(`\'`)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x20, r == 0x7f, r == 0x2028, r == 0x2029, r == 0x85:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('\'')
	return b.String()
}
