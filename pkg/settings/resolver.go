package settings

import (
	"fmt"
	"strconv"
	"strings"
)

// Resolver settings: which names of one label are linked. A zero field other than TopK is its default: so it is in settings and events
// from before there was a choice. None of them enters a fingerprint: links are found behind the commit.
type Resolver struct {
	// TopK is how many stored entities the global candidate source returns a mention. Defaults to 50; 1…50.
	TopK int `json:"top_k"`
	// Judge says who decides pairs that no method and no cosine decides: "none", or "ollama". Defaults to "none".
	Judge string `json:"judge,omitempty"`
	// JudgeModel is the judge's model, as the model server names it. Defaults to the extractor's (ollama.model).
	JudgeModel string `json:"judge_model,omitempty"`
	// JudgeBudget is the most model requests that a job may cause; what is left waits. Defaults to 200; 1…1,000,000. To ask nothing,
	// Judge is "none".
	JudgeBudget int `json:"judge_budget,omitempty"`
	// JudgePairs is the most pairs of one entity that the judge is asked about, the most similar first. Defaults to 20; 1…50.
	JudgePairs int `json:"judge_pairs,omitempty"`
	// ReviewFloor is the cosine from which an unclear pair waits for a person. Defaults to 0.9; 0.01…1.
	ReviewFloor float64 `json:"review_floor,omitempty"`
	// TokenSort is the ratio of sorted words from which two names link. Defaults to 0.97; 0.97…1.
	TokenSort float64 `json:"token_sort,omitempty"`
	// Link and Drop are cosines: from Link on two names link, under Drop they differ, between them they are unclear. 0 is the embedder's
	// own. Default to 0; 0…1, Drop not above Link.
	Link float64 `json:"link,omitempty"`
	Drop float64 `json:"drop,omitempty"`
}

// Judges.
const (
	JudgeNone   = "none"
	JudgeOllama = "ollama"
)

// Defaults of the resolver.
const (
	defaultTopK        = 50
	defaultJudgeBudget = 200
	defaultJudgePairs  = 20
	defaultReviewFloor = 0.9
	defaultTokenSort   = 0.97
)

// WithDefaults returns a copy with what is absent filled in. Link and Drop stay 0: they are the embedder's (see Thresholds), and so does
// JudgeModel (see Pipeline.JudgeModel).
func (r Resolver) WithDefaults() Resolver {
	if r.TopK == 0 {
		r.TopK = defaultTopK
	}
	if r.Judge == "" {
		r.Judge = JudgeNone
	}
	if r.JudgeBudget == 0 {
		r.JudgeBudget = defaultJudgeBudget
	}
	if r.JudgePairs == 0 {
		r.JudgePairs = defaultJudgePairs
	}
	if r.ReviewFloor == 0 {
		r.ReviewFloor = defaultReviewFloor
	}
	if r.TokenSort == 0 {
		r.TokenSort = defaultTokenSort
	}
	return r
}

// Judges says whether pairs are put before a model.
func (r Resolver) Judges() bool { return r.Judge != "" && r.Judge != JudgeNone }

// Thresholds returns the cosines that count, of those of an embedder and those that were set. When only one of them was set and lies on the
// wrong side of the embedder's other, nothing is unclear: both are the one that was set.
func (r Resolver) Thresholds(link, drop float64) (float64, float64) {
	switch {
	case r.Link > 0 && r.Drop > 0:
		return r.Link, r.Drop
	case r.Link > 0:
		return r.Link, min(drop, r.Link)
	case r.Drop > 0:
		return max(link, r.Drop), r.Drop
	}
	return link, drop
}

// JudgeModel returns the judge's model and what the server must have under that name; an empty digest is whatever it has.
func (p Pipeline) JudgeModel() (model, digest string) {
	if m := p.Resolver.JudgeModel; m != "" && m != p.Extractor.Model {
		return m, ""
	}
	return p.Extractor.Model, p.Extractor.ModelDigest
}

func (r Resolver) validate() error {
	d := r.WithDefaults()
	for _, err := range []error{
		between("resolver.top_k", float64(r.TopK), 1, 50),
		between("resolver.judge_budget", float64(d.JudgeBudget), 1, 1e6),
		between("resolver.judge_pairs", float64(d.JudgePairs), 1, 50),
		between("resolver.review_floor", d.ReviewFloor, 0.01, 1),
		between("resolver.token_sort", d.TokenSort, defaultTokenSort, 1),
		between("resolver.link", r.Link, 0, 1),
		between("resolver.drop", r.Drop, 0, 1),
	} {
		if err != nil {
			return err
		}
	}
	switch d.Judge {
	case JudgeNone, JudgeOllama:
	default:
		return fmt.Errorf("resolver.judge is %q: it must be none or ollama", r.Judge)
	}
	if r.Link > 0 && r.Drop > r.Link {
		return fmt.Errorf("resolver.drop is %v: it must not be above resolver.link (%v)", r.Drop, r.Link)
	}
	return nil
}

// judgeField keeps the default as nothing, as it is in settings that were stored before there was a choice.
var judgeField = field{
	get: func(s *Pipeline) string { return s.Resolver.WithDefaults().Judge },
	set: func(s *Pipeline, v string) error {
		if v = strings.TrimSpace(v); v == JudgeNone {
			v = ""
		}
		s.Resolver.Judge = v
		return nil
	},
}

// countOr and shareOr are fields whose default is stored as nothing; 0 itself is refused.
func countOr(def int, p func(*Pipeline) *int) field {
	f := intField(p)
	return field{
		get: func(s *Pipeline) string {
			if *p(s) == 0 {
				return strconv.Itoa(def)
			}
			return f.get(s)
		},
		set: func(s *Pipeline, v string) error {
			if err := f.set(s, v); err != nil {
				return err
			}
			switch *p(s) {
			case 0:
				return fmt.Errorf("it is 0: it must be at least 1")
			case def:
				*p(s) = 0
			}
			return nil
		},
	}
}

func shareOr(def float64, p func(*Pipeline) *float64) field {
	f := floatField(p)
	return field{
		get: func(s *Pipeline) string {
			if *p(s) == 0 {
				return num(def)
			}
			return f.get(s)
		},
		set: func(s *Pipeline, v string) error {
			if err := f.set(s, v); err != nil {
				return err
			}
			switch *p(s) {
			case 0:
				return fmt.Errorf("it is 0: it must be above 0")
			case def:
				*p(s) = 0
			}
			return nil
		},
	}
}
