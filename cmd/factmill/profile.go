package main

import (
	"fmt"
	"os"
	"runtime/pprof"
)

// profileEnv names a file into which the process writes a CPU profile: before tuning, look.
const profileEnv = "FACTMILL_CPUPROFILE"

// profiled runs fn, under a CPU profile when the environment asks for one.
func profiled(fn func() int) int {
	name := os.Getenv(profileEnv)
	if name == "" {
		return fn()
	}
	f, err := os.Create(name)
	if err != nil {
		fmt.Fprintf(os.Stderr, "factmill: %s: %v\n", profileEnv, err)
		return exitUsage
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		fmt.Fprintf(os.Stderr, "factmill: %s: %v\n", profileEnv, err)
		return exitUsage
	}
	code := fn()
	pprof.StopCPUProfile()
	if err := f.Close(); err != nil {
		fmt.Fprintf(os.Stderr, "factmill: %s: %v\n", profileEnv, err)
	}
	return code
}
