package researcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/factmill/factmill/pkg/fault"
	"github.com/factmill/factmill/pkg/llm"
)

const (
	// room is what is asked of a reply at first, in tokens; a reply that was cut is asked for again with twice as much.
	room = 512
	// maxShown is how much evidence a turn shows, in bytes; minShown is below what a turn makes no sense.
	maxShown, minShown = 9000, 300
	// maxRefused is how many steps that were taken before a model may ask for again, before only an answer is left.
	maxRefused = 2
	// maxDenied is how many answers without one supported sentence are given back with the reasons.
	maxDenied = 1
	// maxAbout is how much is said of what one place is evidence of, in bytes.
	maxAbout = 300
	// overhead of a turn's messages besides evidence and system, in bytes.
	overhead = 400
)

// Researcher answers questions, one at a time.
type Researcher struct {
	Desk Desk
	// Caller asks Model; nil when there is no model, and NoModel says why.
	Caller  *llm.Caller
	Model   string
	NoModel string
	Limits  Limits
	// Say, when given, is told what happens, a line a step.
	Say func(line string)
	Now func() time.Time
}

// inquiry is one question on its way.
type inquiry struct {
	*Researcher
	reply   *Reply
	use     llm.Usage
	guessed int // tokens of calls whose server counted none
	// forced is why only an answer is left: one of the Stop constants.
	forced  string
	refused int
	denied  int
	slowest time.Duration
	begun   time.Time
	words   map[string]float64 // of the question, by weight
	counted int                // prompt tokens before the call at hand
	end     time.Time
}

// Ask researches a question. What a model could not support, and that none answered, is in the reply; the error is of the way to
// the graph, or of ctx.
func (r *Researcher) Ask(ctx context.Context, question string) (*Reply, error) {
	question = llm.Clip(strings.TrimSpace(question), MaxQuestion)
	q := &inquiry{Researcher: r, begun: r.Now(), reply: &Reply{
		Question: question, Answer: []Sentence{}, Unsupported: []Unsupported{}, Evidence: []Evidence{}, Steps: []Step{}, Tokens: Tokens{Limit: r.Limits.Tokens},
	}}
	q.end = q.begun.Add(r.Limits.Time)
	limited, stop := context.WithDeadline(ctx, q.end)
	defer stop()
	found, err := r.Desk.Do(limited, Action{Name: ActSearch, Query: question}, Evidence{})
	if err != nil {
		return nil, fmt.Errorf("search for the question: %w", err)
	}
	q.words = weigh(contentWords(question), found.Evidence)
	q.take(found)
	q.say("search for the question: %s", pieces(len(q.reply.Evidence)))
	if len(q.reply.Evidence) > 0 && !slices.ContainsFunc(q.reply.Evidence, func(e Evidence) bool { return shareWord(contentWords(question), contentWords(e.Quote)) }) {
		q.note("none of the evidence has a word of the question: it is what lies nearest by vector")
	}
	if r.Caller == nil {
		q.stop(StopNoModel, r.NoModel)
	} else if err := q.research(ctx, limited); err != nil {
		return nil, err
	}
	out := q.reply
	out.Tokens.Prompt, out.Tokens.Completion, out.Tokens.Requests = q.use.PromptTokens+q.guessed, q.use.CompletionTok, q.use.Requests
	if q.use.Requests > 0 {
		out.Model, out.PromptID = r.Model, PromptID
	}
	for i := range out.Evidence {
		out.Evidence[i].Cited = slices.ContainsFunc(out.Answer, func(s Sentence) bool {
			return slices.ContainsFunc(s.Citations, func(c Citation) bool { return c.N == out.Evidence[i].N })
		})
	}
	out.Millis = r.Now().Sub(q.begun).Milliseconds()
	return out, nil
}

// research takes turns until there is an answer or a bound is met. limited is ctx with the bound of time.
func (q *inquiry) research(ctx, limited context.Context) error {
	for n := 1; ; n++ {
		q.bounds(n)
		show := min(maxShown, 3*(q.left()-2*room)-len(system)-overhead-len(q.reply.Question))
		if show < minShown {
			q.stop(StopTokens, fmt.Sprintf("%d of %d tokens are left, too few to ask once more", max(0, q.left()), q.Limits.Tokens))
			return nil
		}
		a, over, err := q.decide(ctx, limited, n, show)
		if err != nil || over {
			return err
		}
		if a.Name == ActAnswer {
			if over, err := q.answered(ctx, n, a); over || err != nil {
				return err
			}
		} else if over, err := q.lookUp(ctx, limited, n, a); over || err != nil {
			return err
		}
	}
}

// bounds forces an answer where a bound is near.
func (q *inquiry) bounds(n int) {
	if q.forced != "" {
		return
	}
	switch spent := q.spent(); {
	case n >= q.Limits.Steps:
		q.forced = StopSteps
	case n > 1 && q.left() < 2*spent/(n-1):
		q.forced = StopTokens
	case n > 1 && q.end.Sub(q.Now()) < 2*q.slowest:
		q.forced = StopTime
	}
}

