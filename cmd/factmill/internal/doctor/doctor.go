// Package doctor says what is wrong with a running Factmill, why that matters, and how to mend it. It changes nothing.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/factmill/factmill/pkg/api"
	"github.com/factmill/factmill/pkg/app"
	"github.com/factmill/factmill/pkg/bus"
)

// Severities. Error: work is lost, refused or stands still. Warning: it will be, or somebody should look.
const (
	Error   = "error"
	Warning = "warning"
)

// Finding is one thing that is wrong.
type Finding struct {
	// Code is stable: scripts use it.
	Code     string `json:"code"`
	Severity string `json:"severity"`
	// What is wrong, Why it matters, and the command that mends it, or shows what to do.
	What string `json:"what"`
	Why  string `json:"why"`
	Mend string `json:"mend"`
}

// Report is what an examination brought.
type Report struct {
	OK       bool      `json:"ok"`
	Where    string    `json:"where"`
	Graph    string    `json:"graph"`
	Checked  []string  `json:"checked"`
	Findings []Finding `json:"findings"`
	// Unchecked are checks that could not be made, with the reason.
	Unchecked []string `json:"unchecked"`
}

// Options of Examine. All but Now, Watch and Old are required.
type Options struct {
	Conn *bus.Conn
	// Embedded: the server is in this process and listens to nobody.
	Embedded bool
	Graph    string
	Where    string
	Config   *app.Config
	// Environ is looked through for names that nobody reads.
	Environ []string
	// Services that must be there.
	Services []string
	// Version of this program.
	Version string
	// At is what the commands of mends have behind them: " --nats URL". As is At for another user, with its seed where this one has one. Defaults
	// to At.
	At string
	As func(user string) string
	// Greeting is the line with which the server greeted; empty where it did not over a plain socket.
	Greeting string
	// Needs names who may do what this user was refused: by the subject, and whether it was a subscription.
	Needs func(subject string, subscribe bool) string
	// Watch is how long a consumer may stand still while it is looked at. Defaults to 3 s.
	Watch time.Duration
	// Old is from when what waits for a person is old. Defaults to 7 days.
	Old time.Duration
	Now func() time.Time
}

// vital are the checks without which nothing can be called well.
var vital = []string{"nats", "streams", "services", "store", "commits"}

type doctor struct {
	Options
	report  Report
	skipped map[string]bool     // services that are not there
	running map[string][]string // versions, by service, as they told them themselves
	deaf    error               // not nil: this user hears no reply
}

// Examine looks at everything once. A check that cannot be made does not keep the others from being made.
func Examine(ctx context.Context, o Options) Report {
	if o.Watch <= 0 {
		o.Watch = 3 * time.Second
	}
	if o.Old <= 0 {
		o.Old = 7 * 24 * time.Hour
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	d := &doctor{Options: o, report: Report{Where: o.Where, Graph: o.Graph, Checked: []string{}, Findings: []Finding{}, Unchecked: []string{}}, skipped: map[string]bool{}, running: map[string][]string{}}
	_, told := d.Conn.WhileAllAllowed(ctx) // what comes after a check has given up is no news
	defer told()
	var blind []string
	for _, c := range []struct {
		name    string
		run     func(context.Context) error
		instead func(context.Context) error // for users who may not look at the server
	}{
		{"configuration", d.configuration, nil}, {"nats", d.nats, nil}, {"listening", d.listening, nil}, {"streams", d.streams, nil}, {"services", d.services, nil},
		{"versions", d.versions, d.told}, {"store", d.store, nil}, {"commits", d.behind, nil}, {"consumers", d.consumers, nil}, {"dead letters", d.deadLetters, d.letters},
		{"review", d.review, nil}, {"vectors", d.vectors, nil}, {"model", d.model, nil},
	} {
		err := d.look(ctx, c.run)
		if c.instead != nil && notAllowed(err) != nil {
			err = d.look(ctx, c.instead)
		}
		if err == nil {
			d.report.Checked = append(d.report.Checked, c.name)
			continue
		}
		why := err.Error()
		if denied := notAllowed(err); denied != nil {
			why = d.denied(denied)
		}
		d.report.Unchecked = append(d.report.Unchecked, c.name+": "+why)
		if !errors.Is(err, errNoCommitter) && slices.Contains(vital, c.name) {
			blind = append(blind, c.name)
		}
	}
	if len(blind) > 0 {
		d.find("not_checked", Warning, strings.Join(blind, ", ")+" could not be looked at, see below", "what is wrong there is not seen",
			"look as a user who may, with admin's seed: factmill doctor"+d.as("admin"))
	}
	slices.SortStableFunc(d.report.Findings, func(a, b Finding) int {
		if a.Severity != b.Severity && a.Severity == Error {
			return -1
		} else if a.Severity != b.Severity {
			return 1
		}
		return 0
	})
	d.report.OK = len(d.report.Findings) == 0
	return d.report
}

// look runs a check until it is done, or refused: the server says so at once, and the client library that asked would wait for an answer.
func (d *doctor) look(ctx context.Context, run func(context.Context) error) error {
	if d.deaf != nil {
		return d.deaf
	}
	ctx, done := d.Conn.WhileAllAllowed(ctx)
	defer done()
	err := run(ctx)
	var refused *api.Error
	if !errors.As(err, &refused) { // else of a request of its own
		err = bus.Denied(ctx, err)
	}
	if errors.As(err, &refused) && refused.Details["does"] == "subscribe" {
		d.deaf = err
	}
	return err
}

// notAllowed is the server's refusal in err; nil when it has none.
func notAllowed(err error) *api.Error {
	var e *api.Error
	if errors.As(err, &e) && e.Code == "not_allowed" {
		return e
	}
	return nil
}

// denied says who may what this user may not.
func (d *doctor) denied(e *api.Error) string {
	subject, _ := e.Details["subject"].(string)
	if d.Needs == nil || subject == "" {
		return e.Message
	}
	return "needs " + d.Needs(subject, e.Details["does"] == "subscribe")
}

// watch lets the time pass after which what moves has moved.
func (d *doctor) watch(ctx context.Context) error {
	t := time.NewTimer(d.Watch)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func (d *doctor) find(code, severity, what, why, mend string) {
	d.report.Findings = append(d.report.Findings, Finding{Code: code, Severity: severity, What: what, Why: why, Mend: mend})
}

// factmill is a command of ours that works at the same place.
func (d *doctor) factmill(format string, args ...any) string {
	return "factmill " + fmt.Sprintf(format, args...) + d.At
}

// serve is the command that runs a service there, as its user.
func (d *doctor) serve(service string) string {
	data := ""
	if service == "committer" || service == "replica" {
		data = " --data DIR"
	}
	return "factmill serve " + service + d.as(service) + data
}

// as is At for another user.
func (d *doctor) as(user string) string {
	if d.As == nil {
		return d.At
	}
	return d.As(user)
}

// configuration says which names nobody reads.
func (d *doctor) configuration(context.Context) error {
	for _, w := range app.UnknownEnv(d.Environ) {
		d.find("unknown_variable", Warning, w, "what it was meant to set is not set", "factmill config")
	}
	return nil
}

func ago(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d hours", int(d.Hours()))
	case d >= 2*time.Minute:
		return fmt.Sprintf("%d minutes", int(d.Minutes()))
	}
	return fmt.Sprintf("%d seconds", int(d.Seconds()))
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
