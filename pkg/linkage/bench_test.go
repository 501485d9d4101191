package linkage

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// crowd makes names of one label as a big collection has them: family and given names of uneven frequency, initials, companies
// of common words with legal forms, universities, products with numbers. Equal seeds make equal names, each once.
type crowd struct {
	rnd    *rand.Rand
	given  []string
	family []string
	things []string
}

func newCrowd(seed uint64, n int) *crowd {
	c := &crowd{rnd: rand.New(rand.NewPCG(seed, 1))}
	syllables := strings.Fields("ba be bo bra cal can cha da del der do dor el en er fa fel fi gar ge gon ha hel ho in ja ka ken ko la len li lo ma mar men mi mo mon na nel ni no or pa per pi ra ren ri ro sa sel si so sta ta ten ti to tor ur va ver vi wa wen wil ya za")
	endings := strings.Fields("son sen man ton ley berg stein ski ova ov ez es ini ell ett ard er ing wood field a o i n")
	word := func(least, most int) string {
		var s string
		for range least + c.rnd.IntN(most-least+1) {
			s += syllables[c.rnd.IntN(len(syllables))]
		}
		return strings.ToUpper(s[:1]) + s[1:]
	}
	for range 3000 {
		c.given = append(c.given, word(2, 3))
	}
	for range 60000 {
		c.family = append(c.family, word(1, 3)+endings[c.rnd.IntN(len(endings))])
	}
	for range int(10 * math.Pow(float64(n), 0.6)) { // words of a language grow so with the text
		c.things = append(c.things, word(2, 4))
	}
	return c
}

// some picks early words far more often than late ones.
func (c *crowd) some(from []string) string {
	f := c.rnd.Float64()
	return from[int(f*f*f*float64(len(from)))]
}

func (c *crowd) person() string {
	g, s := c.some(c.given), c.some(c.family)
	switch f := c.rnd.IntN(100); {
	case f < 5:
		return g[:1] + ". " + s
	case f < 20:
		return g + " " + string(rune('A'+c.rnd.IntN(26))) + ". " + s
	case f < 40:
		return g + " " + c.some(c.given) + " " + s
	case f < 42:
		return "Dr. " + s
	}
	return g + " " + s
}

func (c *crowd) organization() string {
	a, b := c.some(c.things), c.some(c.things)
	kinds := []string{"Systems", "Energy", "Foods", "Partners", "Technologies", "Logistics", "Capital", "Media"}
	forms := []string{"", "", " Inc", " GmbH", " Ltd", " LLC", " Corp."}
	switch f := c.rnd.IntN(100); {
	case f < 10:
		return "University of " + a
	case f < 15:
		return "Institute of " + a + " and " + b + " Research"
	case f < 16:
		return strings.ToUpper(string([]rune(a)[:2]) + string([]rune(b)[:1+c.rnd.IntN(2)]))
	case f < 25:
		return "International " + a + " " + b + " Association of " + c.some(c.things)
	}
	return a + " " + b + " " + kinds[c.rnd.IntN(len(kinds))] + forms[c.rnd.IntN(len(forms))]
}

func (c *crowd) names(label string, n int) []string {
	seen := map[string]bool{}
	var out []string
	for len(out) < n {
		s := c.person()
		if label != "Person" {
			s = c.organization()
		}
		if seen[s] {
			s += " " + c.some(c.family) // the pool of short ones is small
		}
		if !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	return out
}

// load says how many other names each of the first ones finds by its probes when all are filed under their blocks: mean,
// 99th percentile, most; and how many keys a name has.
func load(names []string, label string, look int) (mean float64, p99, most int, perName float64) {
	asked := map[string][]int{} // key → which of the first look for it
	for i, s := range names[:look] {
		n := Prepare(label, s, nil)
		for _, k := range Probes(&n) {
			asked[k] = append(asked[k], i)
		}
	}
	counts := make([]int, look)
	met := make([]int, look) // the last name that was counted
	keys := 0
	for j, s := range names {
		n := Prepare(label, s, nil)
		for _, k := range Blocks(&n) {
			keys++
			for _, i := range asked[k] {
				if i != j && met[i] != j+1 {
					met[i] = j + 1
					counts[i]++
				}
			}
		}
	}
	slices.Sort(counts)
	sum := 0
	for _, c := range counts {
		sum += c
	}
	return float64(sum) / float64(look), counts[look*99/100], counts[look-1], float64(keys) / float64(len(names))
}

// TestFewNamesShareBlocks looks at how many names have to be compared with one: they grow far slower than the label.
// LINKAGE_NAMES=1000000 measures a big one: 21 persons compared with one, 280 at the 99th percentile.
func TestFewNamesShareBlocks(t *testing.T) {
	n := 20000
	if s := os.Getenv("LINKAGE_NAMES"); s != "" {
		var err error
		n, err = strconv.Atoi(s)
		require.NoError(t, err)
	}
	for _, label := range []string{"Person", "Organization"} {
		mean, p99, most, keys := load(newCrowd(7, n).names(label, n), label, 2000)
		t.Logf("%s, %d names: %.1f compared with a name, 99th percentile %d, most %d; %.1f keys a name", label, n, mean, p99, most, keys)
		require.Less(t, mean, 10+float64(n)/20000)
		require.Less(t, p99, 100+n/1000)
		require.Less(t, keys, 40.0)
	}
}

func BenchmarkPrepare(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Prepare("Organization", "International Business Machines Corporation", nil)
	}
}

func BenchmarkCompare(b *testing.B) {
	for _, p := range [][3]string{
		{"Person", "Charles Babbage", "Ada Lovelace"},
		{"Person", "Charles Babbage", "C. Babbage"},
		{"Person", "Charles Babbage", "Charles Babage"},
		{"Organization", "International Business Machines Corporation", "University of Northern Iowa"},
		{"Organization", "Northpoint Observatory of the South", "Northpoint Observatry of the South"},
		{"Organization", "Task 5", "Task 6"},
	} {
		b.Run(p[1]+"|"+p[2], func(b *testing.B) {
			b.ReportAllocs()
			x, y := Prepare(p[0], p[1], nil), Prepare(p[0], p[2], nil)
			for b.Loop() {
				Compare(&x, &y, Options{})
			}
		})
	}
	b.Run("strangers", func(b *testing.B) {
		b.ReportAllocs()
		var names []Name
		for _, s := range newCrowd(1, 2000).names("Person", 2000) {
			names = append(names, Prepare("Person", s, nil))
		}
		i := 0
		for b.Loop() {
			Compare(&names[i%2000], &names[(i*7+13)%2000], Options{})
			i++
		}
	})
}

func BenchmarkBlocks(b *testing.B) {
	for _, s := range []string{"Charles Babbage", "International Telecommunication Union", "Royal Astronomical Society of Canada, Toronto Centre for Stellar Physics"} {
		n := Prepare("Organization", s, nil)
		b.Run(fmt.Sprint(len(Blocks(&n)), " keys"), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Blocks(&n)
			}
		})
	}
}
