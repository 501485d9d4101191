package integration

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// corpusSchema is what the generated corpus is read under. Some of what the texts say is not declared, so that candidates come up.
const corpusSchema = `
name: corpus
entities:
  Agent: Whoever acts.
  Person:
    parents: [Agent]
    description: A human being.
    properties:
      born: {type: date, description: Day or year of birth}
  Organization:
    parents: [Agent]
    description: A company or institute.
    properties:
      founded: {type: integer, description: Year of foundation, merge: newest}
      status: {enum: [active, closed], merge: all}
  Location: A place.
  Software:
    description: A program.
    properties:
      version: {type: string, description: Released version}
relations:
  WORKS_FOR: {patterns: ["Person->Organization"], description: Employment.}
  LOCATED_IN: {patterns: ["Organization->Location", "Location->Location"], description: Lies in.}
  OWNS: {patterns: ["Agent->Organization|Software"], description: Ownership.}
  USES: {patterns: ["Organization->Software"], description: Use.}
  PARTNER_OF: {patterns: ["Organization->Organization"], symmetric: true, description: Partnership.}
rules:
  entities:
    Person: {names: [%s]}
    Organization: {names: [%s]}
    Location: {names: [%s]}
    Software: {names: [%s]}
  relations:
    WORKS_FOR: {phrases: ["works for", "worked for", "joined"], inverse_phrases: ["employs", "hired"]}
    LOCATED_IN: {phrases: ["is located in", "lies in"]}
    OWNS: {phrases: ["owns", "bought"], inverse_phrases: ["is owned by"]}
    USES: {phrases: ["uses"], inverse_phrases: ["is used by"]}
    PARTNER_OF: {phrases: ["is a partner of"]}
`

// Fifty names, many of them a letter, a mark, a case or a suffix away from another.
var (
	persons = []string{"Mara Velt", "Mara Veldt", "Marta Velt", "Mara Velt Jr", "Jon Arden", "John Arden", "Jon Ardén", "Joan Arden",
		"Ilse Brandt", "Ilse Brand", "Else Brandt", "Tomas Reyl", "Tomás Reyl", "Thomas Reyl", "Nils Okoro", "Nils Okora", "Ana Sorel", "Anna Sorel"}
	organizations = []string{"Norrin Works", "Norrin Works Ltd", "Norrin Worx", "Norin Works", "Halden Institute", "Haldén Institute", "Halden Institut",
		"Pell & Sons", "Pell and Sons", "Pell Sons", "C++ Guild", "C Guild", "C# Guild", "Orva Labs", "Orva Lab", "ORVA Labs Inc"}
	locations = []string{"Port Imber", "Port Imbers", "Porte Imber", "Vell Harbour", "Vell Harbor", "Mount Sele", "Mont Sele", "Lake Oru"}
	programs  = []string{"Skyloom", "SkyLoom 2", "Skyloon", "Tidemark", "Tidemarks", "StarLedger", "Star Ledger", "Dustpan"}
)

func corpusSchemaText() string {
	list := func(names []string) string {
		q := make([]string, len(names))
		for i, n := range names {
			q[i] = fmt.Sprintf("%q", n)
		}
		return strings.Join(q, ", ")
	}
	return fmt.Sprintf(corpusSchema, list(persons), list(organizations), list(locations), list(programs))
}

// writer writes texts about the fifty.
type writer struct{ r *rand.Rand }

func oneOf[T any](r *rand.Rand, list []T) T { return list[r.IntN(len(list))] }

// spelled is a name as a text may have it: the same entity by another case, or spaces that fold away.
func (w writer) spelled(names []string) string {
	n := oneOf(w.r, names)
	switch w.r.IntN(12) {
	case 0:
		return strings.ToUpper(n)
	case 1:
		return strings.ReplaceAll(n, " ", "\u00a0")
	case 2:
		return strings.ReplaceAll(n, " ", "  ")
	default:
		return n
	}
}

func (w writer) sentence() string {
	p, o, l, s := w.spelled(persons), w.spelled(organizations), w.spelled(locations), w.spelled(programs)
	switch w.r.IntN(18) {
	case 0, 1, 2:
		return fmt.Sprintf("%s %s %s.", p, oneOf(w.r, []string{"works for", "worked for", "joined"}), o)
	case 3:
		return fmt.Sprintf("%s hired %s.", o, p)
	case 4, 5:
		return fmt.Sprintf("%s is located in %s.", o, l)
	case 6:
		return fmt.Sprintf("%s lies in %s.", w.spelled(locations), l)
	case 7:
		return fmt.Sprintf("%s bought %s.", p, o)
	case 8:
		return fmt.Sprintf("%s is owned by %s.", s, o)
	case 9:
		return fmt.Sprintf("%s uses %s %d.%d.", o, s, 1+w.r.IntN(3), w.r.IntN(4))
	case 10, 11:
		return fmt.Sprintf("%s is a partner of %s.", o, w.spelled(organizations))
	case 12, 13:
		return fmt.Sprintf("%s was founded in %d.", o, 1990+w.r.IntN(4))
	case 14:
		return fmt.Sprintf("%s was born in %d.", p, 1950+w.r.IntN(4))
	case 15:
		return fmt.Sprintf("The Treaty of %s was signed by %s 😀 and others.", oneOf(w.r, locations), p)
	case 16:
		return fmt.Sprintf("Perhaps %s will work for %s.", p, o)
	default:
		return fmt.Sprintf("Nobody knows why it rained in %s.", l)
	}
}

