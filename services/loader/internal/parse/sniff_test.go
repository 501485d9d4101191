package parse

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGuess(t *testing.T) {
	for _, c := range []struct{ name, head, want string }{
		{"README", "Just text.\n", Text}, {"README", "", Text}, {"LICENSE", "Caf\xe9", Text}, {"data", `{"text":"x"}`, Text}, {"data", `[{"a":1}]`, Text},
		{"notes", "\xff\xfea\x00", Text}, {"log", "\x1b[1mred\x1b[0m\n", Text}, {"long", strings.Repeat("é", Head), Text},
		{"paper", "%PDF-1.7\n%\xe2\xe3\xcf\xd3\n\x00", PDF}, {"paper.bin", "%PDF-1.4", PDF}, {"report", "PK\x03\x04\x14\x00", DOCX}, {"report.bak", "PK\x03\x04", DOCX},
		{"page", "\n <!DOCTYPE html><p>x", HTML}, {"page.php", "<HTML>", HTML}, {"page", "\xef\xbb\xbf<!doctype HTML>", HTML},
		{"doc", "<?xml version='1.0'?><article>", XML}, {"doc", "<?xml version='1.0'?>\n<!DOCTYPE html PUBLIC ''><html>", HTML}, {"feed.rss", "\xef\xbb\xbf<?xml version='1.0'?><rss>", XML},
	} {
		got, err := Guess([]byte(c.head), c.name)
		require.NoError(t, err, "%+v", c)
		require.Equal(t, c.want, got, "%+v", c)
	}
	for name, head := range map[string]string{
		"blob": "\x7fELF\x02\x01\x01\x00", "packed": "\x1f\x8b\x08\x00", "noise": "ab\x01\x02\x03\x04", "a.dat": "Just text.", "icon.svg": "<?xml version='1.0'?><svg>",
		"old.doc": "\xd0\xcf\x11\xe0",
	} {
		_, err := Guess([]byte(head), name)
		require.Error(t, err, name)
		require.Contains(t, err.Error(), "these are: csv, ")
		bad(t, err, "unsupported_format", err.Error())
	}
}
