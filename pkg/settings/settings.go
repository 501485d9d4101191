// Package settings holds the pipeline settings of a graph: everything that can change what a document becomes. They belong
// to the graph, ride on every event of a job, and enter the fingerprints. How a service reaches its dependencies (addresses,
// slots, time-outs) is not here.
package settings

import (
	"cmp"
	"fmt"
	"sort"
	"strconv"
	"strings"

	"github.com/factmill/factmill/pkg/fingerprint"
	"github.com/factmill/factmill/pkg/schema"
)

// Versions of our own code that change what a document becomes. Raise one when its output changes.
const (
	// Tokenizer names the one tokenizer that counts everywhere.
	Tokenizer = "word/1"
	// SplitterVersion of the chunker.
	SplitterVersion = 1
	// TableVersion is how tables are rendered into chunks.
	TableVersion = 1
	// ValidatorVersion of the item validator.
	ValidatorVersion = 2
	// PromptID of the extraction prompt. Raise it with the prompt's file.
	PromptID = "extract/1"
	// RulesVersion of the embedded extractor's rule set.
	RulesVersion = 4
)

// Pipeline is the settings of one graph.
type Pipeline struct {
	Chunker   Chunker   `json:"chunker"`
	Extractor Extractor `json:"extractor"`
	Resolver  Resolver  `json:"resolver"`
	// Embedder of chunks and entity names: "hash" or "ollama". Defaults to "hash".
	Embedder string `json:"embedder"`
	// EmbedModel is the Ollama embedding model; used only with the "ollama" embedder.
	EmbedModel string `json:"embed_model,omitempty"`
}

// Chunker settings.
type Chunker struct {
	// Size is the most tokens a chunk has. Defaults to 600; 16…8192.
	Size int `json:"size"`
	// MinSize is where a chunk may end at a section start. Defaults to a quarter of Size; 1…Size-1.
	MinSize int `json:"min_size"`
}

// Extractor settings.
type Extractor struct {
	// Mode is "rules", "llm" or "hybrid". Defaults to "rules".
	Mode string `json:"mode"`
	// EntityCut is the confidence from which an entity mention is a fact. Defaults to 0.5.
	EntityCut float64 `json:"entity_cut"`
	// RelationCut is the confidence from which a relation is a fact. Defaults to 0.7.
	RelationCut float64 `json:"relation_cut"`
	// Floor is the confidence below which an item is only counted. Defaults to 0.3.
	Floor float64 `json:"floor"`
	// Assertions admitted as facts. Defaults to ["explicit"].
	Assertions []string `json:"assertions"`
	// MaxEntities and MaxRelations a chunk; hitting one marks it incomplete. Default to 200.
	MaxEntities  int `json:"max_entities"`
	MaxRelations int `json:"max_relations"`
	// Heading puts a chunk's heading path before its text for a model. Defaults to true.
	Heading bool `json:"heading"`
	// EscalationThreshold of the hybrid mode. Defaults to 0.75.
	EscalationThreshold float64 `json:"escalation_threshold"`
	// EscalationBudget of the hybrid mode: a share of chunks 0…1; 1 is "all". Defaults to 0.2.
	EscalationBudget float64 `json:"escalation_budget"`
	// Model of the llm and hybrid modes, as the model server names it.
	Model string `json:"model,omitempty"`
	// ModelDigest is what the server must have under that name. Empty: whatever it has.
	ModelDigest string `json:"model_digest,omitempty"`
	// WithoutModel is what the hybrid mode does while the model server is away: "wait", "fail" (the chunks), or "rules" (goes on with
	// what the rules found; the documents are read again by their next update). Defaults to "wait".
	WithoutModel string `json:"without_model,omitempty"`
	// MaxTokens that a job may spend on a model, prompts and replies; what is left then fails. 0 is no bound.
	MaxTokens int `json:"max_tokens,omitempty"`
}

// Asks says whether the mode asks a model.
func (e Extractor) Asks() bool { return e.Mode != "rules" }

// What the hybrid mode does while the model server is away.
const (
	WithoutModelWait  = "wait"
	WithoutModelFail  = "fail"
	WithoutModelRules = "rules"
)

// Default returns the settings of a new graph.
func Default() Pipeline {
	return Pipeline{
		Chunker: Chunker{Size: 600, MinSize: 150},
		Extractor: Extractor{
			Mode: "rules", EntityCut: 0.5, RelationCut: 0.7, Floor: 0.3, Assertions: []string{"explicit"},
			MaxEntities: 200, MaxRelations: 200, Heading: true, EscalationThreshold: 0.75, EscalationBudget: 0.2,
		},
		Resolver: Resolver{TopK: defaultTopK},
		Embedder: "hash",
	}
}

