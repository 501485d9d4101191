// Package report prints the figures of a benchmark: a table for people, JSON for machines, and whether each stays within its limit.
package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Figure is one measured number. Limit is the bound that it must keep, 0 none; Most says whether it is an upper one. Ratio is Value
// divided by Limit.
type Figure struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit"`
	Value float64 `json:"value"`
	Limit float64 `json:"limit,omitempty"`
	Most  bool    `json:"limit_is_upper,omitempty"`
	Ratio float64 `json:"ratio_to_limit,omitempty"`
	OK    bool    `json:"ok"`
	Note  string  `json:"note,omitempty"`
}

// Report is a run of one benchmark.
type Report struct {
	Bench   string   `json:"bench"`
	Machine Machine  `json:"machine"`
	Figures []Figure `json:"figures"`
}

// Machine says where it was measured. Load is the load average before and after, where the system says it.
type Machine struct {
	OS, Arch string
	CPUs     int
	Load     [2]float64
}

// New begins a report.
func New(bench string) *Report {
	return &Report{Bench: bench, Machine: Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Load: [2]float64{load(), load()}}}
}

func load() float64 {
	b, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0 // no such file here
	}
	var x float64
	if _, err := fmt.Sscan(string(b), &x); err != nil {
		return 0
	}
	return x
}

// Add notes a figure without a limit.
func (r *Report) Add(name, unit string, value float64, note string) {
	r.Figures = append(r.Figures, Figure{Name: name, Unit: unit, Value: value, OK: true, Note: note})
}

// AtLeast notes a figure that must not be lower than limit.
func (r *Report) AtLeast(name, unit string, value, limit float64, note string) {
	r.Figures = append(r.Figures, Figure{Name: name, Unit: unit, Value: value, Limit: limit, Ratio: value / limit, OK: value >= limit, Note: note})
}

// AtMost notes a figure that must not be higher than limit.
func (r *Report) AtMost(name, unit string, value, limit float64, note string) {
	r.Figures = append(r.Figures, Figure{Name: name, Unit: unit, Value: value, Limit: limit, Most: true, Ratio: value / limit, OK: value <= limit, Note: note})
}

// OK says whether every figure keeps its limit.
func (r *Report) OK() bool {
	for _, f := range r.Figures {
		if !f.OK {
			return false
		}
	}
	return true
}

// Table prints the figures for people.
func (r *Report) Table(w io.Writer) error {
	r.Machine.Load[1] = load()
	if _, err := fmt.Fprintf(w, "%s (%s/%s, %d CPUs, load %.1f to %.1f)\n", r.Bench, r.Machine.OS, r.Machine.Arch, r.Machine.CPUs, r.Machine.Load[0], r.Machine.Load[1]); err != nil {
		return err
	}
	var lines bytes.Buffer
	t := tabwriter.NewWriter(&lines, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, f := range r.Figures {
		limit := ""
		if f.Limit != 0 {
			sign, verdict := "≥", "holds"
			if f.Most {
				sign = "≤"
			}
			if !f.OK {
				verdict = "MISSED"
			}
			limit = fmt.Sprintf("%s %s\t%s", sign, number(f.Limit), verdict)
		} else {
			limit = "\t"
		}
		fmt.Fprintf(t, "%s\t %s\t%s\t%s\t  %s\t\n", f.Name, number(f.Value), f.Unit, limit, f.Note)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for line := range strings.Lines(lines.String()) {
		if _, err := fmt.Fprintln(w, strings.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// number prints three significant digits, and whole numbers whole.
func number(x float64) string {
	if x >= 100 || x == float64(int64(x)) {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// JSON prints the report on one line.
func (r *Report) JSON(w io.Writer) error { return json.NewEncoder(w).Encode(r) }
