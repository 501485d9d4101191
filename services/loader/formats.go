package loader

import "github.com/factmill/factmill/services/loader/internal/parse"

// Formats lists the names of formats that the loader reads, and the extensions of files that stand for them, sorted.
func Formats() []string { return parse.Known() }

// CheckFormat says whether a format can be read, by any of its names: what is refused here fails every document that names it.
func CheckFormat(name string) error {
	_, err := parse.Format(name, "")
	return err
}