type field struct {
	get func(*Pipeline) string
	set func(*Pipeline, string) error
}

func intField(p func(*Pipeline) *int) field {
	return field{
		get: func(s *Pipeline) string { return strconv.Itoa(*p(s)) },
		set: func(s *Pipeline, v string) error {
			n, err := strconv.Atoi(strings.TrimSpace(v))
			if err != nil {
				return fmt.Errorf("%q is not a whole number", v)
			}
			*p(s) = n
			return nil
		},
	}
}

func floatField(p func(*Pipeline) *float64) field {
	return field{
		get: func(s *Pipeline) string { return strconv.FormatFloat(*p(s), 'g', -1, 64) },
		set: func(s *Pipeline, v string) error {
			n, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
			if err != nil {
				return fmt.Errorf("%q is not a number", v)
			}
			*p(s) = n
			return nil
		},
	}
}

func textField(p func(*Pipeline) *string) field {
	return field{
		get: func(s *Pipeline) string { return *p(s) },
		set: func(s *Pipeline, v string) error { *p(s) = strings.TrimSpace(v); return nil },
	}
}

var fields = map[string]field{
	"chunker.size": {
		get: func(s *Pipeline) string { return strconv.Itoa(s.Chunker.Size) },
		set: func(s *Pipeline, v string) error {
			n, err := strconv.Atoi(strings.TrimSpace(v))
			if err != nil {
				return fmt.Errorf("%q is not a whole number", v)
			}
			if s.Chunker.MinSize == s.Chunker.Size/4 { // still the default quarter: it follows
				s.Chunker.MinSize = max(1, n/4)
			}
			s.Chunker.Size = n
			return nil
		},
	},
	"chunker.min_size":               intField(func(s *Pipeline) *int { return &s.Chunker.MinSize }),
	"extractor.mode":                 textField(func(s *Pipeline) *string { return &s.Extractor.Mode }),
	"extractor.entity_cut":           floatField(func(s *Pipeline) *float64 { return &s.Extractor.EntityCut }),
	"extractor.relation_cut":         floatField(func(s *Pipeline) *float64 { return &s.Extractor.RelationCut }),
	"extractor.floor":                floatField(func(s *Pipeline) *float64 { return &s.Extractor.Floor }),
	"extractor.max_entities":         intField(func(s *Pipeline) *int { return &s.Extractor.MaxEntities }),
	"extractor.max_relations":        intField(func(s *Pipeline) *int { return &s.Extractor.MaxRelations }),
	"extractor.escalation_threshold": floatField(func(s *Pipeline) *float64 { return &s.Extractor.EscalationThreshold }),
	"extractor.escalation_budget": {
		get: func(s *Pipeline) string {
			if s.Extractor.EscalationBudget == 1 {
				return "all"
			}
			return strconv.FormatFloat(s.Extractor.EscalationBudget, 'g', -1, 64)
		},
		set: func(s *Pipeline, v string) error {
			if strings.TrimSpace(v) == "all" {
				s.Extractor.EscalationBudget = 1
				return nil
			}
			n, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
			if err != nil {
				return fmt.Errorf("%q is neither a share nor \"all\"", v)
			}
			s.Extractor.EscalationBudget = n
			return nil
		},
	},
	"extractor.assertions": {
		get: func(s *Pipeline) string { return strings.Join(s.Extractor.Assertions, ",") },
		set: func(s *Pipeline, v string) error {
			var out []string
			for _, a := range strings.Split(v, ",") {
				if a = strings.TrimSpace(a); a != "" {
					out = append(out, a)
				}
			}
			sort.Strings(out)
			s.Extractor.Assertions = out
			return nil
		},
	},
	"extractor.heading": {
		get: func(s *Pipeline) string { return strconv.FormatBool(s.Extractor.Heading) },
		set: func(s *Pipeline, v string) error {
			b, err := strconv.ParseBool(strings.TrimSpace(v))
			if err != nil {
				return fmt.Errorf("%q is neither true nor false", v)
			}
			s.Extractor.Heading = b
			return nil
		},
	},
	"resolver.top_k":        intField(func(s *Pipeline) *int { return &s.Resolver.TopK }),
	"resolver.judge":        judgeField,
	"resolver.judge_model":  textField(func(s *Pipeline) *string { return &s.Resolver.JudgeModel }),
	"resolver.judge_budget": countOr(defaultJudgeBudget, func(s *Pipeline) *int { return &s.Resolver.JudgeBudget }),
	"resolver.judge_pairs":  countOr(defaultJudgePairs, func(s *Pipeline) *int { return &s.Resolver.JudgePairs }),
	"resolver.review_floor": shareOr(defaultReviewFloor, func(s *Pipeline) *float64 { return &s.Resolver.ReviewFloor }),
	"resolver.token_sort":   shareOr(defaultTokenSort, func(s *Pipeline) *float64 { return &s.Resolver.TokenSort }),
	"resolver.link":         floatField(func(s *Pipeline) *float64 { return &s.Resolver.Link }),
	"resolver.drop":         floatField(func(s *Pipeline) *float64 { return &s.Resolver.Drop }),
	"embedder":              textField(func(s *Pipeline) *string { return &s.Embedder }),
	"extractor.max_tokens":  intField(func(s *Pipeline) *int { return &s.Extractor.MaxTokens }),
	"extractor.without_model": {
		get: func(s *Pipeline) string { return cmp.Or(s.Extractor.WithoutModel, WithoutModelWait) },
		set: func(s *Pipeline, v string) error {
			if v = strings.TrimSpace(v); v == WithoutModelWait {
				v = "" // as in settings that were stored before there was a choice
			}
			s.Extractor.WithoutModel = v
			return nil
		},
	},
	"ollama.model":        textField(func(s *Pipeline) *string { return &s.Extractor.Model }),
	"ollama.model_digest": textField(func(s *Pipeline) *string { return &s.Extractor.ModelDigest }),
	"ollama.embed_model":  textField(func(s *Pipeline) *string { return &s.EmbedModel }),
}

