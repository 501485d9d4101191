package export

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Formats that can be written.
var Formats = []string{"jsonl", "graphml", "csv", "cypher"}

// Known says whether f is one of Formats.
func Known(f string) bool {
	for _, x := range Formats {
		if x == f {
			return true
		}
	}
	return false
}

// Pages yields the rows of an export, page by page; it returns io.EOF after the last page.
type Pages func() ([]json.RawMessage, error)

// Writer writes one file, or for csv two.
type Writer struct {
	format     string
	output     string // "" or "-": stdout
	stdout     io.Writer
	candidates bool
}

// NewWriter checks format and output. stdout is where output "" or "-" goes.
func NewWriter(format, output string, stdout io.Writer, candidates bool) (*Writer, error) {
	if !Known(format) {
		return nil, fmt.Errorf("unknown format %q: it must be %s", format, strings.Join(Formats, ", "))
	}
	if output == "-" {
		output = ""
	}
	if format == "csv" && output == "" {
		return nil, errors.New("csv needs --output F: it writes F.nodes.csv and F.edges.csv")
	}
	return &Writer{format: format, output: output, stdout: stdout, candidates: candidates}, nil
}

// Write reads all pages and returns the names of the files it wrote. Files appear whole or not at all.
func (w *Writer) Write(pages Pages) (files []string, err error) {
	if w.format == "jsonl" {
		return w.files(map[string]func(io.Writer) error{w.output: func(out io.Writer) error { return jsonl(out, pages) }})
	}
	g, err := w.collect(pages)
	if g != nil {
		defer func() { err = errors.Join(err, g.close()) }()
	}
	if err != nil {
		return nil, err
	}
	switch w.format {
	case "graphml":
		return w.files(map[string]func(io.Writer) error{w.output: g.graphML})
	case "cypher":
		return w.files(map[string]func(io.Writer) error{w.output: g.cypher})
	default:
		base := strings.TrimSuffix(w.output, ".csv")
		return w.files(map[string]func(io.Writer) error{base + ".nodes.csv": g.csvNodes, base + ".edges.csv": g.csvEdges})
	}
}

func jsonl(out io.Writer, pages Pages) error {
	for {
		rows, err := pages()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, r := range rows {
			if _, err := out.Write(r); err != nil {
				return err
			}
			if _, err := io.WriteString(out, "\n"); err != nil {
				return err
			}
		}
	}
}

// collected is everything between the rows and a graph format.
type collected struct {
	nodes     *spool[Node]
	edges     *spool[Edge]
	nodeAttrs attrs
	edgeAttrs attrs
}

func (g *collected) close() error {
	var err error
	if g.nodes != nil {
		err = g.nodes.close()
	}
	if g.edges != nil {
		err = errors.Join(err, g.edges.close())
	}
	return err
}

// collect returns what it has opened even with an error, to be closed.
func (w *Writer) collect(pages Pages) (*collected, error) {
	g := &collected{nodeAttrs: attrs{}, edgeAttrs: attrs{}}
	var err error
	if g.nodes, err = newSpool[Node](); err != nil {
		return g, err
	}
	if g.edges, err = newSpool[Edge](); err != nil {
		return g, err
	}
	c := &converter{
		candidates: w.candidates,
		node:       func(n Node) error { g.nodeAttrs.learn(n.Props); return g.nodes.add(n) },
		edge:       func(e Edge) error { g.edgeAttrs.learn(e.Props); return g.edges.add(e) },
	}
	for {
		rows, err := pages()
		if errors.Is(err, io.EOF) {
			return g, nil
		}
		if err != nil {
			return g, err
		}
		for _, r := range rows {
			if err := c.row(r); err != nil {
				return g, err
			}
		}
	}
}

// files writes each file beside its final name and renames all of them when every one is whole.
func (w *Writer) files(parts map[string]func(io.Writer) error) (done []string, err error) {
	temps := map[string]string{}
	defer func() {
		for _, t := range temps {
			_ = os.Remove(t) // only those that were not renamed are left
		}
	}()
	for _, name := range sortedKeys(parts) {
		if name == "" {
			b := bufio.NewWriterSize(w.stdout, 1<<16)
			if err := errors.Join(parts[name](b), b.Flush()); err != nil {
				return nil, fmt.Errorf("export to the standard output: %w", err)
			}
			continue
		}
		t, err := writeTemp(name, parts[name])
		if t != "" {
			temps[name] = t
		}
		if err != nil {
			return nil, fmt.Errorf("export to %s: %w", name, err)
		}
	}
	for _, name := range sortedKeys(temps) {
		if err := os.Rename(temps[name], name); err != nil {
			return done, fmt.Errorf("export to %s: %w", name, err)
		}
		delete(temps, name)
		done = append(done, name)
	}
	return done, nil
}

// writeTemp gives the file the mode that a new file would have.
func writeTemp(name string, write func(io.Writer) error) (string, error) {
	f, err := os.OpenFile(filepath.Join(filepath.Dir(name), fmt.Sprintf(".%s.%d.part", filepath.Base(name), os.Getpid())),
		os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o666)
	if err != nil {
		return "", err
	}
	b := bufio.NewWriterSize(f, 1<<16)
	err = write(b)
	return f.Name(), errors.Join(err, b.Flush(), f.Close())
}
