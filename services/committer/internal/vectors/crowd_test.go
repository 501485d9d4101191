package vectors

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/factmill/factmill/pkg/embed"
	"github.com/factmill/factmill/services/committer/internal/store"
)

const g = "default"

func openStore(tb testing.TB, dir string) *store.Store {
	tb.Helper()
	st, err := store.Open(context.Background(), store.Options{Dir: dir})
	require.NoError(tb, err)
	_, ok := st.Graph(g, true)
	require.True(tb, ok)
	return st
}

func openIndex(tb testing.TB) *Index {
	tb.Helper()
	st := openStore(tb, tb.TempDir())
	tb.Cleanup(func() { require.NoError(tb, st.Close()) })
	x, err := Open(context.Background(), st, g, OptionsFor(embed.NewHash()))
	require.NoError(tb, err)
	return x
}

// idOf is an id made of a number, spread as hashes are.
func idOf(n int) string {
	sum := sha256.Sum256([]byte(fmt.Sprint(n)))
	return uuid(sum[:16]).String()
}

func hashed(text string) []float32 {
	v, _ := embed.NewHash().Embed(context.Background(), []string{text})
	return v[0]
}

func item(n int, label, name string) Item {
	return Item{Ref: Ref{Entity, idOf(n)}, Label: label, Text: name, Vector: hashed(name)}
}

// crowd makes names as a big collection has them: a few names are very frequent, most are rare. Equal seeds make equal names.
type crowd struct {
	rnd    *rand.Rand
	given  []string
	family []string
	things []string
	seen   map[string]bool
}

func newCrowd(seed uint64) *crowd {
	c := &crowd{rnd: rand.New(rand.NewPCG(seed, 7)), seen: map[string]bool{}}
	start := strings.Fields("b br c ch cl d dr f fr g gr h j k kl l m n p pr qu r s sch sh st t th tr v w z")
	vowel := strings.Fields("a e i o u ai au ea ee ie oo ou y")
	end := strings.Fields("l ll m n nd ng nt r rd rt s ss st t tt x ck")
	tail := strings.Fields("son sen man ton ley berg stein ski ova ov ez ini ell ett ard er ing wood field a o i n")
	pick := func(from []string) string { return from[c.rnd.IntN(len(from))] }
	word := func(least, most int) string {
		var s string
		for range least + c.rnd.IntN(most-least+1) {
			s += pick(start) + pick(vowel)
			if c.rnd.IntN(2) == 0 {
				s += pick(end)
			}
		}
		return strings.ToUpper(s[:1]) + s[1:]
	}
	for range 3000 {
		c.given = append(c.given, word(2, 2))
	}
	for range 80000 {
		c.family = append(c.family, word(1, 2)+pick(tail))
	}
	for range 30000 {
		c.things = append(c.things, word(2, 3))
	}
	return c
}

// some picks early words far more often than late ones.
func (c *crowd) some(from []string) string {
	f := c.rnd.Float64()
	return from[int(f*f*f*float64(len(from)))]
}

func (c *crowd) person() string {
	a, s := c.some(c.given), c.some(c.family)
	switch f := c.rnd.IntN(100); {
	case f < 4:
		return a[:1] + ". " + s
	case f < 20:
		return a + " " + string(rune('A'+c.rnd.IntN(26))) + ". " + s
	case f < 40:
		return a + " " + c.some(c.given) + " " + s
	case f < 42:
		return "Dr. " + a + " " + s
	case f < 45:
		return a + " " + s + "-" + c.some(c.family)
	}
	return a + " " + s
}

func (c *crowd) organization() string {
	a, b := c.some(c.things), c.some(c.things)
	kinds := []string{"Systems", "Energy", "Foods", "Partners", "Technologies", "Logistics", "Capital", "Media"}
	forms := []string{"", "", " Inc", " GmbH", " Ltd", " LLC", " Corp."}
	switch f := c.rnd.IntN(100); {
	case f < 10:
		return "University of " + a
	case f < 18:
		return "Institute of " + a + " and " + b + " Research"
	case f < 25:
		return "International " + a + " " + b + " Association of " + c.some(c.things)
	case f < 50:
		return a + " " + b + forms[c.rnd.IntN(len(forms))]
	}
	return a + " " + kinds[c.rnd.IntN(len(kinds))] + forms[c.rnd.IntN(len(forms))]
}

func (c *crowd) numbered() string { return fmt.Sprintf("Sensor %d", c.rnd.IntN(100_000_000)) }

// name makes one that was not made before.
func (c *crowd) name(what func() string) string {
	for {
		if s := what(); !c.seen[s] {
			c.seen[s] = true
			return s
		}
	}
}

// slip changes a name a little, as typists do.
func (c *crowd) slip(s string) string {
	r := []rune(s)
	switch i := c.rnd.IntN(len(r)); c.rnd.IntN(5) {
	case 0:
		return string(append(r[:i:i], r[i+1:]...))
	case 1:
		r[i] = rune('a' + c.rnd.IntN(26))
		return string(r)
	case 2:
		w := strings.Fields(s)
		c.rnd.Shuffle(len(w), func(i, j int) { w[i], w[j] = w[j], w[i] })
		return strings.Join(w, " ")
	case 3:
		return s + " Jr."
	}
	return s
}
