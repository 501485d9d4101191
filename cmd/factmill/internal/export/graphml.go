package export

import (
	"encoding/xml"
	"fmt"
	"io"
	"strconv"
	"strings"
)

const graphMLHead = xml.Header + `<graphml xmlns="http://graphml.graphdrawing.org/xmlns" ` +
	`xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" ` +
	`xsi:schemaLocation="http://graphml.graphdrawing.org/xmlns http://graphml.graphdrawing.org/xmlns/1.0/graphml.xsd">` + "\n"

// esc escapes text for XML; characters that XML 1.0 cannot hold become U+FFFD.
func esc(s string) string {
	var b strings.Builder
	if err := xml.EscapeText(&b, []byte(s)); err != nil { // a strings.Builder takes everything
		return ""
	}
	return b.String()
}

// keyIDs numbers attributes: n0, n1, … and e0, e1, …
func keyIDs(prefix string, a attrs) map[string]string {
	out := map[string]string{}
	for i, name := range sortedKeys(a) {
		out[name] = prefix + strconv.Itoa(i)
	}
	return out
}

func (g *collected) graphML(w io.Writer) error {
	nodeKeys, edgeKeys := keyIDs("n", g.nodeAttrs), keyIDs("e", g.edgeAttrs)
	p := &lines{w: w}
	p.f("%s", graphMLHead)
	p.f("  <key id=\"labels\" for=\"node\" attr.name=\"labels\" attr.type=\"string\"/>\n")
	p.f("  <key id=\"label\" for=\"edge\" attr.name=\"label\" attr.type=\"string\"/>\n")
	for _, name := range sortedKeys(g.nodeAttrs) {
		p.f("  <key id=\"%s\" for=\"node\" attr.name=\"%s\" attr.type=\"%s\"/>\n", nodeKeys[name], esc(name), g.nodeAttrs[name])
	}
	for _, name := range sortedKeys(g.edgeAttrs) {
		p.f("  <key id=\"%s\" for=\"edge\" attr.name=\"%s\" attr.type=\"%s\"/>\n", edgeKeys[name], esc(name), g.edgeAttrs[name])
	}
	p.f("  <graph id=\"G\" edgedefault=\"directed\">\n")
	err := g.nodes.each(func(n Node) error {
		p.f("    <node id=\"%s\" labels=\"%s\">\n", esc(n.ID), esc(":"+strings.Join(n.Labels, ":")))
		p.f("      <data key=\"labels\">%s</data>\n", esc(":"+strings.Join(n.Labels, ":")))
		p.data(nodeKeys, n.Props)
		p.f("    </node>\n")
		return p.err
	})
	if err != nil {
		return err
	}
	err = g.edges.each(func(e Edge) error {
		p.f("    <edge id=\"%s\" source=\"%s\" target=\"%s\" label=\"%s\">\n", esc(e.ID), esc(e.Source), esc(e.Target), esc(e.Type))
		p.f("      <data key=\"label\">%s</data>\n", esc(e.Type))
		p.data(edgeKeys, e.Props)
		p.f("    </edge>\n")
		return p.err
	})
	if err != nil {
		return err
	}
	p.f("  </graph>\n</graphml>\n")
	return p.err
}

func (p *lines) data(keys map[string]string, props map[string]any) {
	for _, name := range sortedKeys(props) {
		if s := text(props[name]); s != "" {
			p.f("      <data key=\"%s\">%s</data>\n", keys[name], esc(s))
		}
	}
}

// lines remembers the first error of many writes.
type lines struct {
	w   io.Writer
	err error
}

func (p *lines) f(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}