func (q *inquiry) spent() int { return q.use.PromptTokens + q.use.CompletionTok + q.guessed }
func (q *inquiry) left() int  { return q.Limits.Tokens - q.spent() }

// decide asks the model for its step. over: the research has ended.
func (q *inquiry) decide(ctx, limited context.Context, n, show int) (a Action, over bool, err error) {
	last := q.forced != ""
	text, shown, err := prompt(q.reply.Question, q.reply.Evidence, q.reply.Steps, n, q.Limits.Steps, show, last)
	if err != nil {
		return a, true, err
	}
	f, err := format(shown, last)
	if err != nil {
		return a, true, err
	}
	guess := (len(system) + len(text)) / 3
	q.use.Repaired = false
	calls := 0
	ask := llm.Question{
		Call: llm.Call{
			Model: q.Model, Format: f, Room: room, NoThoughts: true,
			Messages: []llm.Message{{Role: "system", Content: system}, {Role: "user", Content: text}},
		},
		Read:   func(content string) (err error) { a, err = parse(content, last); return err },
		Repair: repair,
		Afford: func(context.Context) error {
			if calls++; calls > 1 && q.left() < guess+2*room {
				return errTokens
			}
			return nil
		},
		Spent: func(context.Context, int) error {
			if q.use.PromptTokens == q.counted { // the server counts none, as some do of a prompt they know
				q.guessed += guess
			}
			q.counted = q.use.PromptTokens
			return nil
		},
	}
	begun := q.Now()
	_, err = q.Caller.Ask(limited, ask, &q.use)
	q.slowest = max(q.slowest, q.Now().Sub(begun))
	if err == nil {
		return a, false, nil
	}
	return a, true, q.ended(ctx, limited, err)
}

var errTokens = errors.New("the tokens are spent")

// ended says why a model gave no step. What it returns is an error of ctx alone.
func (q *inquiry) ended(ctx, limited context.Context, err error) error {
	var no *llm.Unusable
	var away *llm.AwayError
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("ask the model: %w", context.Cause(ctx))
	case limited.Err() != nil:
		q.stop(StopTime, fmt.Sprintf("the model had not answered within %s", q.Limits.Time))
	case errors.Is(err, errTokens):
		q.stop(StopTokens, fmt.Sprintf("%d of %d tokens are left, too few to ask once more", max(0, q.left()), q.Limits.Tokens))
	case errors.As(err, &no) && no.Code == llm.CodeError:
		q.stop(StopError, no.Error())
	case errors.As(err, &no) && no.Code == llm.CodeTruncated:
		q.stop(StopReply, fmt.Sprintf("the model did not end its reply: %v", no))
	case errors.As(err, &no):
		q.stop(cmp.Or(q.forcedBy(no), StopReply), fmt.Sprintf("the model's reply cannot be used (%s): %v", no.Code, no))
	case errors.As(err, &away):
		q.stop(StopAway, away.Error())
	case fault.Of(err).Code == llm.CodeBusy:
		q.stop(StopBusy, err.Error())
	case fault.Of(err).Code == llm.CodeAway:
		q.stop(StopAway, err.Error())
	default:
		q.stop(StopError, err.Error())
	}
	return nil
}

// forcedBy is the bound that was met when a model went on looking things up where only an answer was left.
func (q *inquiry) forcedBy(no *llm.Unusable) string {
	if q.forced != "" && strings.HasPrefix(no.Error(), onlyAnswer) {
		return q.forced
	}
	return ""
}

// lookUp takes a step other than an answer.
func (q *inquiry) lookUp(ctx, limited context.Context, n int, a Action) (over bool, err error) {
	s := Step{N: n, Action: a, Found: []int{}}
	var at Evidence
	if a.Name == ActRead {
		if i := slices.IndexFunc(q.reply.Evidence, func(e Evidence) bool { return e.N == a.Evidence }); i >= 0 {
			at = q.reply.Evidence[i]
		} else {
			s.Refused = fmt.Sprintf("there is no evidence %d", a.Evidence)
		}
	}
	if before := q.before(a); before >= 0 {
		s.Refused = "it is what the search for the question was"
		if before > 0 {
			s.Refused = fmt.Sprintf("it was taken as step %d: its result is there", before)
		}
		if q.refused++; q.refused >= maxRefused && q.forced == "" {
			q.forced = StopLoop
		}
	}
	if s.Refused == "" {
		found, err := q.Desk.Do(limited, a, at)
		switch {
		case err != nil && ctx.Err() != nil:
			return true, err
		case err != nil && limited.Err() != nil:
			q.stop(StopTime, fmt.Sprintf("step %d had not ended within %s", n, q.Limits.Time))
			return true, nil
		case err != nil:
			return true, fmt.Errorf("step %d, %s: %w", n, a.Name, err)
		}
		s.Found, s.Note = q.take(found), found.Note
	}
	q.reply.Steps = append(q.reply.Steps, s)
	q.say("step %d: %s", n, s.what())
	return false, nil
}

