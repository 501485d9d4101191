package export

import (
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const nasty = "O'Neil \\u0027 <&> \"q\"; `x`,\nline\ttab \x1b 東京 🔭"

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return ""
	}
	return string(b)
}

// rows of every kind; the entity's name is nasty.
func rows() []json.RawMessage {
	var out []json.RawMessage
	for _, r := range []string{
		`{"kind":"document","id":"d1","key":"a.txt","title":"A","content_hash":"h","schema_fingerprint":"s","metadata":{"n":1},"scope":["x","y"]}`,
		`{"kind":"chunk","id":"c1","document":"a.txt","document_id":"d1","index":0,"start":0,"end":10,"content":"text","text":` + quoted(nasty) + `}`,
		`{"kind":"chunk","id":"c2","document":"a.txt","document_id":"d1","index":1,"start":10,"end":20,"content":"text","text":"two"}`,
		`{"kind":"entity","id":"e1","type":"Person","labels":["Agent","Person"],"name":` + quoted(nasty) + `,"merge_key":"k","mentions":[{"chunk":"c1","start":0,"end":3,"confidence":0.9},{"chunk":"c1","start":5,"end":8,"confidence":0.5}],"properties":{"born":{"value":9007199254740993},"height":{"value":1.5},"name":{"value":"alias"},"alive":{"value":true}}}`,
		`{"kind":"entity","id":"e2","type":"Company","labels":["Company"],"name":"Acme","merge_key":"acme","mentions":[],"properties":{"height":{"value":2}}}`,
		`{"kind":"relation","id":"r1","type":"WORKS_FOR","source":"e1","target":"e2","properties":{"since":1999},"evidence":[{"chunk":"c1","start":0,"end":10,"quote":"it's","confidence":0.8},{"chunk":"c2","start":0,"end":3,"quote":"x","confidence":0.6}]}`,
		`{"kind":"match","id":"m1","a":"e1","b":"e2","method":"fuzzy","score":0.97,"state":"active"}`,
		`{"kind":"candidate","key":"entity|x|y","document":"a.txt","candidate_kind":"entity","label":"X","text":"y","count":2,"confidence":0.4,"reasons":["undeclared_label"],"chunk":"c1","source_entity":"e1"}`,
		`{"kind":"decision","key":"entity|a|b","state":"approved"}`,
	} {
		out = append(out, json.RawMessage(r))
	}
	return out
}

// pages gives the rows in two pages.
func pages() Pages {
	all := rows()
	parts := [][]json.RawMessage{all[:4], all[4:]}
	return func() ([]json.RawMessage, error) {
		if len(parts) == 0 {
			return nil, io.EOF
		}
		p := parts[0]
		parts = parts[1:]
		return p, nil
	}
}

func write(t *testing.T, format string, candidates bool) string {
	t.Helper()
	var b strings.Builder
	w, err := NewWriter(format, "-", &b, candidates)
	require.NoError(t, err)
	files, err := w.Write(pages())
	require.NoError(t, err)
	require.Empty(t, files)
	return b.String()
}

func TestJSONLines(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(write(t, "jsonl", true), "\n"), "\n")
	require.Len(t, lines, 9)
	for i, r := range rows() {
		require.Equal(t, string(r), lines[i], "a row is written as it came")
	}
}

type graphML struct {
	Keys []struct {
		ID   string `xml:"id,attr"`
		For  string `xml:"for,attr"`
		Name string `xml:"attr.name,attr"`
		Type string `xml:"attr.type,attr"`
	} `xml:"key"`
	Graph struct {
		Nodes []gmlItem `xml:"node"`
		Edges []gmlItem `xml:"edge"`
	} `xml:"graph"`
}

type gmlItem struct {
	ID     string `xml:"id,attr"`
	Source string `xml:"source,attr"`
	Target string `xml:"target,attr"`
	Data   []struct {
		Key  string `xml:"key,attr"`
		Text string `xml:",chardata"`
	} `xml:"data"`
}

func TestGraphML(t *testing.T) {
	var g graphML
	d := xml.NewDecoder(strings.NewReader(write(t, "graphml", false)))
	d.Strict = true
	require.NoError(t, d.Decode(&g))
	types := map[string]string{}
	ids := map[string]string{}
	for _, k := range g.Keys {
		types[k.For+"."+k.Name], ids[k.ID] = k.Type, k.Name
	}
	require.Equal(t, "long", types["node.born"])
	require.Equal(t, "double", types["node.height"], "1.5 and 2 are both numbers")
	require.Equal(t, "boolean", types["node.alive"])
	require.Equal(t, "string", types["node.property_name"], "a property called name does not hide the entity's name")
	require.Equal(t, "long", types["edge.since"])

	nodes := map[string]map[string]string{}
	for _, n := range g.Graph.Nodes {
		nodes[n.ID] = map[string]string{}
		for _, x := range n.Data {
			nodes[n.ID][ids[x.Key]] = x.Text
		}
	}
	require.Len(t, nodes, 5, "candidates are left out")
	require.Equal(t, strings.ReplaceAll(nasty, "\x1b", "\ufffd"), nodes["e1"]["name"], "XML has no control characters")
	require.Equal(t, "9007199254740993", nodes["e1"]["born"])
	require.Equal(t, "alias", nodes["e1"]["property_name"])
	require.Equal(t, `{"n":1}`, nodes["d1"]["metadata"])
	require.Equal(t, `["x","y"]`, nodes["d1"]["scope"])
	var edges []string
	for _, e := range g.Graph.Edges {
		require.Contains(t, nodes, e.Source)
		require.Contains(t, nodes, e.Target)
		edges = append(edges, e.ID)
	}
	require.Equal(t, []string{"HAS_PART:d1:c1", "HAS_PART:d1:c2", "NEXT_CHUNK:c1:c2", "MENTIONED_IN:e1:c1", "r1", "m1"}, edges)
}

