package rules

import (
	"embed"
	"strings"

	"github.com/factmill/factmill/services/extractor/internal/prose"
)

//go:embed data/*.txt
var data embed.FS

// flag is a class of words.
type flag uint64

const (
	stop flag = 1 << iota
	soft
	adjective
	particle
	det
	prep
	placePrep
	conj
	be
	aux
	modal
	not
	plan
	ifWord
	opinion
	doubter
	say
	adverb
	relative
	pronoun
	pronounHe
	pronounShe
	pronounIt
	honorific
	role
	placeWord
	topic
	month
	notName
	ambiguous
	given
	place
	orgSuffix
	thing
	firm
	cue
	placeIn // a word after which "in" begins a place
	finite  // a form of a verb that some phrase uses
	made    // a thing that people make
	personVerb
	orgVerb
	relNoun // wife, brother
	noPlace // a word after which "in" begins no place
	toPlace // a word after which "to" begins a place
	side    // north, coast, streets: "of" after it begins a place
	writing // a verb of writing
	staff   // people, before "at"
	surname // a head noun that is a surname too
	eventTail
	owner // his, its
	roles // a plural of role
	realm
	workRole // a role of a work, ship or place
	softMod
	bystander
	piece
	corpRole
	workVerb
	softVerb
	softSubject
	softNoun
	thwart // after it, what "before" tells of did not happen
)

var sections = map[string]flag{
	"stop": stop, "soft": soft, "adjective": adjective, "particle": particle, "det": det, "prep": prep, "place-prep": placePrep, "conj": conj, "be": be,
	"aux": aux, "modal": modal, "not": not, "plan": plan, "if": ifWord, "opinion": opinion, "doubter": doubter, "say": say,
	"adverb": adverb, "relative": relative, "pronoun": pronoun, "he": pronounHe, "she": pronounShe, "it": pronounIt,
	"honorific": honorific, "role": role, "place-word": placeWord, "topic": topic, "month": month,
	"notname": notName, "ambiguous": ambiguous, "place-in": placeIn,
	"person-verb": personVerb, "org-verb": orgVerb, "rel-noun": relNoun, "no-place": noPlace, "to-place": toPlace, "side": side, "thwart": thwart, "writing": writing,
	"staff": staff, "surname": surname, "event-tail": eventTail, "owner": owner, "realm": realm, "work-role": workRole, "soft-mod": softMod, "bystander": bystander, "piece": piece, "corp-role": corpRole, "work-verb": workVerb, "soft-verb": softVerb,
	"soft-subject": softSubject, "soft-noun": softNoun,
}

// entry is what is known of one word. Types are places in ruleset.types plus one; 0 is none.
type entry struct {
	hash    uint64
	flags   flag
	in      uint16 // type of a name that holds the word
	near    uint16 // type of a name beside the word
	before  uint16 // type of a name that begins with the word
	suffix  uint16 // type of a name that ends with the word
	known   uint16 // type of a name that is the word
	hint    uint16 // place in ruleset.hintWords plus one
	phrases int32  // list in ruleset.starts plus one
	cues    int32  // list in ruleset.cues plus one
	month   uint8  // 1…12
}

var unknown entry

func (e *entry) is(f flag) bool { return e.flags&f != 0 }

// table is an open-addressing hash table of words.
type table struct {
	slots []entry
	used  int
}

func (t *table) get(hash uint64) *entry {
	mask := uint64(len(t.slots) - 1)
	for i := (hash ^ hash>>29) & mask; ; i = (i + 1) & mask {
		if s := &t.slots[i]; s.hash == hash {
			return s
		} else if s.hash == 0 {
			return &unknown
		}
	}
}

func (t *table) put(hash uint64) *entry {
	if hash == 0 {
		hash = 1
	}
	if 2*(t.used+1) > len(t.slots) {
		t.grow()
	}
	mask := uint64(len(t.slots) - 1)
	for i := (hash ^ hash>>29) & mask; ; i = (i + 1) & mask {
		s := &t.slots[i]
		if s.hash == hash {
			return s
		}
		if s.hash == 0 {
			s.hash = hash
			t.used++
			return s
		}
	}
}

