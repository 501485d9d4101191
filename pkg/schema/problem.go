package schema

import (
	"fmt"
	"strings"
)

// maxProblems is how many problems of one file are told; the rest is counted.
const maxProblems = 200

// Problem is one thing wrong with a schema file, and where: a path such as entities[2].parents[0]. The path is empty
// for the file as a whole; in a file that is extended it starts with that file's name and "#".
type Problem struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// String returns "path: message".
func (p Problem) String() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// Error is everything that is wrong with a schema file, in the order of the file where possible.
type Error struct {
	Name     string // as given to Parse
	Problems []Problem
}

// Error returns one line a problem, after a line that names the file and counts them.
func (e *Error) Error() string {
	var out strings.Builder
	fmt.Fprintf(&out, "schema %s: %d problem(s)", quote(e.Name), len(e.Problems))
	for _, p := range e.Problems {
		out.WriteString("\n  ")
		out.WriteString(p.String())
	}
	return out.String()
}

// report collects problems and warnings of one Parse.
type report struct {
	problems []Problem
	more     int
	warnings []Problem
}

func (r *report) add(path, format string, args ...any) {
	if len(r.problems) >= maxProblems {
		r.more++
		return
	}
	r.problems = append(r.problems, Problem{path, fmt.Sprintf(format, args...)})
}

// unknown reports a word that is not among the known ones; what says what it should have been.
func (r *report) unknown(path, what, seen string, known []string) {
	if len(r.problems) >= maxProblems { // hints are dear
		r.more++
		return
	}
	r.add(path, "unknown %s %s%s", what, quote(seen), hint(seen, known))
}

func (r *report) warn(path, format string, args ...any) {
	if len(r.warnings) < maxProblems {
		r.warnings = append(r.warnings, Problem{path, fmt.Sprintf(format, args...)})
	}
}

func (r *report) failed() bool { return len(r.problems) > 0 }

func (r *report) err(name string) *Error {
	list := r.problems
	if r.more > 0 {
		list = append(list, Problem{"", fmt.Sprintf("and %d more problem(s)", r.more)})
	}
	return &Error{Name: name, Problems: list}
}
