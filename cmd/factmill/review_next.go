package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/factmill/factmill/cmd/factmill/internal/panes"
	"github.com/factmill/factmill/cmd/factmill/internal/render"
	"github.com/factmill/factmill/cmd/factmill/internal/target"
	"github.com/factmill/factmill/pkg/api"
)

func (c *cli) reviewNextCmd() *cobra.Command {
	var d decision
	var plain bool
	cmd := &cobra.Command{
		Use: "next", Short: "Walk the queue with one key a decision", Args: noArgs,
		Long: `Walk what waits for review, most seen first, and decide with one key: a approves (of a match: the same; of a conflict, once d has shown it:
the value that is shown first, or that one is missing), r rejects (different), s skips, d shows the item whole, u takes the last rejection or decision about a match back, q quits. Where the input is no terminal, each of its
lines is a key; the end of the input quits. On a terminal each item is shown in panes, with the change that its approval would make, and a decision
is about that very change: when it is another one by now, the item is shown anew. --plain shows a line or two of each.`,
		Example: "  factmill review next\n  factmill review next --kind entity --label Spacecraft --min-count 2\n  factmill review next --kind match",
		RunE: c.do(func(ctx context.Context, cmd *cobra.Command, _ []string) error {
			if c.json {
				return usagef("review next is for people: review list and review approve have --json")
			}
			req, err := listRequest(d.query, "")
			if err != nil {
				return usage(err)
			}
			if err := c.who(map[string]any{}, d); err != nil {
				return usage(err)
			}
			return c.open(ctx, cmd, target.WaitReview, func(ctx context.Context, s *target.Session) error {
				w := &walk{c: c, s: s, d: d, keys: newKeys(c.in), list: req}
				if width, ok := screen(c.out); ok && !plain {
					w.width = width
				}
				err := w.all(ctx)
				if e := w.said(); err == nil {
					err = e
				}
				return err
			})
		}),
	}
	f := cmd.Flags()
	f.StringSliceVar(&d.query.Kinds, "kind", nil, "entity, relation, property (the default: all three), match, conflict, stale or job")
	f.StringVar(&d.query.Label, "label", "", "only those of this `label`")
	f.Float64Var(&d.query.MinScore, "min-score", 0, "only with at least this confidence; of a match its score (0 to 1)")
	f.IntVar(&d.query.MinCount, "min-count", 0, "only seen at least this often")
	f.StringVar(&d.actor, "actor", "", "who decides, a `name` (default: the user of this machine; where the NATS server knows you by your key, its name counts)")
	f.StringVar(&d.reason, "reason", "", "why, a `text` for the record")
	f.BoolVar(&plain, "plain", false, "no panes, on a terminal too")
	return cmd
}

// walk is one walk through the queue.
type walk struct {
	c    *cli
	s    *target.Session
	d    decision
	keys *keys
	list map[string]any
	// width of the terminal in which items are shown in panes; 0: they are not.
	width int

	approved, rejected, skipped int
	last                        string            // audit record of the last decision
	counted                     *int              // that counts it
	seen                        map[string]string // fingerprint of the plan that was looked at, by key
}

// errQuit ends a walk; errMoved shows an item anew.
var (
	errQuit  = errors.New("quit")
	errMoved = errors.New("it moved")
)

// walkRows is how many lines a pane has in a walk.
const walkRows = 16

// walkPage is how many groups are fetched at once. Those behind a cursor stay in order while what is before them is decided.
const walkPage = 20

