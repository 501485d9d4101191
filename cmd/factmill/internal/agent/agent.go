// Package agent is what an agent may call: tools that read a graph over its query verbs, each with a name, a description, a JSON schema of its arguments
// and a result in text and in JSON. It knows nothing of how an agent reaches it: `factmill mcp` serves the tools to clients, `factmill ask` calls them.
//
// Whatever comes from documents is marked in results: running text stands on lines of its own that begin with "| ", which no text can leave (mark.go);
// names, keys and values stand in quotes with their control characters escaped. The limits of Options.Within are enforced where the query runs, not here.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/factmill/factmill/pkg/api"
)

// Asker asks a verb such as "query.search" and returns the reply as it came; a refusal is an *api.Error. The session of a command is one.
type Asker interface {
	Ask(ctx context.Context, verb string, req any) (json.RawMessage, error)
}

// Options say what an agent may see.
type Options struct {
	// Within limits every tool; nil or empty: the whole graph.
	Within *api.Within
	// Candidates offers search_unreviewed_candidates, unless Within limits anything. See CandidatesAllowed.
	Candidates bool
	// ResultBytes is about how long the text of a result may be; what is left follows with the cursor that the result gives. Defaults to DefaultResultBytes.
	ResultBytes int
}

// Bounds of Options.ResultBytes.
const (
	DefaultResultBytes = 24 << 10
	MinResultBytes     = 4 << 10
	MaxResultBytes     = 256 << 10
)

// Tool is one thing that an agent may do. All of them only read.
type Tool struct {
	Name        string
	Title       string
	Description string
	// InputSchema is a JSON schema of type object; Call refuses what it does not name.
	InputSchema json.RawMessage
	call        func(ctx context.Context, args json.RawMessage) (Result, error)
}

// Call runs the tool. What is wrong with the arguments, or is not in the graph, is a Result that is an Error and says the way out; an error is that the graph
// could not be asked.
func (t Tool) Call(ctx context.Context, args json.RawMessage) (Result, error) {
	r, err := t.call(ctx, args)
	if err == nil {
		return r, nil
	}
	var bad *argError
	if errors.As(err, &bad) {
		return failure(bad.code, bad.Error(), nil), nil
	}
	var refused *api.Error
	if errors.As(err, &refused) && refused.Status < 500 && refused.Status != 429 {
		return refusal(refused), nil
	}
	return Result{}, fmt.Errorf("%s: %w", t.Name, err)
}

// Result is what a tool found.
type Result struct {
	// Text is for a model: sentences of this package, and what comes from documents marked as such.
	Text string
	// Data is the same as JSON: an object with "seq", "notice", "results" and, where there is more, "next_cursor"; of an error {"error":{"code","message"}}.
	Data any
	// Error says that nothing was looked up, or that what was asked for is not there: Text names the argument and the way out.
	Error bool
	// Evidence are the evidence ids that Text shows, in order, each once.
	Evidence []string
	// Next is the cursor to go on with; empty at the end. The arguments must be the same but for cursor.
	Next string
}

// Kit is a set of tools over one graph.
type Kit struct {
	ask        Asker
	within     *api.Within
	candidates bool
	bytes      int
}

// New makes the tools of an agent.
func New(ask Asker, o Options) *Kit {
	k := &Kit{ask: ask, bytes: o.ResultBytes}
	if o.Within.Any() {
		k.within = o.Within
	}
	k.candidates = o.Candidates && k.within == nil
	if k.bytes == 0 {
		k.bytes = DefaultResultBytes
	}
	k.bytes = min(max(k.bytes, MinResultBytes), MaxResultBytes)
	return k
}

// Tools lists them, in a stable order. The context is for those that have to ask what there is; none has to now.
func (k *Kit) Tools(context.Context) []Tool {
	list := []Tool{k.searchTool(), k.findTool(), k.describeTool(), k.exploreTool(), k.pathTool(), k.typesTool(), k.readTool(), k.fetchTool(), k.checkTool()}
	if k.candidates {
		list = append(list, k.candidatesTool())
	}
	return list
}

// Tool finds one by name.
func (k *Kit) Tool(ctx context.Context, name string) (Tool, bool) {
	for _, t := range k.Tools(ctx) {
		if t.Name == name {
			return t, true
		}
	}
	return Tool{}, false
}

// CandidatesVariable is the environment variable that lets agents look at what nobody reviewed.
const CandidatesVariable = "AGENT_SEARCH_CANDIDATES"

// CandidatesAllowed reads the setting: "true", "1", "yes" and "on" in any case allow, "false", "0", "no", "off" and nothing do not; anything else is an error,
// so that a slip of the pen is no permission and does not go unseen.
func CandidatesAllowed(getenv func(string) string) (bool, error) {
	if getenv == nil {
		getenv = os.Getenv
	}
	switch v := strings.ToLower(strings.TrimSpace(getenv(CandidatesVariable))); v {
	case "true", "1", "yes", "on":
		return true, nil
	case "", "false", "0", "no", "off":
		return false, nil
	default:
		return false, fmt.Errorf("%s is %.40q: it must be true or false", CandidatesVariable, v)
	}
}

// get asks and decodes.
func get[R any](ctx context.Context, k *Kit, verb string, req any) (R, error) {
	var r R
	raw, err := k.ask.Ask(ctx, verb, req)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("the reply of %s: %w", verb, err)
	}
	return r, nil
}

// Unreachable is a result for what Call returned as an error: the graph could not be asked.
func Unreachable(err error) Result {
	return failure("not_reached", "the graph could not be asked: "+clip(err.Error())+"; try again, or tell the person who runs it", nil)
}
