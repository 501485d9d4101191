// Package corpus generates documents for the benchmarks: plain English prose of which the embedded extractor makes entities and relations.
// The same seed gives the same bytes on every machine.
package corpus

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// Corpus is a number of documents of about Bytes bytes each.
type Corpus struct {
	Seed  uint64
	Bytes int // of a document; defaults to 4,096
	// People, Firms and Towns are how many different names there are. They default to a fifth, a tenth and a twentieth of 20,000: what a
	// document says of them is drawn evenly, but one sentence in eight names one of the first ten, the hubs.
	People, Firms, Towns int
	// Stride is how far the numbers of two names that follow each other are apart: documents of a corpus with a hundredth of the names and a
	// stride of 100 name as many things of the large corpus as those of a small one do of theirs. The hubs are the same. Defaults to 1.
	Stride int
}

func (c Corpus) withDefaults() Corpus {
	set := func(n *int, d int) {
		if *n == 0 {
			*n = d
		}
	}
	set(&c.Bytes, 4096)
	set(&c.People, 4000)
	set(&c.Firms, 2000)
	set(&c.Towns, 1000)
	set(&c.Stride, 1)
	return c
}

var (
	given = []string{"Ada", "Bruno", "Clara", "Dmitri", "Elena", "Farid", "Greta", "Hugo", "Ines", "Jonas", "Katya", "Liam", "Mara", "Nils", "Olga", "Pablo",
		"Quentin", "Rosa", "Stefan", "Tamara", "Ulrich", "Vera", "Walter", "Xenia", "Yusuf", "Zora"}
	family = []string{"Abel", "Brandt", "Costa", "Dahl", "Egger", "Falk", "Grau", "Holm", "Ivers", "Jung", "Keller", "Lund", "Moser", "Novak", "Olsen", "Petrov",
		"Quist", "Reyes", "Sander", "Toth", "Urban", "Vogel", "Winter", "Yildiz", "Zeller"}
	syllables = []string{"bar", "cor", "den", "fel", "gor", "hal", "kin", "lom", "mar", "nor", "pel", "ran", "sol", "tor", "vel", "win"}
	kinds     = []string{"Works", "Instruments", "Systems", "Shipping", "Foundry", "Press", "Motors", "Textiles"}
	suffixes  = []string{"Ltd", "GmbH", "Inc.", "AG", "Corp."}
	fillers   = []string{
		"The weather had been dry for weeks, and the river stood lower than in any year since the records began.",
		"Nobody in the room had expected the figures to be read out before the break.",
		"The report runs to sixty pages, of which most are tables that few people will ever read.",
		"It took longer than planned, as such things do, and cost a little less.",
		"Two of the older machines were kept for parts; the rest went for scrap in the spring.",
		"What remains of the first building is a wall of brick, a gate, and a row of lime trees.",
		"The minutes record a long discussion of the heating and a short one of the accounts.",
		"Those who were there remember a cold hall, good soup, and a speech without an end.",
	}
)

// word is a name made of syllables; the number is written in them, so that names differ.
func word(n int) string {
	var b []byte
	for range 3 {
		b = append(b, syllables[n%len(syllables)]...)
		n /= len(syllables)
	}
	b[0] -= 'a' - 'A'
	return string(b)
}

// Person is the name of the nth person.
func (c Corpus) Person(n int) string {
	return given[n%len(given)] + " " + word(n/len(given)) + family[n%len(family)][:1] + "son"
}

func (c Corpus) firm(n int) string {
	return word(n+7000) + " " + kinds[n%len(kinds)] + " " + suffixes[n%len(suffixes)]
}

func (c Corpus) town(n int) string { return word(n+3000) + "burg" }

// Document returns the nth document, and another text under the same name for another version.
func (c Corpus) Document(n, version int) []byte {
	c = c.withDefaults()
	rng := rand.New(rand.NewPCG(c.Seed, uint64(n)<<16|uint64(version)))
	draw := func(of int) int {
		if rng.IntN(8) == 0 {
			return rng.IntN(10)
		}
		return rng.IntN(of) * c.Stride
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Notes %d\n\n", n)
	for i := 0; b.Len() < c.Bytes; i++ {
		switch rng.IntN(6) {
		case 0:
			fmt.Fprintf(&b, "%s works for %s. ", c.Person(draw(c.People)), c.firm(draw(c.Firms)))
		case 1:
			fmt.Fprintf(&b, "%s is based in %s. ", c.firm(draw(c.Firms)), c.town(draw(c.Towns)))
		case 2:
			fmt.Fprintf(&b, "%s acquired %s. ", c.firm(draw(c.Firms)), c.firm(draw(c.Firms)))
		default:
			b.WriteString(fillers[rng.IntN(len(fillers))] + " ")
		}
		if i%7 == 6 {
			b.WriteString("\n\n")
		}
	}
	return b.Bytes()
}

// Name is the path of the nth document below the corpus's directory.
func (c Corpus) Name(n int) string {
	return filepath.Join(fmt.Sprintf("%03d", n/1000), fmt.Sprintf("%06d.md", n))
}

// Write writes n documents below dir.
func (c Corpus) Write(dir string, n int) error {
	for i := range n {
		if err := c.WriteOne(dir, i, 0); err != nil {
			return err
		}
	}
	return nil
}

// WriteOne writes one document in a version below dir.
func (c Corpus) WriteOne(dir string, n, version int) error {
	path := filepath.Join(dir, c.Name(n))
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return fmt.Errorf("write the corpus: %w", err)
	}
	if err := os.WriteFile(path, c.Document(n, version), fs.FileMode(0o640)); err != nil {
		return fmt.Errorf("write the corpus: %w", err)
	}
	return nil
}
