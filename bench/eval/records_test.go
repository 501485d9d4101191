package eval

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/embed"
)

// Two of one name that are not one person (1, 9), a typing error and another date (1), a wrong order (2), an unclear typing error of the same date
// (3), a name that excludes the other (4), and a record without a name (5).
const fewRecords = `rec_id, given_name, surname, street_number, date_of_birth, soc_sec_id
rec-1-org, michael, wuchatsch, 6, 19600210, 1
rec-1-dup-0, michael, wuchatsch, 6, 19600210, 1
rec-1-dup-1, michael, wuchatcsh, 6, 19600201, 1
rec-9-org, michael, wuchatsch, 7, 19811130, 2
rec-2-org, jessica, ballantyne, , 19600211, 3
rec-2-dup-0, ballantyne, jessica, , , 3
rec-3-org, kirra, beaumaris, 1, 19600212, 4
rec-3-dup-0, kirrc, beaumaris, 1, 19600212, 4
rec-4-org, naomi, dinnison, 1, 19600213, 5
rec-4-dup-0, joshua, dinnison, 1, 19600213, 5
rec-5-org, , , 1, 19600214, 6
rec-5-dup-0, henry, oatey, 1, 19600214, 6
`

func TestReadRecords(t *testing.T) {
	records, err := ReadRecords(strings.NewReader(fewRecords))
	require.NoError(t, err)
	require.Len(t, records, 12)
	require.Equal(t, Record{Person: "1", Name: "michael wuchatsch", Born: "19600210"}, records[1])
	require.Equal(t, Record{Person: "2", Name: "ballantyne jessica"}, records[5])
	require.Equal(t, Record{Person: "5", Born: "19600214"}, records[10])

	_, err = ReadRecords(strings.NewReader(""))
	require.EqualError(t, err, "records, first line: EOF")
	_, err = ReadRecords(strings.NewReader("rec_id,surname\n"))
	require.EqualError(t, err, "records, first line: there is no column given_name")
	head := "rec_id,given_name,surname,date_of_birth\n"
	_, err = ReadRecords(strings.NewReader(head + "rec-1-org,a,b,\nrec-x,a,b,\n"))
	require.EqualError(t, err, `records, line 3: the id "rec-x" says not whose it is: rec-NUMBER-org or rec-NUMBER-dup-NUMBER is needed`)
	_, err = ReadRecords(strings.NewReader(head + "rec-1-org,a\n"))
	require.ErrorContains(t, err, "records: record on line 2: wrong number of fields")
}

func TestRunRecords(t *testing.T) {
	records, err := ReadRecords(strings.NewReader(fewRecords))
	require.NoError(t, err)
	r, err := RunRecords(t.Context(), records, embed.NewHash())
	require.NoError(t, err)
	require.Equal(t, 12, r.Records)
	require.Equal(t, 1, r.Nameless)
	require.Equal(t, 9, r.Names)
	require.Equal(t, 7, r.Gold)
	require.Equal(t, 1, r.Vetoed)
	tally := func(way string) [5]int {
		x := r.ByWay[way]
		require.Equal(t, 7, x.Gold, way)
		return [5]int{x.Compared, x.Found, x.Right, x.Unclear, x.UnclearSame}
	}
	require.Equal(t, [5]int{0, 3, 1, 0, 0}, tally("exact names"))
	require.Equal(t, [5]int{3, 7, 4, 1, 1}, tally("methods"), "the typing error is linked with all three of the name")
	require.Equal(t, [5]int{3, 7, 4, 1, 1}, tally("methods + cosine"))
	require.Equal(t, [5]int{3, 2, 2, 1, 1}, tally("… − other date of birth"), "a date that is missing takes nothing back, a wrong one takes back what is right")
	require.Equal(t, [5]int{3, 3, 3, 0, 0}, tally("… + unclear, same date"))
	require.Equal(t, [5]int{3, 1, 1, 1, 1}, tally("date of birth in the name"), "two of the three are vetoed: another given name, a date on one side alone")

	var out bytes.Buffer
	require.NoError(t, r.Print(&out, "set 7"))
	require.Contains(t, out.String(), "set 7: 12 records, 1 without a name; 9 distinct names; 7 of 66 pairs of records are of one person\n")
	require.Regexp(t, `(?m)^methods +3 +7 +4 +0\.571 +0\.571 +0\.571 +1 +1$`, out.String())
	require.Contains(t, out.String(), "of the 3 pairs of one person that methods + cosine leaves apart 1 are unclear, in 1 the names exclude each other, ")
}

func TestPrintRecords(t *testing.T) {
	dir := t.TempDir()
	var out bytes.Buffer
	for _, d := range []string{dir, filepath.Join(dir, "gone")} { // a fetch that failed leaves an empty one
		out.Reset()
		require.NoError(t, PrintRecords(t.Context(), &out, d, embed.NewHash()))
		require.Equal(t, "\nNOT MEASURED: records of persons, for there is no "+filepath.Join(d, "dataset1.csv")+": make real/febrl fetches them\n", out.String())
	}

	for _, files := range RecordSets {
		for _, f := range files {
			require.NoError(t, os.WriteFile(filepath.Join(dir, f), []byte(fewRecords), 0o600))
		}
	}
	out.Reset()
	require.NoError(t, PrintRecords(t.Context(), &out, dir, embed.NewHash()))
	require.Contains(t, out.String(), "set 1: 12 records, ")
	require.Contains(t, out.String(), "set 4: 24 records, 2 without a name; 9 distinct names; ")

	require.NoError(t, os.Remove(filepath.Join(dir, "dataset3.csv")))
	require.ErrorContains(t, PrintRecords(t.Context(), &out, dir, embed.NewHash()), "dataset3.csv: no such file or directory; make real/febrl fetches them")
}
