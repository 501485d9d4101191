// Package linkage compares the names of two entities of one label, and groups what is linked. It is pure: a verdict
// depends on the two names alone, is the same from either side, and needs no store, no model and no order.
//
// Exact names (equal merge keys) are one entity already. Everything here only links: nothing merges, a reviewer can take
// any link apart. Precision comes before recall: a method that is right in most pairs but not in nearly all finds
// them unclear, and a person decides.
package linkage

import "slices"

// Version of what Compare, Blocks and Probes make of names. Raise it when one of them changes: names that are filed and compared are then
// filed and compared anew.
const Version = 1

// Method names what decided about a pair.
type Method string

// The methods, in the order in which they are asked. Word lists are in data/.
const (
	// Exact: equal merge keys. Links.
	Exact Method = "exact"

	// TooLong: a name of over MaxRunes runes. Vetoes.
	TooLong Method = "length"
	// Numbers: tokens with digits differ (Task 5, Task 6; iPhone 5s, 5c), numerals and number words read as digits;
	// a number on one side alone counts. Vetoes; the same numbers in another order are unclear.
	Numbers Method = "numbers"
	// Generation: Jr. and Sr., II and III. Vetoes; on one side alone, unclear.
	Generation Method = "generation"
	// Marks: C, C++, C#; .NET, Net; acronyms of a letter's difference. Vetoes.
	Marks Method = "marks"
	// Contrast: words of one set in data/contrasts.txt (north, south), or single letters that differ (Vitamin C, D). Vetoes.
	Contrast Method = "contrast"
	// Qualifier: what stands in brackets behind a name, or behind the comma of a place (Springfield, Illinois). Vetoes when
	// both have one and they differ; unclear when one has none.
	Qualifier Method = "qualifier"
	// Title: Mr. and Mrs., King and Queen. Vetoes.
	Title Method = "title"
	// GivenName: given names before one family name that are no forms of each other, initials included. Vetoes.
	GivenName Method = "given name"

	// Alias: the name of one is a declared alias of the other, or stands in its brackets as its acronym. Links; whoever
	// declared it knows better than every veto but that of differing numbers. An alias that both have is unclear.
	Alias Method = "alias"
	// Punctuation: the same words. Links.
	Punctuation Method = "punctuation"
	// Diacritics: the same words without accents, umlauts in both spellings. Links.
	Diacritics Method = "diacritics"
	// Order: the same words in another order, "Babbage, Charles" included. Links. Where words as "of" are needed too
	// (University of Miami, Miami University) unclear.
	Order Method = "order"
	// Spacing: the same letters with other blanks. Links from five letters on.
	Spacing Method = "spacing"
	// Article: The Beatles, Beatles. Links.
	Article Method = "article"
	// LegalSuffix: the same name with and without a legal form. Links; different forms, or a word as Group, unclear.
	LegalSuffix Method = "legal suffix"
	// Honorific: the same name of a person with and without a title. Links for two names or more, else unclear.
	Honorific Method = "honorific"
	// Abbreviation: words in data/abbreviations.txt, numerals, and spelling variants written out. Links. Words cut
	// short by dots (J. Appl. Phys.) link when three or more letters are left of one of them, else unclear.
	Abbreviation Method = "abbreviation"
	// Transliteration: the same word in two scripts or romanisations; Slavic endings. Links. Spellings that only share
	// their consonants (Mohammed, Muhammad) are unclear.
	Transliteration Method = "transliteration"
	// KnownPlace: names of one place in data/places.txt. Links.
	KnownPlace Method = "known place"
	// Initials: C. Babbage. Links; before a very frequent family name, unclear.
	Initials Method = "initials"
	// Nickname: Bill for William. Links; short forms of more than one name, and frequent family names, unclear.
	Nickname Method = "nickname"
	// MiddleName: a given name more on one side. Unclear.
	MiddleName Method = "middle name"
	// ShortName: a family name alone. Links behind a title as Mr. (Mr. Holmes, Sherlock Holmes) unless that is said of the other sex, else
	// unclear; nothing for very frequent names.
	ShortName Method = "short name"
	// Acronym: the first letters of the words. Links from four letters on; WHO has too many readings and is unclear.
	Acronym Method = "acronym"
	// Typo: one edit in one long word, everything else equal. Links where a slip is likelier than another word: two
	// letters swapped, a letter doubled, dropped or wrong in the inside; unclear at either end of the word, between
	// words of data/distinct.txt, and for a vowel in a person's name.
	Typo Method = "typo"
	// TokenSort: the sorted words are alike, 1 - indels / letters ≥ 0.97, in one word, in two that keep
	// their first letters, or in blanks. Links and never rejects.
	TokenSort Method = "token sort"

	// Cosine: see Verdict.WithCosine.
	Cosine Method = "cosine"
)

// Outcome is what a verdict comes to.
type Outcome string

// The outcomes. None says that nothing speaks for the pair: another tier may. Vetoed says that no tier may link it.
const (
	Link    Outcome = "link"
	Unclear Outcome = "unclear"
	None    Outcome = "none"
	Vetoed  Outcome = "vetoed"
)

// Verdict is what was found about a pair. Method is empty and Score 0 when the outcome is None.
type Verdict struct {
	Method  Method
	Score   float64 // 0…1: the method's own strength, or the similarity that it measured; 0 for a veto
	Outcome Outcome
}

// Options of a comparison. The zero value has the defaults.
type Options struct {
	// TokenSort is the ratio from which token-sort links. Defaults to 0.97, which is also its least: Blocks promises no more.
	TokenSort float64
	// Review are methods that shall only find a pair unclear where they would link it.
	Review []Method
}

// DefaultTokenSort is the ratio from which token-sort links.
const DefaultTokenSort = 0.97

// Repeats says whether two names are the same words, some of them said more often in one: vectors of words do not tell these apart.
func Repeats(a, b *Name) bool {
	return len(a.tokens) != len(b.tokens) && slices.Equal(slices.Compact(slices.Clone(a.tokens)), slices.Compact(slices.Clone(b.tokens)))
}

// WithCosine adds the next tier to a verdict: a pair of which nothing was said links from link on and is unclear from
// drop on. A link, a veto, and what a method found unclear for its own reason stay as they are.
func (v Verdict) WithCosine(cosine, link, drop float64) Verdict {
	switch {
	case v.Outcome != None:
		return v
	case cosine >= link:
		return Verdict{Cosine, cosine, Link}
	case cosine >= drop:
		return Verdict{Cosine, cosine, Unclear}
	}
	return v
}
