package schema

import (
	"regexp"
	"strconv"
	"unicode/utf8"
)

// Rules are the hints for the embedded extractor. They are part of the extraction fingerprint, not of the schema's.
type Rules struct {
	Entities  map[string]EntityRules   `json:"entities,omitempty"`  // by label
	Relations map[string]RelationRules `json:"relations,omitempty"` // by label
}

// EntityRules say how names of one entity type look. Lists keep the order of the file.
type EntityRules struct {
	Names      []string `json:"names,omitempty"`      // whole names
	Suffixes   []string `json:"suffixes,omitempty"`   // last words of names, such as Inc
	Prefixes   []string `json:"prefixes,omitempty"`   // first words of names, such as University
	Honorifics []string `json:"honorifics,omitempty"` // words before names that are not part of them, such as Dr.
	Roles      []string `json:"roles,omitempty"`      // words beside names, such as engineer
	Patterns   []string `json:"patterns,omitempty"`   // regular expressions (RE2) that match whole names
}

// RelationRules are the words that state one relation. Lists keep the order of the file.
type RelationRules struct {
	Phrases        []string `json:"phrases,omitempty"`         // source phrase target
	InversePhrases []string `json:"inverse_phrases,omitempty"` // target phrase source
}

// What Review.Stale says about facts that a new version no longer states.
const (
	StaleWithdraw = "withdraw" // the default
	StaleReview   = "review"
	StaleKeep     = "keep"
)

// Review is the review policy. Auto-reject beats manual, manual beats auto-accept; within a list the first condition
// that fits decides. It is part of neither the schema nor the extraction fingerprint.
type Review struct {
	Version    string      `json:"version,omitempty"`
	Stale      string      `json:"stale"` // StaleWithdraw, StaleReview or StaleKeep; never empty after Parse
	AutoReject []Condition `json:"auto_reject,omitempty"`
	Manual     []Condition `json:"manual,omitempty"`
	AutoAccept []Condition `json:"auto_accept,omitempty"`
}

// Condition fits an item when everything it says holds; what it leaves out (empty, nil) holds for every item. No
// condition says nothing at all.
type Condition struct {
	Kind          string   `json:"kind,omitempty"` // entity, relation, property, match, stale, conflict, job
	Label         string   `json:"label,omitempty"`
	MinConfidence *float64 `json:"min_confidence,omitempty"` // at least, 0 to 1
	MaxConfidence *float64 `json:"max_confidence,omitempty"` // at most, 0 to 1
	Reason        string   `json:"reason,omitempty"`
	Assertion     string   `json:"assertion,omitempty"` // explicit, inferred, opinion
	Extractor     string   `json:"extractor,omitempty"`
	Scope         string   `json:"scope,omitempty"`
	Sensitive     *bool    `json:"sensitive,omitempty"` // of a property
	Deletes       *bool    `json:"deletes,omitempty"`   // the item would remove a fact
}

var (
	entityRuleFields   = []string{"names", "suffixes", "prefixes", "honorifics", "roles", "patterns"}
	relationRuleFields = []string{"phrases", "inverse_phrases"}
	reviewFields       = []string{"version", "stale", "auto_reject", "manual", "auto_accept"}
	conditionFields    = []string{
		"kind", "label", "min_confidence", "max_confidence", "reason", "assertion", "extractor", "scope", "sensitive", "deletes",
	}
	itemKinds  = []string{"entity", "relation", "property", "match", "stale", "conflict", "job"}
	assertions = []string{"explicit", "inferred", "opinion"}
	stales     = []string{StaleWithdraw, StaleReview, StaleKeep}
)

// maxPhrase is the length in characters of one hint or regular expression.
const maxPhrase = 500

func (r *reader) rules(d *draft, path string, n *node) {
	r.fields(path, n, []string{"entities", "relations"}, func(key, path string, value *node) {
		r.pairs(path, value, func(label, path string, value *node) {
			if key == "entities" {
				d.rulePaths = append(d.rulePaths, rulePath{KindEntity, label, path})
				d.rules.Entities[label] = r.entityRules(path, value)
				return
			}
			d.rulePaths = append(d.rulePaths, rulePath{KindRelation, label, path})
			d.rules.Relations[label] = r.relationRules(path, value)
		})
	})
}