func TestCSVRoundTrip(t *testing.T) {
	dir := t.TempDir()
	w, err := NewWriter("csv", filepath.Join(dir, "g.csv"), nil, true)
	require.NoError(t, err)
	files, err := w.Write(pages())
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(dir, "g.edges.csv"), filepath.Join(dir, "g.nodes.csv")}, files)

	nodes := table(t, filepath.Join(dir, "g.nodes.csv"), ":ID")
	require.Len(t, nodes, 6)
	require.Equal(t, nasty, nodes["e1"]["name:string"])
	require.Equal(t, "Entity;Agent;Person", nodes["e1"][":LABEL"])
	require.Equal(t, "9007199254740993", nodes["e1"]["born:long"])
	require.Equal(t, "true", nodes["e1"]["alive:boolean"])
	require.Equal(t, nasty, nodes["c1"]["text:string"])
	require.Equal(t, "Candidate", nodes["candidate:a.txt:entity|x|y"][":LABEL"])

	edges := table(t, filepath.Join(dir, "g.edges.csv"), "id:string")
	require.Len(t, edges, 8)
	require.Equal(t, []string{"e1", "e2", "WORKS_FOR", "2", "0.8", "1999"}, []string{edges["r1"][":START_ID"], edges["r1"][":END_ID"],
		edges["r1"][":TYPE"], edges["r1"]["evidence_count:long"], edges["r1"]["confidence:double"], edges["r1"]["since:long"]})
	require.Equal(t, "EVIDENCED_BY", edges["EVIDENCED_BY:candidate:a.txt:entity|x|y:c1"][":TYPE"])
	require.Equal(t, "SOURCE", edges["SOURCE:candidate:a.txt:entity|x|y:e1"][":TYPE"])
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 2, "no temporary file is left")
}

func table(t *testing.T, file, id string) map[string]map[string]string {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	all, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	out := map[string]map[string]string{}
	for _, r := range all[1:] {
		row := map[string]string{}
		for i, h := range all[0] {
			row[h] = r[i]
		}
		out[row[id]] = row
	}
	return out
}

func TestCypher(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(write(t, "cypher", false), "\n"), "\n")
	require.Len(t, lines, 2+5+6)
	require.Equal(t, "MERGE (n:`Entity` {id: 'e2'}) SET n:`Company`, n.`height` = 2, n.`merge_key` = 'acme', n.`name` = 'Acme', n.`type` = 'Company';", lines[6])
	require.Equal(t, "MATCH (a:`Document` {id: 'd1'}), (b:`Chunk` {id: 'c1'}) MERGE (a)-[r:`HAS_PART` {id: 'HAS_PART:d1:c1'}]->(b);", lines[7])
	require.Contains(t, lines[5], "n.`alive` = true, n.`born` = 9007199254740993,")
	for _, l := range lines[2:] {
		require.True(t, strings.HasSuffix(l, ";"), "one whole statement a line: %s", l)
	}
}

func TestCypherStrings(t *testing.T) {
	for in, want := range map[string]string{
		``:                  `''`,
		`it's`:              `'it\'s'`,
		`a\`:                `'a\\'`,
		"a\nb\r\tc":         `'a\nb\r\tc'`,
		"\x1b\x00":          `'\u001B\u0000'`,
		`\u0027 OR 1=1`:     `'\\' + 'u0027 OR 1=1'`,
		`\\U`:               `'\\\\' + 'U'`,
		`u\nu`:              `'u\\nu'`,
		"東京 🔭":              `'東京 🔭'`,
		"line\u2028end\xff": `'line\u2028end` + "\ufffd'",
	} {
		require.Equal(t, want, cypherString(in))
	}
	require.Equal(t, "`a``b_u0060`", cypherName("a`b\\u0060"))
}

func TestPropNameIsInjective(t *testing.T) {
	require.Equal(t, "founded", propName("founded"))
	require.Equal(t, "property_name", propName("name"))
	require.Equal(t, "property_property_name", propName("property_name"))
}

func TestWriterRefuses(t *testing.T) {
	_, err := NewWriter("xml", "", nil, false)
	require.EqualError(t, err, `unknown format "xml": it must be jsonl, graphml, csv, cypher`)
	_, err = NewWriter("csv", "", nil, false)
	require.ErrorContains(t, err, "csv needs --output")
}

// A page that fails leaves no file, not even a part of one, and what was there stays.
func TestWholeOrNot(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "g.jsonl")
	require.NoError(t, os.WriteFile(name, []byte("old"), 0o600))
	lost := errors.New("lost")
	first := true
	for _, format := range Formats {
		w, err := NewWriter(format, name, nil, false)
		require.NoError(t, err)
		first = true
		_, err = w.Write(func() ([]json.RawMessage, error) {
			if first {
				first = false
				return rows(), nil
			}
			return nil, lost
		})
		require.ErrorIs(t, err, lost)
	}
	b, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "old", string(b))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
}
