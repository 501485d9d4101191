package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/api"
)

// Candidates are found by their words, also where the services run for one command only.
func TestReviewSearch(t *testing.T) {
	p := newPlace(t)
	p.file("schema.yaml", "name: tiny\nentities: {Person: A human being., Organization: A firm., Agency: A bureau.}\nrelations:\n  WORKS_FOR: [\"Person->Agency\"]\n")
	p.file("docs/a.txt", "Ada Lovelace worked for Acme Ltd.\n")
	reads[api.JobStatus](t, p.run("", "ingest", "docs", "--schema", "schema.yaml", "--data", "g", "--json"))
	search := func(args ...string) result {
		return p.run("", append([]string{"review", "search", "--data", "g"}, args...)...)
	}
	r := search("lovelace", "ACME")
	require.Equal(t, exitDone, r.code, r.err)
	require.Regexp(t, `(?m)^CANDIDATE +KIND +STATE +WORDS +SEEN +DOCUMENTS +CONFIDENCE +REASONS +KEY\n`+
		`Ada Lovelace  WORKS_FOR  Acme Ltd. +relation +pending \(unreviewed\) +2 +1 +1 +\d\.\d\d +\S+ +relation\|works for\|ada lovelace\|acme ltd\n1 of 1 candidate; these are no facts\n$`, r.out)
	found := reads[api.SearchCandidatesReply](t, search("works", "--kind", "relation", "--limit", "3", "--json"))
	require.Equal(t, []any{1, "Ada Lovelace", true, api.CandidatesNote}, []any{found.Total, found.Results[0].SourceText, found.Results[0].Unreviewed, found.Note})
	require.Equal(t, "no candidate has one of these words\n", search("lovelace", "--kind", "property").out)
	r = search("is", "it")
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.err, "no word of over two characters")
}
