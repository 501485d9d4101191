package linkage

import (
	"bufio"
	"embed"
	"strings"
)

//go:embed data/*.txt
var files embed.FS

// The word lists, read once. All keys are folded tokens.
var (
	suffixes      = map[string]string{}     // spelling of a legal form → the form
	suffixWords   int                       // words of the longest spelling
	titles        = map[string]byte{}       // word before a person's name → m, f or n
	postnominals  = map[string]bool{}       // word behind a person's name
	abbreviations = map[string]string{}     // token → the token it stands for
	formal        = map[string]string{}     // short given name → the only formal one
	variants      = map[string][]int{}      // given name → sets of names that may be one
	contrasts     = map[string][]contrast{} // word → its places in sets of words that exclude each other
	distinct      = map[string][]int{}      // word → sets of words that are close and right
	commonNames   = map[string]bool{}       // frequent family names
	places        = map[string]int{}        // known name of a place → the place
	givenGender   = map[string]byte{}       // frequent given name → m or f
	familyTitles  = set("mr mister mrs ms miss herr frau monsieur madame mme mlle senor senora senorita signor signora dr doctor prof professor " +
		"senator sen representative rep governor gov minister chancellor captain capt colonel col lieutenant lt sergeant sgt judge justice inspector detective")
	states        = map[string]string{} // qualifier of a place → its long form
	stops         = set("of the and for in on at an a to de la le du der die das des und et y e del di da dos do van von")
	particles     = set("van von der den de la le du di da dos das del della ter ten zu zur al el bin ibn ben af av y e")
	numberWords   = map[string]string{}
	weakSuffixes  = set("group groupe holding holdings gruppe grupo")
	generations   = map[string]string{"jr": "jr", "junior": "jr", "sr": "sr", "senior": "sr"}
	numberMarkers = set("no nr num number")
)

// contrast is one word of one set.
type contrast struct{ set, value int16 }

func set(words string) map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(words) {
		out[w] = true
	}
	return out
}

// lines calls fn with every line of a word list that says something.
func lines(name string, fn func(line string)) {
	f, err := files.Open("data/" + name)
	if err != nil {
		return // embedded: TestWordLists says that each is there and full
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		if l := strings.TrimSpace(sc.Text()); l != "" && l[0] != '#' {
			fn(l)
		}
	}
}

// fields splits a list at commas.
func fields(s string) []string {
	out := strings.Split(s, ",")
	for i := range out {
		out[i] = strings.TrimSpace(out[i])
	}
	return out
}

func pairs(name string, to map[string]string) {
	lines(name, func(l string) {
		k, v, _ := strings.Cut(l, "=")
		to[strings.ReplaceAll(strings.TrimSpace(k), "'", "")] = strings.TrimSpace(v)
	})
}

func init() {
	lines("suffixes.txt", func(l string) {
		f := fields(l)
		for _, s := range f {
			suffixes[s] = f[0]
			suffixWords = max(suffixWords, strings.Count(s, " ")+1)
		}
	})
	lines("given.txt", func(l string) {
		kind, words, _ := strings.Cut(l, ":")
		for _, w := range strings.Fields(words) {
			givenGender[w] = kind[0]
		}
	})
	lines("honorifics.txt", func(l string) {
		kind, words, _ := strings.Cut(l, ":")
		for _, w := range fields(words) {
			if kind == "after" {
				postnominals[w] = true
			} else {
				titles[w] = kind[0]
			}
		}
	})
	pairs("abbreviations.txt", abbreviations)
	pairs("states.txt", states)
	n := 0
	lines("nicknames.txt", func(l string) {
		if full, short, ok := strings.Cut(l, "?"); ok {
			for _, s := range append(fields(short), full) {
				variants[s] = append(variants[s], n)
			}
			n++
			return
		}
		full, short, _ := strings.Cut(l, ":")
		for _, s := range fields(short) {
			formal[s] = full
		}
	})
	n = 0
	lines("contrasts.txt", func(l string) {
		for v, words := range fields(l) {
			for _, w := range strings.Split(words, "/") {
				contrasts[w] = append(contrasts[w], contrast{int16(n), int16(v)})
			}
		}
		n++
	})
	n = 0
	lines("distinct.txt", func(l string) {
		for _, w := range fields(l) {
			distinct[w] = append(distinct[w], n)
		}
		n++
	})
	lines("surnames.txt", func(l string) {
		for _, w := range strings.Fields(l) {
			commonNames[w] = true
		}
	})
	n = 0
	lines("places.txt", func(l string) {
		n++
		for _, p := range fields(l) {
			places[p] = n
		}
	})
	for i, w := range strings.Fields("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty") {
		numberWords[w] = itoa(i)
	}
	for i, w := range strings.Fields("first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth") {
		numberWords[w] = itoa(i + 1)
	}
}

// share says whether two words are in one set of sets.
func share(sets map[string][]int, a, b string) bool {
	for _, x := range sets[a] {
		for _, y := range sets[b] {
			if x == y {
				return true
			}
		}
	}
	return false
}
