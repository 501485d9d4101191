// Package pdf reads the text layer of PDF files. Anybody's file is parsed by PDFium, compiled to WebAssembly and run in a sandbox:
// it sees no file system, no network and no clock of ours, its memory is bounded, and it is stopped when its time is over. So a
// malformed file can neither panic, hang nor starve the process, which no parser in our own memory could promise.
package pdf

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/klippa-app/go-pdfium"
	"github.com/klippa-app/go-pdfium/webassembly"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
)

const (
	// sandboxes is how many files are read at once in one process, each with up to sandboxPages of memory.
	sandboxes = 2
	// sandboxPages of 64 KiB: 256 MiB.
	sandboxPages = 4096
)

// engine compiles the module, which takes seconds of processor time, when the first PDF arrives, once a process. It lives as
// long as the process does and has no goroutines of its own.
var engine = sync.OnceValues(func() (pdfium.Pool, error) {
	if cache := cached(); cache != nil {
		if pool, err := start(cache); err == nil {
			return pool, nil
		}
	}
	return start(nil) // a broken cache must not stand in the way
})

// cached is where the compiled module is kept between processes: one-shot commands start at once then. Nil where the user has no
// cache directory, or it cannot be written.
func cached() wazero.CompilationCache {
	dir, err := os.UserCacheDir()
	if err != nil {
		return nil
	}
	dir = filepath.Join(dir, "factmill")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil
	}
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return nil
	}
	return cache
}

func start(cache wazero.CompilationCache) (pdfium.Pool, error) {
	cfg := wazero.NewRuntimeConfig().
		WithCoreFeatures(api.CoreFeaturesV2 | experimental.CoreFeaturesExceptionHandling). // PDFium's setjmp
		WithMemoryLimitPages(sandboxPages).
		WithCloseOnContextDone(true) // so that a read can be stopped
	if cache != nil {
		cfg = cfg.WithCompilationCache(cache)
	}
	return webassembly.Init(webassembly.Config{
		Context:       experimental.WithCompilationWorkers(context.Background(), runtime.GOMAXPROCS(0)),
		MaxTotal:      sandboxes,
		RuntimeConfig: cfg,
		FSConfig:      wazero.NewFSConfig(), // nothing mounted
		Stdout:        io.Discard,
		Stderr:        io.Discard,
	})
}
