package render

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/schema"
)

// peopleWhy says why a candidate waits for people, in words.
var peopleWhy = []struct{ why, words string }{
	{api.PeopleNoCondition, "no condition fits"},
	{api.PeopleManual, "a condition asks people"},
	{api.PeopleDiffer, "its records get different verdicts"},
	{api.PeopleEdited, "somebody edited it"},
	{api.PeopleDecided, "somebody decided it, and a part failed alone"},
	{api.PeopleTakenBack, "somebody took a decision back"},
}

// Policy shows what a review policy would do.
func Policy(w io.Writer, r api.ReviewPolicyReply) error {
	p := &printer{w: w}
	whose := "tried, not active"
	if r.Active {
		whose = "active"
	}
	version := r.Version
	if version == "" {
		version = "without a version"
	}
	p.f("policy %s (%s), of schema %s %s: %s", version, r.Fingerprint, r.Schema, r.SchemaVersion, whose)
	p.f("%s in %s: %s would be decided", Count(r.Keys, "candidate waits", "candidates wait"), Count(r.Records, "record", "records"), Number(r.Decided))
	if len(r.Conditions) == 0 {
		p.f("it has no conditions: all wait for people")
	}
	for _, c := range r.Conditions {
		if c.Fits == 0 {
			continue
		}
		p.f("\n%s[%d]  %s", c.List, c.Index, condition(c.Condition))
		p.f("  %s %s, in %s%s", policyVerb(c.List), Count(c.Keys, "candidate", "candidates"), Count(c.Records, "record", "records"), blocked(c.Blocked))
		for _, k := range c.Samples {
			p.f("    %s", k)
		}
		if n := c.Keys - len(c.Samples); n > 0 && len(c.Samples) > 0 {
			p.f("    and %s more", Number(n))
		}
	}
	if len(r.Unused) > 0 {
		p.f("\nfits nothing that waits")
		for _, u := range r.Unused {
			said := ""
			for _, c := range r.Conditions {
				if c.PolicyRule == u {
					said = "  " + condition(c.Condition)
				}
			}
			p.f("  %s[%d]%s", u.List, u.Index, said)
		}
		if n := r.UnusedTotal - len(r.Unused); n > 0 {
			p.f("  and %s more", Number(n))
		}
	}
	if len(r.People)+len(r.Blocked) > 0 {
		p.f("\nwaits for people")
		t := NewTable(">", "")
		for _, x := range peopleWhy {
			if n := r.People[x.why]; n > 0 {
				t.Row("  "+Number(n), x.words)
			}
		}
		for _, why := range Keys(r.Blocked) {
			t.Row("  "+Number(r.Blocked[why]), "it cannot be approved: "+why)
		}
		p.table(t)
	}
	return p.err
}

func policyVerb(list string) string {
	switch list {
	case string(schema.VerdictReject):
		return "rejects"
	case string(schema.VerdictAccept):
		return "approves"
	}
	return "keeps for people"
}

func blocked(n int) string {
	if n == 0 {
		return ""
	}
	return "; " + Number(n) + " cannot be approved yet"
}

// condition is a condition as a schema file says it.
func condition(c schema.Condition) string {
	var parts []string
	add := func(name, value string) {
		if value != "" {
			parts = append(parts, name+": "+value)
		}
	}
	number := func(v *float64) string {
		if v == nil {
			return ""
		}
		return strconv.FormatFloat(*v, 'g', -1, 64)
	}
	flag := func(v *bool) string {
		if v == nil {
			return ""
		}
		return fmt.Sprint(*v)
	}
	add("kind", c.Kind)
	add("label", c.Label)
	add("min_confidence", number(c.MinConfidence))
	add("max_confidence", number(c.MaxConfidence))
	add("reason", c.Reason)
	add("assertion", c.Assertion)
	add("extractor", c.Extractor)
	add("scope", c.Scope)
	add("sensitive", flag(c.Sensitive))
	add("deletes", flag(c.Deletes))
	return "{" + strings.Join(parts, ", ") + "}"
}