// Names lists the settings' names, sorted.
func Names() []string {
	out := make([]string, 0, len(fields))
	for n := range fields {
		out = append(out, n)
	}
	sort.Strings(out)
	return out
}

// Known says whether name is a pipeline setting.
func Known(name string) bool { _, ok := fields[name]; return ok }

// Set puts one setting by its name, for example "chunker.size". It does not check bounds: call Validate after the last one.
func (p *Pipeline) Set(name, value string) error {
	f, ok := fields[name]
	if !ok {
		return fmt.Errorf("unknown setting %q; settings are: %s", name, strings.Join(Names(), ", "))
	}
	if err := f.set(p, value); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Get returns one setting as text; empty for an unknown name.
func (p Pipeline) Get(name string) string {
	if f, ok := fields[name]; ok {
		return f.get(&p)
	}
	return ""
}

// Flat returns every setting as text by its name.
func (p Pipeline) Flat() map[string]string {
	out := make(map[string]string, len(fields))
	for n, f := range fields {
		out[n] = f.get(&p)
	}
	return out
}

// Apply sets several settings in the order of their names, and validates the result.
func (p Pipeline) Apply(values map[string]string) (Pipeline, error) {
	p.Extractor.Assertions = append([]string(nil), p.Extractor.Assertions...)
	names := make([]string, 0, len(values))
	for n := range values {
		names = append(names, n)
	}
	if m, ok := values["ollama.model"]; ok && strings.TrimSpace(m) != p.Extractor.Model {
		p.Extractor.ModelDigest = "" // another model's
	}
	// Descending, so that chunker.size moves its default quarter before chunker.min_size is set on purpose.
	sort.Sort(sort.Reverse(sort.StringSlice(names)))
	for _, n := range names {
		if err := p.Set(n, values[n]); err != nil {
			return p, err
		}
	}
	return p, p.Validate()
}

func between(name string, v, lo, hi float64) error {
	if v < lo || v > hi || v != v {
		return fmt.Errorf("%s is %v: it must be between %v and %v", name, v, lo, hi)
	}
	return nil
}

// Validate names the first setting that is out of its bounds.
func (p Pipeline) Validate() error {
	checks := []error{
		between("chunker.size", float64(p.Chunker.Size), 16, 8192),
		between("chunker.min_size", float64(p.Chunker.MinSize), 1, 8191),
		between("extractor.entity_cut", p.Extractor.EntityCut, 0, 1),
		between("extractor.relation_cut", p.Extractor.RelationCut, 0, 1),
		between("extractor.floor", p.Extractor.Floor, 0, 1),
		between("extractor.max_entities", float64(p.Extractor.MaxEntities), 1, 10000),
		between("extractor.max_relations", float64(p.Extractor.MaxRelations), 1, 10000),
		between("extractor.escalation_threshold", p.Extractor.EscalationThreshold, 0, 1),
		between("extractor.escalation_budget", p.Extractor.EscalationBudget, 0, 1),
		between("extractor.max_tokens", float64(p.Extractor.MaxTokens), 0, 1e12),
		p.Resolver.validate(),
	}
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	if p.Chunker.MinSize >= p.Chunker.Size {
		return fmt.Errorf("chunker.min_size is %d: it must be smaller than chunker.size (%d)", p.Chunker.MinSize, p.Chunker.Size)
	}
	switch p.Extractor.Mode {
	case "rules", "llm", "hybrid":
	default:
		return fmt.Errorf("extractor.mode is %q: it must be rules, llm or hybrid", p.Extractor.Mode)
	}
	if d := p.Extractor.ModelDigest; d != "" && (len(d) < 12 || len(d) > 64 || strings.Trim(d, "0123456789abcdef") != "") {
		return fmt.Errorf("ollama.model_digest is %.80q: it must be the digest that the model server lists, or empty", d)
	}
	switch p.Extractor.WithoutModel {
	case "", WithoutModelFail, WithoutModelRules:
	default:
		return fmt.Errorf("extractor.without_model is %q: it must be wait, fail or rules", p.Extractor.WithoutModel)
	}
	switch p.Embedder {
	case "hash", "ollama":
	default:
		return fmt.Errorf("embedder is %q: it must be hash or ollama", p.Embedder)
	}
	for _, a := range p.Extractor.Assertions {
		switch a {
		case "explicit", "inferred", "opinion":
		default:
			return fmt.Errorf("extractor.assertions names %q: it takes explicit, inferred, opinion", a)
		}
	}
	return nil
}

// Complete names what a valid choice of settings lacks in order to work.
func (p Pipeline) Complete() error {
	if p.Extractor.Asks() && p.Extractor.Model == "" {
		return fmt.Errorf("extractor.mode is %s and ollama.model is empty: name the model", p.Extractor.Mode)
	}
	if p.Embedder == "ollama" && p.EmbedModel == "" {
		return fmt.Errorf("embedder is ollama and ollama.embed_model is empty: name the model")
	}
	if model, _ := p.JudgeModel(); p.Resolver.Judges() && model == "" {
		return fmt.Errorf("resolver.judge is %s and neither resolver.judge_model nor ollama.model names a model: name one", p.Resolver.Judge)
	}
	return nil
}

// Diff lists "name: old -> new" for every setting in which a and b differ, sorted.
func Diff(a, b Pipeline) []string {
	var out []string
	for _, n := range Names() {
		if x, y := a.Get(n), b.Get(n); x != y {
			out = append(out, fmt.Sprintf("%s: %s -> %s", n, orNone(x), orNone(y)))
		}
	}
	return out
}

func orNone(s string) string {
	if s == "" {
		return "(none)"
	}
	return s
}

// ChunkerFingerprint covers everything that can move a chunk's bounds (spec 3, Fingerprints).
func (p Pipeline) ChunkerFingerprint() string {
	return hash(map[string]any{
		"size": p.Chunker.Size, "min_size": p.Chunker.MinSize,
		"tokenizer": Tokenizer, "splitter": SplitterVersion, "table": TableVersion,
	})
}

// ExtractionFingerprint covers everything that can change an extracted item besides the schema's own fingerprint
// (spec 3, Fingerprints).
func (p Pipeline) ExtractionFingerprint(s *schema.Schema) string {
	e := p.Extractor
	in := map[string]any{
		"descriptions": s.Descriptions(), "mode": e.Mode, "validator": ValidatorVersion,
		"entity_cut": num(e.EntityCut), "relation_cut": num(e.RelationCut), "floor": num(e.Floor), "assertions": e.Assertions,
		"max_entities": e.MaxEntities, "max_relations": e.MaxRelations,
	}
	if e.Mode != "llm" {
		in["rules_version"], in["rules"] = RulesVersion, s.RulesFingerprint()
	}
	if e.Asks() {
		in["model"], in["digest"], in["prompt"], in["heading"] = e.Model, e.ModelDigest, PromptID, e.Heading
	}
	if e.Mode == "hybrid" {
		in["escalation_threshold"] = num(e.EscalationThreshold)
	}
	return hash(in)
}

// num keeps a float's shortest text, so that 0.5 and 0.50 are one setting.
func num(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// hash is H16 of a value made of maps, lists, texts and numbers, which always encodes.
func hash(v any) string {
	h, err := fingerprint.H16(v)
	if err != nil {
		return ""
	}
	return h
}
