package known

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// read reads all of a file: "LINE type|name|aliases|id|note" an entry, "LINE field: message" a problem.
func read(t *testing.T, format, typ, text string) []string {
	t.Helper()
	r, err := NewReader(strings.NewReader(text), format, typ)
	if err != nil {
		require.ErrorIs(t, err, ErrFile)
		return []string{err.Error()}
	}
	var out []string
	for {
		e, p, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return out
		case err != nil:
			require.ErrorIs(t, err, ErrFile)
			return append(out, err.Error())
		case p != nil:
			out = append(out, fmt.Sprintf("%d %s: %s", p.Line, p.Field, p.Message))
		default:
			out = append(out, fmt.Sprintf("%d %s|%s|%s|%s|%s", e.Line, e.Type, e.Name, strings.Join(e.Aliases, "+"), e.ExternalID, e.Note))
		}
	}
}

func TestFiles(t *testing.T) {
	unreadable := ErrFile.Error() + ": "
	for _, c := range []struct {
		what, format, typ, text string
		want                    []string
	}{
		{"plain", CSV, "", "type,name,aliases,external_id\nPerson,Ada Lovelace,Ada Byron | Countess||,Q7\nPerson,Bob,,\n",
			[]string{"2 Person|Ada Lovelace|Ada Byron+Countess|Q7|", "3 Person|Bob|||"}},
		{"byte order mark, CRLF, quotes, another order, a note", CSV, "", "\ufeffName,TYPE,note\r\n\"Ada, \"\"Countess\"\"\",Person,\"two\nlines\"\r\n\r\nBob,Person,\r\n",
			[]string{"2 Person|Ada, \"Countess\"|||two\nlines", "5 Person|Bob|||"}},
		{"semicolons", CSV, "", "type;name\nPerson;Ada, Countess\n", []string{"2 Person|Ada, Countess|||"}},
		{"tabs", TSV, "", "type\tname\nPerson\tAda, Countess\n", []string{"2 Person|Ada, Countess|||"}},
		{"a type for all", CSV, "Person", "name\nAda\n", []string{"2 Person|Ada|||"}},
		{"a type for the others", CSV, "Person", "type,name\n,Ada\nTeam,Reds\n", []string{"2 Person|Ada|||", "3 Team|Reds|||"}},
		{"only a header", CSV, "", "type,name\n", nil},
		{"bad rows", CSV, "", "type,name,external_id\nPerson\nPerson,a,b,c\n,Ada,\nPerson,,\nPerson,\xff,\nPerson,x\"y,\nPerson,Ada,1\nPerson, ADA ,\nPerson,Bob,1\nTeam,Ada,1\n",
			[]string{"2 row: it has 1 fields, the header 3", "3 row: it has 4 fields, the header 3", "4 type: it is missing; --type gives one to entries without",
				"5 name: it is missing", "6 name: it is no UTF-8: save the file as UTF-8", `7 row: line 7, byte 9: bare " in non-quoted-field`, "8 Person|Ada||1|",
				"9 name: the entry stands at line 8 already", `10 external_id: "1" is the entry's at line 8 already`, "11 Team|Ada||1|"}},
		{"an open quote", CSV, "", "type,name\nPerson,Ada\nPerson,\"Bob\nPerson,Cyd\n", []string{"2 Person|Ada|||", `3 row: line 4, byte 12: extraneous or missing " in quoted-field`}},
		{"a quote that takes it all", CSV, "", "type,name\nPerson,Ada\nPerson,\"Bob\n" + strings.Repeat("Person,Cyd\n", 1<<17),
			[]string{"2 Person|Ada|||", unreadable + "a row is longer than 1048576 bytes: is a quote not closed?"}},
		{"empty", CSV, "", "", []string{unreadable + "it is empty; a table begins with a header of type,name,aliases,external_id,note"}},
		{"unknown column", CSV, "", "type,name,alias\n", []string{unreadable + `line 1: unknown column "alias"; columns are type, name, aliases, external_id, note`}},
		{"column twice", CSV, "", "type,name,Name\n", []string{unreadable + "line 1: the column name stands twice"}},
		{"no name", CSV, "", "type,note\n", []string{unreadable + "line 1: the header has no column name"}},
		{"no type", CSV, "", "name\n", []string{unreadable + "line 1: the header has no column type; --type gives one to all"}},
		{"unknown format", "xls", "", "x", []string{unreadable + `the format "xls" is none of csv, tsv, jsonl`}},
		{"lines", JSONL, "", "\ufeff{\"type\":\"Person\",\"name\":\"Ada\",\"aliases\":[\"x\",\"y|z\"],\"external_id\":\"Q\",\"note\":\"n\"}\r\n\n{\"type\":\"Person\",\"name\":\"Bob\",\"id\":\"i\",\"revision\":3}",
			[]string{"1 Person|Ada|x+y|z|Q|n", "3 Person|Bob|||"}},
		{"bad lines", JSONL, "Person", "{\n[]\n{\"name\":5}\n{\"name\":\"a\",\"aliases\":\"b\"}\n{\"nome\":\"a\"}\n{\"name\":\"a\"} x\n{\"name\":\"\xff\"}\n{\"name\":\"a\"}\n{\"name\":\"A\"}\nnull\n",
			[]string{"1 object: unexpected EOF", "2 object: it is a JSON array", "3 name: it is a JSON number", "4 aliases: it is a JSON string",
				"5 nome: there is no such field; fields are type, name, aliases, external_id, note", "6 object: something follows the object", "7 object: it is no UTF-8: save the file as UTF-8",
				"8 Person|a|||", "9 name: the entry stands at line 8 already", "10 name: it is missing"}},
		{"a long line", JSONL, "", "{\"type\":\"P\",\"name\":\"a\"}\n\"" + strings.Repeat("x", MaxLine) + "\"\n", []string{"1 P|a|||", unreadable + "line 2 is longer than 1048576 bytes"}},
	} {
		require.Equal(t, c.want, read(t, c.format, c.typ, c.text), c.what)
	}
}

func TestFormatOf(t *testing.T) {
	for name, want := range map[string]string{"a.csv": CSV, "b/C.CSV": CSV, "a.tsv": TSV, "a.tab": TSV, "x.jsonl": JSONL, "x.ndjson": JSONL, "x.json": "", "-": "", "csv": ""} {
		require.Equal(t, want, FormatOf(name), name)
	}
}

func FuzzReader(f *testing.F) {
	f.Add("csv", "type,name,aliases\nPerson,\"Ada\",a|b\n")
	f.Add("tsv", "type\tname\nPerson\tAda\n")
	f.Add("jsonl", "{\"type\":\"Person\",\"name\":\"Ada\"}\n")
	f.Fuzz(func(t *testing.T, format, text string) {
		r, err := NewReader(strings.NewReader(text), format, "T")
		if err != nil {
			return
		}
		for range len(text) + 2 {
			e, p, err := r.Next()
			if err != nil {
				return
			}
			if p == nil && (e.Type == "" || e.Name == "" || e.Line < 1) {
				t.Fatalf("%+v", e)
			}
		}
		t.Fatal("no end")
	})
}
