package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// extractReply is what extract --json prints.
type extractReply struct {
	Documents []struct {
		Key, Title, Format string
		Chunks             int
		Items              []extractItem
		Sentences          []struct {
			Text       string
			Start, End int
			Items      []extractItem
		}
		Dropped []struct{ Kind, Label, Reason string }
	}
}

type extractItem struct {
	Kind, Label, Text, Source, Target, Rule, Outcome string
	Start, End                                       int
	Confidence                                       float64
	Reasons                                          []string
}

const (
	adaText  = "# Notes\n\nAda Lovelace worked for Acme Ltd. Bob Stone never joined Acme Ltd.\n"
	adaTable = "KIND      LABEL         ITEM                          CONFIDENCE  OUTCOME"
)

func TestExtract(t *testing.T) {
	p := newPlace(t)
	p.file("ada.md", adaText)
	r := p.run("", "extract", "ada.md")
	require.Equal(t, exitDone, r.code, r.err)
	require.Contains(t, r.out, "== ada.md (markdown, 1 chunk)\n"+adaTable+"\n")
	require.Contains(t, r.out, `"Ada Lovelace" -> "Acme Ltd"        0.90  kept`)
	require.NotContains(t, r.out, "phrase:", "rules are shown by --explain")

	r = p.run("", "extract", "ada.md", "--explain")
	require.Equal(t, exitDone, r.code, r.err)
	require.Contains(t, r.out, `Ada Lovelace worked for Acme Ltd.
  entity Person "Ada Lovelace" 0.90 [given name and surname]
  entity Organization "Acme Ltd" 0.95 [suffix]
  relation WORKS_FOR "Ada Lovelace" -> "Acme Ltd" 0.90 [phrase: `)
	require.Contains(t, r.out, "candidate: assertion_kind")
	require.Contains(t, r.out, "not kept: 1 × relation WORKS_FOR (assertion_kind)")
	require.NoDirExists(t, filepath.Join(p.home, ".local"), "no store")

	x := reads[extractReply](t, p.run("", "extract", "ada.md", "--explain", "--json"))
	require.Len(t, x.Documents, 1)
	d := x.Documents[0]
	require.Equal(t, "Notes", d.Title)
	require.Equal(t, "assertion_kind", d.Dropped[0].Reason)
	require.Empty(t, d.Items)
	found := 0
	for _, s := range d.Sentences {
		require.Equal(t, s.Text, adaText[s.Start:s.End])
		for _, it := range s.Items {
			if it.Kind == "entity" {
				require.Equal(t, it.Text, adaText[it.Start:it.End])
				require.NotEmpty(t, it.Rule)
				found++
			}
		}
	}
	require.Equal(t, 4, found)
	d = reads[extractReply](t, p.run("", "extract", "ada.md", "--json")).Documents[0]
	require.Nil(t, d.Sentences)
	require.Len(t, d.Items, 6)
}

// What is only counted is shown with the sentence that it stands in.
func TestExtractDropped(t *testing.T) {
	p := newPlace(t)
	d := reads[extractReply](t, p.run("Ada Lovelace worked for Acme Ltd. Bob Stone left.", "extract", "-", "--explain", "--json", "--extractor.floor", "0.92", "--extractor.entity_cut", "0.92")).Documents[0]
	require.Equal(t, extractItem{
		Kind: "entity", Label: "Person", Text: "Bob Stone", Start: 34, End: 43, Confidence: 0.9, Rule: "given name and surname", Outcome: "dropped", Reasons: []string{"below_floor"},
	}, d.Sentences[1].Items[0])
}