func (t *table) grow() {
	old := t.slots
	t.slots = make([]entry, max(4096, 2*len(old)))
	t.used = 0
	for i := range old {
		if old[i].hash != 0 {
			*t.put(old[i].hash) = old[i]
		}
	}
}

// hashWord is the hash of a word as the tokenizer sees it: without the dot of an abbreviation.
func hashWord(w string) uint64 { return prose.Hash(strings.TrimSuffix(w, ".")) }

// hashPhrase is the key of a name of several words.
func hashPhrase(words []uint64) uint64 {
	if len(words) == 1 {
		return words[0]
	}
	h := uint64(len(words))
	for _, w := range words {
		h = prose.Join(h, w)
	}
	return h
}

// hashName is the key of a name in text.
func hashName(name string) (key uint64, words int) {
	var hashes []uint64
	for _, t := range prose.Tokens(name, nil) {
		hashes = append(hashes, t.Hash)
	}
	if len(hashes) == 0 {
		return 0, 0
	}
	return hashPhrase(hashes), len(hashes)
}

// lines returns the lines of a data file without comments and blanks.
func lines(name string) []string {
	b, err := data.ReadFile("data/" + name)
	if err != nil {
		return nil // embedded: it is there
	}
	var out []string
	for _, l := range strings.Split(string(b), "\n") {
		if l = strings.TrimSpace(l); l != "" && l[0] != '#' {
			out = append(out, l)
		}
	}
	return out
}

// loadWords reads the word classes, given names, programs and places into the table.
func loadWords(t *table, places map[uint64]bool) {
	var f flag
	for _, l := range lines("words.txt") {
		if l[0] == '[' {
			f = sections[strings.Trim(l, "[]")]
			continue
		}
		for _, w := range strings.Fields(l) {
			t.put(hashWord(w)).flags |= f
			if f == role {
				t.put(hashWord(w + "s")).flags |= roles
			}
		}
	}
	for _, l := range lines("names.txt") {
		for _, w := range strings.Fields(l) {
			t.put(hashWord(w)).flags |= given
		}
	}
	for _, l := range lines("software.txt") {
		for _, w := range strings.Fields(l) {
			t.put(hashWord(w)).known = tSoftware
		}
	}
	several := false
	for _, l := range lines("places.txt") {
		if l == "united states" { // from here on one name a line
			several = true
		}
		if several {
			key, _ := hashName(l)
			places[key] = true
			continue
		}
		for _, w := range strings.Fields(l) {
			t.put(hashWord(w)).flags |= place
		}
	}
	names := "january february march april may june july august september october november december jan feb mar apr may jun jul aug sep oct nov dec"
	for i, w := range strings.Fields(names) {
		t.put(hashWord(w)).month = uint8(i%12 + 1)
	}
	t.put(hashWord("sept")).month = 9
}

// verbs holds the irregular forms by base.
type forms struct{ base, third, past, participle, ing string }

func loadVerbs() map[string]forms {
	out := map[string]forms{}
	for _, l := range lines("verbs.txt") {
		w := strings.Fields(l)
		if len(w) != 5 {
			continue
		}
		f := regular(w[0])
		for i, p := range []*string{&f.third, &f.past, &f.participle, &f.ing} {
			if w[i+1] != "-" {
				*p = w[i+1]
			}
		}
		out[w[0]] = f
	}
	return out
}

// regular returns the forms of a verb by the rules of spelling.
func regular(base string) forms {
	f := forms{base: base, third: base + "s", past: base + "ed", ing: base + "ing"}
	switch n := len(base); {
	case n > 2 && base[n-1] == 'y' && !strings.ContainsRune("aeiou", rune(base[n-2])):
		f.third, f.past = base[:n-1]+"ies", base[:n-1]+"ied"
	case strings.HasSuffix(base, "e"):
		f.past, f.ing = base+"d", base[:n-1]+"ing"
	case strings.HasSuffix(base, "s"), strings.HasSuffix(base, "sh"), strings.HasSuffix(base, "ch"), strings.HasSuffix(base, "x"):
		f.third = base + "es"
	}
	f.participle = f.past
	return f
}
