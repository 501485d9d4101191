package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The walk of docs/grow.md goes as the page says: each block of commands prints what the block behind it shows, where "…" stands for
// anything, on a line of its own for any lines.
func TestTheWalkOfDocs(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "grow.md"))
	require.NoError(t, err)
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```\n\n```text\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	require.Len(t, blocks, strings.Count(string(page), "```sh"), "each block of commands has one of what it prints")
	require.Len(t, blocks, 6)
	bin := t.TempDir()
	require.NoError(t, os.Symlink(binary, filepath.Join(bin, "factmill")))
	dir := t.TempDir()
	for _, b := range blocks {
		cmd := exec.CommandContext(t.Context(), "sh", "-eu", "-c", b[1])
		cmd.Dir = dir
		cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + dir, "XDG_DATA_HOME=" + dir}
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		require.NoError(t, cmd.Run(), "%s\n%s\n%s", b[1], out.String(), errs.String())
		require.Regexp(t, pattern(b[2]), out.String(), "of the commands\n%s", b[1])
	}
}

// pattern is what a block of output admits.
func pattern(block string) string {
	var b strings.Builder
	b.WriteString(`\A`)
	for _, line := range strings.SplitAfter(block, "\n") {
		if line == "…\n" {
			b.WriteString(`(?:.*\n)*?`)
			continue
		}
		for i, part := range strings.Split(line, "…") {
			if i > 0 {
				b.WriteString(`.+`)
			}
			b.WriteString(regexp.QuoteMeta(part))
		}
	}
	return b.String() + `\z`
}