func (w *walk) all(ctx context.Context) error {
	for {
		w.list["limit"] = walkPage
		raw, err := w.s.Ask(ctx, "review.list", w.list)
		if err != nil {
			return err
		}
		page, err := decode[api.ReviewListReply](raw)
		if err != nil {
			return err
		}
		if len(page.Groups) == 0 && w.approved+w.rejected+w.skipped == 0 {
			return w.print("nothing waits for review here")
		}
		waiting := page.Total - w.skipped
		for i, g := range page.Groups {
			if err := w.one(ctx, g, waiting-i); errors.Is(err, errQuit) {
				return nil
			} else if err != nil {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		w.list["cursor"] = page.Next
	}
}

func (w *walk) print(format string, args ...any) error {
	_, err := fmt.Fprintf(w.c.out, format+"\n", args...)
	return err
}

// one shows a group and does what the keys say, until it is decided or skipped.
func (w *walk) one(ctx context.Context, g api.Group, left int) error {
	for {
		err := w.look(ctx, &g)
		if gone := refusal(err); gone != nil && gone.Status == 404 {
			w.skipped++
			return w.print("it waits no more: %s", render.Line(gone.Message))
		}
		if err != nil {
			return err
		}
		if err := w.keyed(ctx, g, left); !errors.Is(err, errMoved) {
			return err
		}
	}
}

// look shows a group: in panes, as it is now, or in a line or two.
func (w *walk) look(ctx context.Context, g *api.Group) error {
	if err := w.print(""); err != nil {
		return err
	}
	if w.width == 0 {
		return render.Waiting(w.c.out, *g)
	}
	shown, err := w.show(ctx, g.Key)
	if err != nil {
		return err
	}
	g.Revision = shown.Item.Revision
	return panes.Render(w.c.out, panes.Of(shown), w.width, walkRows)
}

// keyed does what the keys say.
func (w *walk) keyed(ctx context.Context, g api.Group, left int) error {
	for {
		if _, err := fmt.Fprintf(w.c.out, "%s left  a approve  r reject  s skip  d details  u undo  q quit > ", render.Number(left)); err != nil {
			return err
		}
		k, err := w.keys.next(ctx)
		if err != nil {
			return err
		}
		if err := w.print("%s", render.Line(k)); err != nil {
			return err
		}
		switch k {
		case "a", "r":
			if why := w.cannot(k, g); why != "" {
				err = w.print("%s", why)
				break
			}
			if k == "r" {
				return w.decide(ctx, "review.reject", g, &w.rejected)
			}
			return w.decide(ctx, "review.approve", g, &w.approved)
		case "s":
			w.skipped++
			return nil
		case "q":
			return errQuit
		case "d":
			err = w.details(ctx, g)
		case "u":
			err = w.undo(ctx)
		default:
			err = w.print("one of a, r, s, d, u, q")
		}
		if err != nil {
			return err
		}
	}
}

// cannot says why a key does not decide about a conflict: a decision is about the plan that was looked at, and names a value.
func (w *walk) cannot(key string, g api.Group) string {
	switch {
	case g.Kind != api.KindConflict && g.Kind != api.KindStale && g.Kind != api.KindJob:
		return ""
	case key == "r" && slices.Contains(g.Reasons, api.ReasonMissing):
		return "there is no value to reject: a accepts that it is missing"
	case key == "r" && g.Kind == api.KindConflict:
		return "say which value: factmill review reject --value; d shows the command"
	case w.seen[g.Key] == "":
		return "look first: d shows what approve does"
	}
	return ""
}

// decide takes a decision. One that the service refuses is told, and the walk goes on.
func (w *walk) decide(ctx context.Context, verb string, g api.Group, count *int) error {
	m := map[string]any{"keys": []string{g.Key}}
	m["revision"] = g.Revision
	if f := w.seen[g.Key]; f != "" {
		m["fingerprint"] = f
	}
	if err := w.c.who(m, w.d); err != nil {
		return err
	}
	raw, err := w.s.Ask(ctx, verb, m)
	if e := refusal(err); e != nil && w.width > 0 && (e.Code == "stale_plan" || e.Code == "stale_revision") {
		return errors.Join(w.print("not decided: %s", render.Line(e.Message)), errMoved)
	}
	if e := refusal(err); e != nil && e.Status < 500 {
		w.skipped++
		return w.print("not decided: %s", render.Line(e.Message))
	}
	if err != nil {
		return err
	}
	r, err := decode[api.DecideReply](raw)
	if err != nil {
		return err
	}
	if len(r.Outcome.Changed) > 0 {
		*count++
		w.last, w.counted = r.Records[g.Key], count
		return w.print("%s", map[string]string{"review.approve": "approved", "review.reject": "rejected"}[verb])
	}
	w.skipped++
	for _, why := range r.Outcome.Skipped {
		if err := w.print("not decided: %s", render.Line(why)); err != nil {
			return err
		}
	}
	return nil
}

// show asks for an item whole; what is decided about it from now on is about the plan that it has.
func (w *walk) show(ctx context.Context, key string) (shown api.ReviewShowReply, err error) {
	raw, err := w.s.Ask(ctx, "review.show", api.ReviewShow{Key: key})
	if err != nil {
		return shown, err
	}
	if shown, err = decode[api.ReviewShowReply](raw); err != nil {
		return shown, err
	}
	if w.seen == nil {
		w.seen = map[string]string{}
	}
	w.seen[key] = shown.Fingerprint
	return shown, nil
}

func (w *walk) details(ctx context.Context, g api.Group) error {
	shown, err := w.show(ctx, g.Key)
	if err != nil {
		return err
	}
	if w.width > 0 {
		return errors.Join(panes.Render(w.c.out, panes.Of(shown), w.width, 0), w.c.howToDecide(w.c.out, shown))
	}
	return errors.Join(render.Item(w.c.out, shown), w.c.howToDecide(w.c.out, shown))
}

func (w *walk) undo(ctx context.Context) error {
	if w.last == "" {
		return w.print("nothing was decided yet")
	}
	m := map[string]any{"decision": w.last}
	if err := w.c.who(m, w.d); err != nil {
		return err
	}
	_, err := w.s.Ask(ctx, "review.undo", m)
	if e := refusal(err); e != nil && e.Status < 500 {
		return w.print("not taken back: %s", render.Line(e.Message))
	}
	if err != nil {
		return err
	}
	w.last = ""
	*w.counted--
	w.skipped++
	return w.print("taken back; a rejected candidate is proposed again by the next reading of its documents (ingest --force)")
}

// said sums up.
func (w *walk) said() error {
	if w.approved+w.rejected+w.skipped == 0 {
		return nil
	}
	return w.print("\n%s approved, %s rejected, %s skipped", render.Number(w.approved), render.Number(w.rejected), render.Number(w.skipped))
}

// keys reads one key at a time: of a terminal as it is pressed, else the first letter of each line.
type keys struct {
	file  *os.File // a terminal; else nil
	bytes *bufio.Reader
	lines *bufio.Reader
}

func newKeys(in io.Reader) *keys {
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return &keys{file: f, bytes: bufio.NewReaderSize(f, 16)}
	}
	return &keys{lines: bufio.NewReader(in)}
}

// Keys of a terminal that quit: the end of the input, and the interrupt, which a raw terminal does not turn into a signal.
const (
	keyInterrupt = 3
	keyEnd       = 4
	keyEscape    = 27
)

func (k *keys) next(ctx context.Context) (string, error) {
	type read struct {
		key string
		err error
	}
	restore, err := k.raw()
	if err != nil {
		return "", err
	}
	done := make(chan read, 1)
	go func() { // a terminal cannot be interrupted while it is read; the process ends with it
		key, err := k.read()
		done <- read{key, err}
	}()
	select {
	case got := <-done:
		return got.key, errors.Join(got.err, restore())
	case <-ctx.Done():
		return "", errors.Join(ctx.Err(), restore())
	}
}

// raw lets a terminal give keys as they are pressed; the returned function takes that back.
func (k *keys) raw() (restore func() error, err error) {
	if k.file == nil {
		return func() error { return nil }, nil
	}
	was, err := term.MakeRaw(int(k.file.Fd()))
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	return func() error { return term.Restore(int(k.file.Fd()), was) }, nil
}

func (k *keys) read() (string, error) {
	if k.file != nil {
		return k.pressed()
	}
	for {
		line, err := k.lines.ReadString('\n')
		word := strings.ToLower(strings.TrimSpace(line))
		switch {
		case word != "":
			return word[:1], nil
		case errors.Is(err, io.EOF):
			return "q", nil
		case err != nil:
			return "", fmt.Errorf("read keys: %w", err)
		}
	}
}

// pressed reads a key of a terminal. Arrows and their like are an escape and letters behind it: one key, which decides nothing.
func (k *keys) pressed() (string, error) {
	b, err := k.bytes.ReadByte()
	if err == nil && b == keyEscape {
		b, err = k.escaped()
	}
	switch {
	case errors.Is(err, io.EOF), err == nil && (b == keyInterrupt || b == keyEnd):
		return "q", nil
	case err != nil:
		return "", fmt.Errorf("read keys: %w", err)
	}
	return strings.ToLower(string(rune(b))), nil
}

// escaped reads what follows an escape, to the end of its sequence: ESC x, ESC O x, ESC [ parameters x, and ESC [ [ x. It returns the escape, or
// the interrupt that broke it off. An escape that was pressed alone takes the next key along.
func (k *keys) escaped() (byte, error) {
	for n, in := 1, byte(0); ; n++ {
		b, err := k.bytes.ReadByte()
		if err != nil || b == keyInterrupt || b == keyEnd {
			return b, err
		}
		switch {
		case n == 1 && (b == '[' || b == 'O'):
			in = b
		case n == 2 && in == '[' && b == '[':
		case in == '[' && b >= ' ' && b <= '?': // a parameter
		default:
			return keyEscape, nil
		}
	}
}
