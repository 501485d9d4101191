package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/factmill/factmill/pkg/api"
)

// DeadLetters shows a page of dead letters and quarantine records.
func DeadLetters(w io.Writer, r api.DeadListReply) error {
	p := &printer{w: w}
	if len(r.Letters) == 0 {
		p.f("nothing here: every message was handled, and nothing is quarantined")
	}
	t := NewTable("ID", "KIND", "STAGE", "JOB", "STATE", "KEY", "CODE", "REASON", "AT", "REPLAY").Cap(5, 48).Cap(7, 60)
	for _, l := range r.Letters {
		t.Row(l.ID, l.Kind, l.Stage, l.Job, l.JobState, l.Key, l.Code, l.Reason, Time(l.At), replayed(l.Replay))
	}
	p.table(t)
	if r.Next != "" {
		p.f("more: --cursor %s", r.Next)
	}
	return p.err
}

func replayed(r *api.ReplayJob) string {
	if r == nil {
		return ""
	}
	if r.State == "" {
		return r.Job + " (not published)"
	}
	return r.Job + " (" + r.State + ")"
}

// messageWidth is how much of a message that is no event is shown, in bytes.
const messageWidth = 2000

// DeadLetter shows one whole.
func DeadLetter(w io.Writer, r api.DeadShowReply) error {
	p := &printer{w: w}
	l := r.Letter
	p.f("%s %s", map[string]string{api.DeadKind: "dead letter", api.QuarantineKind: "quarantine record"}[l.Kind], l.ID)
	for _, f := range []struct{ name, value string }{
		{"document", l.Key}, {"job", l.Job}, {"job state", l.JobState}, {"stage", l.Stage}, {"code", l.Code}, {"reason", l.Reason},
		{"at", Time(l.At)}, {"trace id", l.TraceID}, {"event", l.Event}, {"subject", l.Subject}, {"bytes", l.Body},
	} {
		if f.value != "" {
			p.f("  %-10s  %s", f.name, f.value)
		}
	}
	if l.Kind == api.DeadKind {
		p.f("  %-10s  %s, %s of %s, %s", "message", Bytes(l.Size), "sequence "+fmt.Sprint(l.Seq), l.Stream,
			"delivered "+Count(int(min(l.Attempts, 1<<31)), "time", "times"))
	}
	if l.Items > 0 {
		p.f("  %-10s  %s", "holds", Count(l.Items, "record", "records"))
	}
	if l.Replay != nil {
		p.f("  %-10s  %s at %s", "replayed", replayed(l.Replay), Time(l.Replay.At))
		if l.Replay.Reason != "" {
			p.f("  %-10s  %s", "", l.Replay.Reason)
		}
	}
	p.headers(r.Headers)
	p.message(r)
	return p.err
}

func (p *printer) headers(h map[string]string) {
	names := make([]string, 0, len(h))
	for n := range h {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		p.f("  %-10s  %s: %s", "header", n, h[n])
	}
}

func (p *printer) message(r api.DeadShowReply) {
	if r.NoMessage != "" {
		p.f("\n%s", r.NoMessage)
	}
	switch {
	case r.Message != nil:
		var b bytes.Buffer
		if err := json.Indent(&b, r.Message, "", "  "); err != nil {
			p.err = fmt.Errorf("the message: %w", err)
			return
		}
		if r.Cut {
			p.f("\nlong texts and lists are shortened; --output FILE writes the document whole")
		}
		if p.err == nil {
			_, p.err = fmt.Fprintf(p.w, "\n%s\n", Block(b.String()))
		}
	case r.Text != "":
		if p.err == nil {
			_, p.err = fmt.Fprintf(p.w, "\n%s\n", End(Block(r.Text), messageWidth))
		}
	}
}

// ReplayEnd is how the job that a replay started ended; empty while it was not waited for.
type ReplayEnd struct{ State, Reason string }

// Replays shows what was replayed; ends are those of the jobs that were waited for.
func Replays(w io.Writer, r api.DeadReplayReply, ends map[string]ReplayEnd) error {
	p := &printer{w: w}
	t := NewTable("ID", "HOW", "JOB", "STATE", "REASON").Cap(4, 90)
	for _, x := range r.Replayed {
		t.Row(x.ID, how(x.How), x.Job, ends[x.Job].State, ends[x.Job].Reason)
	}
	p.table(t)
	p.f("replayed %s", Number(len(r.Replayed)))
	p.skipped(r.Skipped)
	return p.err
}

func how(s string) string {
	if s == api.ReplayNewJob {
		return "new job"
	}
	return s
}

// Drops shows what was dropped.
func Drops(w io.Writer, r api.DeadDropReply) error {
	p := &printer{w: w}
	p.f("dropped %s", Number(len(r.Dropped)))
	p.skipped(r.Skipped)
	return p.err
}

func (p *printer) skipped(m map[string]api.DeadSkip) {
	if len(m) == 0 {
		return
	}
	ids := make([]string, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	p.f("left as they are: %s", Number(len(ids)))
	for _, id := range ids {
		p.f("  %s  %s (%s)", id, m[id].Message, m[id].Code)
	}
}
