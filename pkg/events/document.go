package events

// Check refuses what one document's fields may not be (lengths, control characters, dates), as ParseIngest does; it also
// sorts the scope. For documents that come out of files and uploads. The error is a *Refusal.
func (d *InputDocument) Check() error { return d.check() }

// Codes of failures that end the whole job whatever its error policy is: skipping could not make it right.
const (
	CodeDuplicateKey = "duplicate_key"
	CodeUpdateOne    = "update_one"
)

// JobFault says whether a failed source or document with this code ends its job under every error policy.
func JobFault(code string) bool { return code == CodeDuplicateKey || code == CodeUpdateOne }
