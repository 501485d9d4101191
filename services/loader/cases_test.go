package loader

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/events"
	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/graph"
)

// caseFile reads a case's file.
func caseFile(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "cases", file))
	require.NoError(t, err)
	return string(b)
}

// TestCases loads every document of the cases in one batch, and holds what its manifest says of loading. What it says of
// chunks, evidence and models is held by the stages after this one; here those documents must arrive whole.
func TestCases(t *testing.T) {
	b := newBench(t, Config{Roots: []string{filepath.Join("testdata", "cases")}})
	out, faults := b.through(`{"sources":["docs"],"error_policy":"skip"}`)
	got := map[string]*events.Loaded{}
	for _, e := range out {
		l := e.(*events.Loaded)
		require.NotContains(t, got, l.Meta.Key)
		got[l.Meta.Key] = l
	}
	text := func(t *testing.T, file string) string {
		t.Helper()
		require.Contains(t, got, file)
		return got[file].Text
	}
	verbatim := func(t *testing.T, file string) {
		require.Equal(t, fingerprint.Normalize(caseFile(t, file)), text(t, file))
	}

	checks := map[string]func(t *testing.T, file string){
		"docs/html_nocharset.html": func(t *testing.T, f string) {
			require.Contains(t, text(t, f), "Привет, Zoë works at Größe GmbH.")
		},
		"docs/utf16le.txt": func(t *testing.T, f string) { require.Equal(t, "서울의 Acme 회사", text(t, f)) },
		"docs/bad_cp1252.txt": func(t *testing.T, f string) {
			isFault(t, faults[f], "bad_encoding", "not UTF-8 (first broken byte at 3) and no encoding is declared: save it as UTF-8")
			require.Len(t, faults, 1, "the batch of the other files goes on")
		},
		"docs/bom.txt": func(t *testing.T, f string) {
			require.Equal(t, got["docs/nobom.txt"].Doc.ContentHash, got[f].Doc.ContentHash)
			require.Equal(t, got["docs/nobom.txt"].Text, text(t, f))
		},
		"docs/nobom.txt": verbatim,
		"docs/empty.txt": func(t *testing.T, f string) { require.Equal(t, "", text(t, f)) },
		"docs/blank.txt": func(t *testing.T, f string) { require.Equal(t, " \n\t \n", text(t, f)) },
		"docs/thead_only.html": func(t *testing.T, f string) {
			require.Equal(t, "| Name | Role |\n|---|---|", text(t, f))
		},
		"docs/table_in.md": func(t *testing.T, f string) {
			require.Contains(t, text(t, f), "Ann")
			require.Contains(t, text(t, f), "CEO")
		},
		"docs/a/readme.md": func(t *testing.T, f string) { require.NotEmpty(t, got[f].Meta.ID) },
		"docs/b/readme.md": func(t *testing.T, f string) { require.NotEqual(t, got["docs/a/readme.md"].Meta.ID, got[f].Meta.ID) },
		"docs/crlf.txt": func(t *testing.T, f string) {
			require.Equal(t, text(t, "docs/lf.txt"), text(t, f))
			require.NotContains(t, text(t, f), "\r")
		},
		"docs/del_a.txt": func(t *testing.T, f string) {
			b.committer.stored[f] = graph.Stored{Open: true, Revision: 1}
			out, faults := b.through(`{"op":"delete","key":"docs/del_a.txt"}`)
			require.Empty(t, faults)
			require.Equal(t, graph.Delete, out[0].(*events.Staged).Decision)
			require.Equal(t, f, out[0].(*events.Staged).Meta.Key)
		},
	}
	for _, f := range []string{"spaces.txt", "unbroken.txt", "long_table.md", "headings_only.md", "lf.txt", "emoji.txt", "braces.txt", "injection.txt", "nofacts.txt", "del_b.txt"} {
		checks["docs/"+f] = verbatim
	}
	manifest, err := os.Open(filepath.Join("testdata", "cases", "MANIFEST.tsv"))
	require.NoError(t, err)
	defer manifest.Close()
	seen := 0
	for lines := bufio.NewScanner(manifest); lines.Scan(); {
		file, _, _ := strings.Cut(lines.Text(), "\t")
		if !strings.HasPrefix(file, "docs/") {
			continue
		}
		seen++
		t.Run(file, func(t *testing.T) {
			require.Contains(t, checks, file, "a case without a check")
			checks[file](t, file)
		})
	}
	require.Equal(t, len(checks), seen)
	require.Len(t, got, seen-1)
	require.Equal(t, fault.Document, fault.Of(faults["docs/bad_cp1252.txt"]).Class)
}
