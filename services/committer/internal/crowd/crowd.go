// Package crowd makes names for tests and benchmarks of large graphs.
package crowd

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Crowd makes names as a big collection has them: a few names are very frequent, most are rare. Equal seeds make equal names.
type Crowd struct {
	rnd    *rand.Rand
	given  []string
	family []string
	things []string
	seen   map[string]bool
}

// New makes a crowd.
func New(seed uint64) *Crowd {
	c := &Crowd{rnd: rand.New(rand.NewPCG(seed, 7)), seen: map[string]bool{}}
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
func (c *Crowd) some(from []string) string {
	f := c.rnd.Float64()
	return from[int(f*f*f*float64(len(from)))]
}

// Person is a name of a person, often one that was made before.
func (c *Crowd) Person() string {
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

// Organization is likewise a name of a body.
func (c *Crowd) Organization() string {
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

// Numbered is a name of one word that all share, and a number.
func (c *Crowd) Numbered() string { return fmt.Sprintf("Sensor %d", c.rnd.IntN(100_000_000)) }

// Name makes one that was not made before.
func (c *Crowd) Name(what func() string) string {
	for {
		if s := what(); !c.seen[s] {
			c.seen[s] = true
			return s
		}
	}
}

// Slip changes a name a little, as typists do.
func (c *Crowd) Slip(s string) string {
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