// The file is read as the loader reads it: formats, records, encodings; and cut as the settings of the call say.
func TestExtractFormats(t *testing.T) {
	p := newPlace(t)
	p.file("page.html", "<html><head><title>T</title><script>Eve Stone works for Evil Ltd.</script></head><body><p>Ada Lovelace worked for Acme&nbsp;Ltd.</p></body></html>")
	r := p.run("", "extract", "page.html", "--explain")
	require.Contains(t, r.out, `"Ada Lovelace"`)
	require.NotContains(t, r.out, "Evil")

	p.file("rows.csv", "id,text\na,Ada Lovelace worked for Acme Ltd.\nb,Bob Stone joined Globex Ltd.\n")
	x := reads[extractReply](t, p.run("", "extract", "rows.csv", "--json"))
	require.Len(t, x.Documents, 2)
	require.Equal(t, "rows.csv#b", x.Documents[1].Key)
	require.Equal(t, "Bob Stone", x.Documents[1].Items[0].Text)

	// Standard input, UTF-16, a long text in many chunks: names hold over all of them.
	x = reads[extractReply](t, p.run("\xff\xfeA\x00d\x00a\x00", "extract", "-", "--json"))
	require.Equal(t, "text", x.Documents[0].Format)
	long := "Ada Lovelace worked for Acme Ltd. "
	for len(long) < 4000 {
		long += "Nothing else was said on that day, or on the days after it. "
	}
	x = reads[extractReply](t, p.run(long+"Lovelace left.", "extract", "-", "--json", "--chunker.size", "100", "--chunker.min_size", "20"))
	require.Greater(t, x.Documents[0].Chunks, 5)
	last := x.Documents[0].Items[len(x.Documents[0].Items)-1]
	require.Equal(t, "Lovelace", last.Text)
	require.Equal(t, len(long), last.Start)

	require.Contains(t, p.run("", "extract", "page.html", "--format", "text", "--explain").out, "Evil")
	p.file("s.yaml", "entities: {Being: Someone.}\nrules: {entities: {Being: {names: [Ada Lovelace]}}}\n")
	r = p.run("", "extract", "page.html", "--schema", "s.yaml")
	require.Contains(t, r.out, "entity  Being")
}

func TestExtractRefusals(t *testing.T) {
	p := newPlace(t)
	p.file("bad.json", "{not json")
	p.file("ada.txt", "Ada Lovelace worked for Acme Ltd.")
	p.file("big.txt", strings.Repeat("a", 2000))
	p.file("a.zip", "x")
	p.file("bad.yaml", "entities: {A: {parents: [B]}}")
	for _, c := range []struct {
		code int
		want string
		args []string
	}{
		{exitUsage, "none.txt: no such file or directory", []string{"none.txt"}},
		{exitUsage, "extract reads one file", []string{"."}},
		{exitUsage, "accepts 1 arg(s), received 0", nil},
		{exitUsage, "accepts 1 arg(s), received 2", []string{"ada.txt", "ada.txt"}},
		{exitUsage, "none.yaml: no such file", []string{"ada.txt", "--schema", "none.yaml"}},
		{exitUsage, `unknown type "B"`, []string{"ada.txt", "--schema", "bad.yaml"}},
		{exitUsage, `format "odt" is not read`, []string{"ada.txt", "--format", "odt"}},
		{exitUsage, "extractor.floor is 2", []string{"ada.txt", "--extractor.floor", "2"}},
		{exitFailed, "(bad_json)", []string{"bad.json"}},
		{exitFailed, "(unsupported_format)", []string{"a.zip"}},
		{exitFailed, "(too_large)", []string{"big.txt", "--loader.max_document", "1024"}},
	} {
		r := p.run("", append([]string{"extract"}, c.args...)...)
		require.Equal(t, c.code, r.code, "%v: %s", c.args, r.err)
		require.Contains(t, r.err, c.want)
		require.Empty(t, r.out)
	}
	r := p.run("", "extract", "bad.json", "--json")
	var e struct {
		Error struct{ Details map[string]string }
	}
	require.NoError(t, json.Unmarshal([]byte(r.err), &e))
	require.Equal(t, "bad_json", e.Error.Details["code"])
}
