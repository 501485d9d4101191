// Package doctor says what is wrong with a running Factmill, why that matters, and how to mend it. It changes nothing.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

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
	// At is what the commands of mends have behind them: " --nats URL".
	At string
	// Watch is how long a consumer may stand still while it is looked at. Defaults to 3 s.
	Watch time.Duration
	// Old is from when what waits for a person is old. Defaults to 7 days.
	Old time.Duration
	Now func() time.Time
}

// vital are the checks without which nothing can be called well.
var vital = []string{"nats", "streams", "services", "store"}

type doctor struct {
	Options
	report  Report
	skipped map[string]bool // services that are not there
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
	d := &doctor{Options: o, report: Report{Where: o.Where, Graph: o.Graph, Checked: []string{}, Findings: []Finding{}, Unchecked: []string{}}, skipped: map[string]bool{}}
	var blind []string
	var why error
	for _, c := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"configuration", d.configuration}, {"nats", d.nats}, {"listening", d.listening}, {"streams", d.streams}, {"services", d.services},
		{"versions", d.versions}, {"store", d.store}, {"consumers", d.consumers}, {"dead letters", d.deadLetters}, {"review", d.review},
		{"vectors", d.vectors}, {"model", d.model},
	} {
		if err := c.run(ctx); err != nil {
			d.report.Unchecked = append(d.report.Unchecked, c.name+": "+err.Error())
			if !errors.Is(err, errNoCommitter) && slices.Contains(vital, c.name) {
				blind, why = append(blind, c.name), err
			}
			continue
		}
		d.report.Checked = append(d.report.Checked, c.name)
	}
	if len(blind) > 0 {
		d.find("not_checked", Error, strings.Join(blind, ", ")+" could not be looked at: "+why.Error(), "what is wrong there is not seen",
			"look as a user who may, with admin's seed: "+d.factmill("doctor")+" --nkey seeds/admin")
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
