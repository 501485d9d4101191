package linkage

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// meet says whether two names share a block, and whether each finds the other.
func meet(a, b *Name) (shared, probed bool) {
	common := func(x, y []string) bool {
		for _, k := range x {
			if slices.Contains(y, k) {
				return true
			}
		}
		return false
	}
	ba, bb := Blocks(a), Blocks(b)
	return common(ba, bb), common(Probes(a), bb) && common(Probes(b), ba)
}

func requireMeet(t require.TestingT, a, b *Name) Verdict {
	v, w := Compare(a, b, Options{}), Compare(b, a, Options{})
	require.Equal(t, v, w, "%q and %q from either side", a.fold, b.fold)
	if v.Outcome == Link || v.Outcome == Unclear {
		shared, probed := meet(a, b)
		require.True(t, shared, "%q and %q: %v shares no block", a.fold, b.fold, v)
		require.True(t, probed, "%q and %q: %v is not found by probes", a.fold, b.fold, v)
	}
	return v
}

// TestBlocksOfAllOwnPairs compares every name of the pairs with every other of its label.
func TestBlocksOfAllOwnPairs(t *testing.T) {
	byLabel := map[string][]Name{}
	for _, p := range readGold(t) {
		byLabel[p.Label] = append(byLabel[p.Label], Prepare(p.Label, p.A, nil), Prepare(p.Label, p.B, nil))
	}
	found := 0
	for _, names := range byLabel {
		for i := range names {
			for j := range i {
				if v := requireMeet(t, &names[i], &names[j]); v.Outcome == Link || v.Outcome == Unclear {
					found++
				}
			}
		}
	}
	require.Greater(t, found, 150)
}

var words = strings.Fields(`Charles Babbage Ada Lovelace Smith J. K. R. von van Beethoven Bob Robert Bill William Kate Katherine Dr. Mr. Mrs. Jr. Sr. II III PhD
	University of Oslo the The and & Bank National Natl Univ. Inst. Technology Tech Intl Acme Acme, Corp. Inc GmbH Ltd Co. Group Holdings WHO World Health Organization
	5 6 V v2 12 3.1 C C++ C# .NET HTTP HTTPS Task No. # (WHO) (planet) , Texas Springfield, Illinois Kiev Kyiv Dostoyevsky Dostoevskii Müller Mueller Москва Владимир
	International Telecommunication Electrodynamics Observatory Supercalifragilisticexpialidocious Rachmaninoff Mohammed Muhammad StarLedger Star Ledger X-1 A`)

var nameGen = rapid.Custom(func(rt *rapid.T) string {
	if rapid.IntRange(0, 9).Draw(rt, "kind") == 0 {
		return rapid.StringN(1, 12, 60).Draw(rt, "any")
	}
	return strings.Join(rapid.SliceOfN(rapid.SampledFrom(words), 1, 8).Draw(rt, "words"), " ")
})

// mutate changes a name as writers do.
func mutate(rt *rapid.T, s string) string {
	for range rapid.IntRange(1, 3).Draw(rt, "mutations") {
		r := []rune(s)
		f := strings.Fields(s)
		if len(r) == 0 || len(f) == 0 {
			return s
		}
		at := rapid.IntRange(0, len(r)-1).Draw(rt, "at")
		w := rapid.IntRange(0, len(f)-1).Draw(rt, "word")
		switch rapid.IntRange(0, 12).Draw(rt, "how") {
		case 0:
			r = slices.Delete(r, at, at+1)
		case 1:
			r = slices.Insert(r, at, rapid.SampledFrom([]rune("aeilnrst '.-")).Draw(rt, "rune"))
		case 2:
			r[at] = rapid.SampledFrom([]rune("aeilnrst ")).Draw(rt, "rune")
		case 3:
			if at+1 < len(r) {
				r[at], r[at+1] = r[at+1], r[at]
			}
		case 4:
			r = slices.Insert(r, at, r[at])
		case 5:
			r = []rune(strings.Join(rapid.Permutation(f).Draw(rt, "order"), " "))
		case 6:
			r = []rune(strings.Join(f[w:], " "))
		case 7:
			f[w] = string([]rune(f[w])[:1]) + "."
			r = []rune(strings.Join(f, " "))
		case 8:
			r = []rune(strings.ReplaceAll(s, " ", rapid.SampledFrom([]string{"", "-", "  "}).Draw(rt, "blank")))
		case 9:
			r = []rune(s + " " + rapid.SampledFrom([]string{"Inc", "GmbH", "Jr.", "Group", ", PhD"}).Draw(rt, "behind"))
		case 10:
			r = []rune(rapid.SampledFrom([]string{"The ", "Dr. ", "Mr. "}).Draw(rt, "before") + s)
		case 11:
			var acr string
			for _, x := range f {
				acr += strings.ToUpper(string([]rune(x)[:1]))
			}
			r = []rune(acr)
		case 12:
			f = slices.Delete(f, w, w+1)
			r = []rune(strings.Join(f, " "))
		}
		s = string(r)
	}
	return s
}

