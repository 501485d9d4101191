//go:build proof

package integration

import (
	"os"
	"testing"
)

// As TestReplay, with histories that nobody has seen.
func TestReplayMany(t *testing.T) {
	sideBySide(t, seeds(t, 60), 6, 80, explore())
}

func explore() int {
	if os.Getenv("NOCRASH") != "" {
		return 0
	}
	return 3
}