// text is a document of one to a dozen sentences, in paragraphs, with a heading or a table now and then.
func (w writer) text(markdown bool) string {
	var b strings.Builder
	end := oneOf(w.r, []string{"\n", "\n", "\r\n"})
	n := 1 + w.r.IntN(12)
	for i := range n {
		if markdown && w.r.IntN(5) == 0 {
			fmt.Fprintf(&b, "%s## About %s%s%s", end, oneOf(w.r, organizations), end, end)
		}
		b.WriteString(w.sentence())
		if i < n-1 && w.r.IntN(3) == 0 {
			b.WriteString(end + end)
		} else {
			b.WriteString(" ")
		}
	}
	if markdown && w.r.IntN(4) == 0 {
		fmt.Fprintf(&b, "%s%s| who | where |%s| --- | --- |%s", end, end, end, end)
		for range 1 + w.r.IntN(4) {
			fmt.Fprintf(&b, "| %s | %s |%s", w.spelled(organizations), w.spelled(locations), end)
		}
	}
	return b.String()
}

// paper is one generated document, as an event names it.
type paper struct {
	Key         string `json:"key"`
	Text        string `json:"text"`
	Format      string `json:"format,omitempty"`
	Title       string `json:"title,omitempty"`
	PublishedAt string `json:"published_at,omitempty"`
	// SourceUpdatedAt is empty in generated documents.
	SourceUpdatedAt string         `json:"source_updated_at,omitempty"`
	Metadata        map[string]any `json:"metadata,omitempty"`
	Scope           []string       `json:"scope,omitempty"`
}

func (w writer) paper(key string, markdown bool) paper {
	d := paper{Key: key, Text: w.text(markdown), Format: "text"}
	if markdown {
		d.Format = "markdown"
	}
	if w.r.IntN(2) == 0 {
		d.PublishedAt = fmt.Sprintf("%d-%02d-%02d", 2001+w.r.IntN(3), 1+w.r.IntN(12), 1+w.r.IntN(28))
	}
	if w.r.IntN(3) == 0 {
		d.Title = "On " + oneOf(w.r, organizations)
		d.Metadata = map[string]any{"shelf": float64(w.r.IntN(5))}
	}
	if w.r.IntN(4) == 0 {
		d.Scope = []string{oneOf(w.r, []string{"public", "staff"})}
	}
	return d
}

// corpus is n documents with their own keys, and rows more that a JSON Lines file holds as its records.
type corpus struct {
	docs []paper
	rows []paper // keys "rows.jsonl#r0"…
}

func newCorpus(seed uint64, n, rows int) corpus {
	w := writer{random(seed, "corpus")}
	var c corpus
	for i := range n {
		c.docs = append(c.docs, w.paper(fmt.Sprintf("doc-%03d", i), w.r.IntN(2) == 0))
	}
	if n > 4 { // some that hold nothing, or next to nothing
		c.docs[1].Text, c.docs[2].Text, c.docs[3].Text = " \n ", "# Only a heading\n", "Nothing of interest happened."
	}
	for i := range rows {
		d := w.paper(fmt.Sprintf("rows.jsonl#r%d", i), false)
		d.Format = ""
		c.rows = append(c.rows, d)
	}
	return c
}

// file is the rows as one document event's document: a JSON Lines source with many documents.
func (c corpus) file() paper {
	var b strings.Builder
	for _, d := range c.rows {
		_, id, _ := strings.Cut(d.Key, "#")
		line, err := json.Marshal(map[string]any{"id": id, "text": d.Text, "title": d.Title, "published_at": d.PublishedAt,
			"source_updated_at": d.SourceUpdatedAt, "metadata": d.Metadata, "scope": d.Scope})
		if err != nil {
			panic(err) // strings and numbers
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	return paper{Key: "rows.jsonl", Text: b.String(), Format: "jsonl"}
}

// all is every document by itself.
func (c corpus) all() []paper { return append(append([]paper(nil), c.docs...), c.rows...) }