// TestBlocksMeet compares all pairs of a name, what writers make of it, and strangers that know it as an alias or not.
func TestBlocksMeet(t *testing.T) {
	found := map[Method]int{}
	rapid.Check(t, func(rt *rapid.T) {
		label := rapid.SampledFrom([]string{"Person", "Organization", "Location", "Product"}).Draw(rt, "label")
		base := nameGen.Draw(rt, "name")
		names := []Name{Prepare(label, base, nil)}
		for range 4 {
			names = append(names, Prepare(label, mutate(rt, base), rapid.SliceOfN(nameGen, 0, 2).Draw(rt, "aliases")))
		}
		names = append(names, Prepare(label, nameGen.Draw(rt, "stranger"), []string{base}), Prepare(label, nameGen.Draw(rt, "stranger"), nil))
		for i := range names {
			for j := range i {
				if v := requireMeet(rt, &names[i], &names[j]); v.Outcome == Link || v.Outcome == Unclear {
					found[v.Method]++
				}
			}
			if a := &names[i]; a.fold != "" {
				require.Equal(rt, Verdict{Exact, 1, Link}, Compare(a, a, Options{}))
			}
		}
	})
	require.Greater(t, len(found), 8, "the mutations reach the methods: %v", found)
}

// TestKindsOfKeys has for every kind of key a pair that is found by nothing else.
func TestKindsOfKeys(t *testing.T) {
	for _, c := range []struct{ kinds, label, a, b string }{
		{"t", "Organization", "Acme (WHO)", "WHO Acme"},
		{"c", "Product", "StarLedger", "Star Ledger"},
		{"q", "Organization", "University of Miami", "Miami University"},
		{"s", "Location", "Chaikovsky", "Tchaikovskii"},
		{"o", "Person", "Zeinab Mahmood Karimi", "Zaynab Mahmud Karimy"},
		{"e", "Organization", "Kestrel Laboratory Acme", "Kestrel Labratory Acme"},
		{"e", "Organization", "Microsoft", "Mircosoft"},
		{"b", "Organization", "Research Laboratories Anti Body", "Antibody Research Laboratories"},
		{"z", "Publication", "Principles of Stellar Photometry Calibration", "Principles of Stelar Photometry Calbration"},
		{"z", "Publication", "Donaudampfschifffahrtsgesellschaftskapitan", "Donaudampfshifffahrtsgesellschaftskapian"},
		{"k", "Location", "Kyiv", "Kiev"},
		{"f", "Person", "Bob Okonkwo", "Robert Okonkwo"},
		{"v", "Person", "Kate Okonkwo", "Katherine Okonkwo"},
		{"i", "Person", "C. Babbage", "Charles Babbage"},
		{"n", "Person", "Mr. Holmes", "Sherlock Holmes"},
		{"a", "Organization", "WHO", "World Health Organization"},
		{"p", "Publication", "J. Appl. Phys.", "Journal of Applied Physics"},
	} {
		a, b := Prepare(c.label, c.a, nil), Prepare(c.label, c.b, nil)
		kinds := map[byte]bool{}
		bb := Blocks(&b)
		for _, k := range Probes(&a) {
			if slices.Contains(bb, k) {
				kinds[strings.ToLower(k)[0]] = true
			}
		}
		var got []byte
		for k := range kinds {
			got = append(got, k)
		}
		slices.Sort(got)
		v := requireMeet(t, &a, &b)
		require.Equal(t, c.kinds, string(got), "%s | %s: %v", c.a, c.b, v)
	}
}

// TestSwapsMeet: two neighbours that change places, at every place of words of every length, alone and in company.
func TestSwapsMeet(t *testing.T) {
	const letters = "abcdefghijklmnopqrstu"
	for n := shortTypo; n <= len(letters); n++ {
		for i := range n - 1 {
			swapped := []byte(letters[:n])
			swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
			for _, with := range []string{"", " zzz"} {
				a, b := Prepare("Product", letters[:n]+with, nil), Prepare("Product", string(swapped)+with, nil)
				require.Contains(t, []Outcome{Link, Unclear}, requireMeet(t, &a, &b).Outcome)
			}
		}
	}
}