// answered judges an answer. One of which nothing is left is given back once, while there are steps.
func (q *inquiry) answered(ctx context.Context, n int, a Action) (over bool, err error) {
	good, bad, err := q.check(ctx, a.Sentences)
	if err != nil {
		return true, err
	}
	s := Step{N: n, Action: Action{Name: ActAnswer}, Found: []int{}, Note: fmt.Sprintf("%d of %s supported", len(good), sentences(len(a.Sentences)))}
	again := len(good) == 0 && len(bad) > 0 && q.denied < maxDenied && q.forced == ""
	if again {
		q.denied++
		why := make([]string, 0, len(bad))
		for _, b := range bad[:min(len(bad), 3)] {
			why = append(why, b.Reason)
		}
		s.Refused = "no sentence of it is supported: " + strings.Join(why, "; ")
	}
	q.reply.Steps = append(q.reply.Steps, s)
	q.say("step %d: %s", n, s.what())
	if again {
		return false, nil
	}
	for _, m := range a.Missing {
		bad = append(bad, Unsupported{m, "the model says that no evidence says it"})
	}
	q.reply.Answer = append(q.reply.Answer, good...)
	q.reply.Unsupported = append(q.reply.Unsupported, bad...)
	why := ""
	if len(good) == 0 {
		why = "nothing that the model said is supported"
		if len(a.Sentences) == 0 {
			why = "the model says that the evidence does not answer it"
		}
	}
	q.stop(cmp.Or(q.forced, StopAnswered), why)
	return true, nil
}

// before is the number of the step that was the same, 0 for the search for the question; -1: there was none.
func (q *inquiry) before(a Action) int {
	same := func(b Action) bool {
		return a.Name == b.Name && a.Evidence == b.Evidence && alike(a.Query, b.Query) && alike(a.Relation, b.Relation) && alike(a.From, b.From) && alike(a.To, b.To)
	}
	if same(Action{Name: ActSearch, Query: q.reply.Question}) {
		return 0
	}
	for _, s := range q.reply.Steps {
		if same(s.Action) {
			return s.N
		}
	}
	return -1
}

// alike says whether two texts differ in case and white space at most.
func alike(a, b string) bool {
	return strings.EqualFold(strings.Join(strings.Fields(a), " "), strings.Join(strings.Fields(b), " "))
}

// take adds what was found to the pieces, each place of a document once, and returns their numbers.
func (q *inquiry) take(f Found) []int {
	q.reply.Seq = max(q.reply.Seq, f.Seq)
	q.note(f.Hindered)
	out := []int{}
	for _, e := range f.Evidence {
		i := slices.IndexFunc(q.reply.Evidence, func(x Evidence) bool { return x.Document == e.Document && x.Start == e.Start && x.End == e.End })
		if i < 0 {
			if len(q.reply.Evidence) == maxPieces {
				q.note(fmt.Sprintf("more was found than the %d pieces of evidence that are kept: what came later is left out", maxPieces))
				break
			}
			i = len(q.reply.Evidence)
			e.N = i + 1
			e.Best = focus(e, q.words)
			q.reply.Evidence = append(q.reply.Evidence, e)
		}
		x := &q.reply.Evidence[i]
		if joined := x.About + "; " + e.About; e.About != "" && !strings.Contains(x.About, e.About) && len(joined) <= maxAbout {
			x.About = strings.TrimPrefix(joined, "; ")
		}
		if n := x.N; !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// note says once what is to be said besides.
func (q *inquiry) note(s string) {
	if s != "" && !slices.Contains(q.reply.Notes, s) {
		q.reply.Notes = append(q.reply.Notes, s)
		q.say("%s", s)
	}
}

func (q *inquiry) stop(by, why string) { q.reply.StoppedBy, q.reply.Why = by, why }

func (q *inquiry) say(format string, args ...any) {
	if q.Say != nil {
		q.Say(fmt.Sprintf(format, args...))
	}
}

// what says a step in words.
func (s Step) what() string {
	var b strings.Builder
	b.WriteString(s.Name)
	switch s.Name {
	case ActSearch, ActEntity, ActRelations:
		fmt.Fprintf(&b, " “%s”", s.Query)
		if s.Relation != "" {
			b.WriteString(" " + s.Relation)
		}
	case ActPath:
		fmt.Fprintf(&b, " from “%s” to “%s”", s.From, s.To)
	case ActRead:
		fmt.Fprintf(&b, " around [%d]", s.Evidence)
	}
	switch {
	case s.Refused != "" && s.Name == ActAnswer:
		b.WriteString(": given back: " + s.Refused)
	case s.Refused != "":
		b.WriteString(": refused: " + s.Refused)
	case s.Name == ActAnswer:
		b.WriteString(": " + s.Note)
	case s.Name == ActTypes:
	default:
		b.WriteString(": " + pieces(len(s.Found)))
	}
	return b.String()
}

func pieces(n int) string {
	if n == 1 {
		return "1 piece of evidence"
	}
	return fmt.Sprintf("%d pieces of evidence", n)
}

func sentences(n int) string {
	if n == 1 {
		return "1 sentence"
	}
	return fmt.Sprintf("%d sentences", n)
}