func (r *reader) entityRules(path string, n *node) (out EntityRules) {
	r.fields(path, n, entityRuleFields, func(key, path string, value *node) {
		list := r.phrases(path, value)
		switch key {
		case "names":
			out.Names = list
		case "suffixes":
			out.Suffixes = list
		case "prefixes":
			out.Prefixes = list
		case "honorifics":
			out.Honorifics = list
		case "roles":
			out.Roles = list
		case "patterns":
			out.Patterns = list
			for i, expr := range list {
				re, err := regexp.Compile(expr)
				if err != nil {
					r.add(at(path, i), "bad regular expression: %v", err)
				} else if re.MatchString("") {
					r.add(at(path, i), "the regular expression %s matches nothing at all", quote(expr))
				}
			}
		}
	})
	return out
}

func (r *reader) relationRules(path string, n *node) (out RelationRules) {
	r.fields(path, n, relationRuleFields, func(key, path string, value *node) {
		if key == "phrases" {
			out.Phrases = r.phrases(path, value)
		} else {
			out.InversePhrases = r.phrases(path, value)
		}
	})
	return out
}

func (r *reader) phrases(path string, n *node) (out []string) {
	seen := map[string]bool{}
	r.texts(path, n, func(path, text string) {
		switch {
		case text == "":
			r.add(path, "is empty")
		case utf8.RuneCountInString(text) > maxPhrase:
			r.add(path, "is longer than %d characters", maxPhrase)
		case seen[text]:
			r.add(path, "%s stands here twice", quote(text))
		}
		seen[text] = true
		out = append(out, text)
	})
	return out
}

func (r *reader) review(d *draft, path string, n *node) {
	r.fields(path, n, reviewFields, func(key, path string, value *node) {
		switch key {
		case "version":
			d.review.Version = r.heading(path, value)
		case "stale":
			d.review.Stale = r.word(path, value, "policy", stales)
		case "auto_reject":
			d.review.AutoReject = r.conditions(path, value)
		case "manual":
			d.review.Manual = r.conditions(path, value)
		case "auto_accept":
			d.review.AutoAccept = r.conditions(path, value)
		}
	})
}

func (r *reader) conditions(path string, n *node) (out []Condition) {
	switch n.kind {
	case nullNode:
	case listNode:
		for i, item := range n.items {
			out = append(out, r.condition(at(path, i), item))
		}
	default:
		r.add(path, "must be a list, not %s", n.describe())
	}
	return out
}

func (r *reader) condition(path string, n *node) (c Condition) {
	if n.kind != mapNode || len(n.fields) == 0 {
		r.add(path, "a condition must say something, or it fits every item")
		return c
	}
	r.fields(path, n, conditionFields, func(key, path string, value *node) {
		if value.kind == nullNode {
			r.add(path, "is empty")
			return
		}
		switch key {
		case "kind":
			c.Kind = r.word(path, value, "kind", itemKinds)
		case "label":
			c.Label = r.filled(path, value)
		case "min_confidence":
			c.MinConfidence = r.confidence(path, value)
		case "max_confidence":
			c.MaxConfidence = r.confidence(path, value)
		case "reason":
			c.Reason = r.filled(path, value)
		case "assertion":
			c.Assertion = r.word(path, value, "assertion kind", assertions)
		case "extractor":
			c.Extractor = r.filled(path, value)
		case "scope":
			c.Scope = r.filled(path, value)
		case "sensitive":
			flag := r.boolean(path, value)
			c.Sensitive = &flag
		case "deletes":
			flag := r.boolean(path, value)
			c.Deletes = &flag
		}
	})
	if c.MinConfidence != nil && c.MaxConfidence != nil && *c.MinConfidence > *c.MaxConfidence {
		r.add(path, "min_confidence is above max_confidence")
	}
	return c
}

func (r *reader) filled(path string, n *node) string {
	text := r.text(path, n)
	if text == "" && n.kind == textNode {
		r.add(path, "is empty")
	}
	return text
}

func (r *reader) confidence(path string, n *node) *float64 {
	if n.kind == textNode && !n.quoted {
		if v, err := strconv.ParseFloat(n.text, 64); err == nil && v >= 0 && v <= 1 {
			if v == 0 {
				v = 0 // -0 is 0
			}
			return &v
		}
	}
	r.add(path, "must be a number from 0 to 1, not %s", n.describe())
	return nil
}
