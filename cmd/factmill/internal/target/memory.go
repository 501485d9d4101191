package target

import (
	"runtime/debug"

	"github.com/factmill/factmill/pkg/app"
)

// heapRoom is what the heap of the all-in-one may take besides the store's cache before the collector works harder: brokers and
// stages leave much garbage when large documents pass, and a laptop has other things to do with its memory.
const heapRoom = 700 << 20

// limitMemory makes the collector keep the process near heapRoom instead of at twice of what lives. It is a wish, not a bound:
// what really lives may be more. Below it the collector runs half as often as Go's default has it, for memory that a large ingest has anyway;
// what that saves was not told from noise. GOMEMLIMIT and GOGC in the environment go before them.
func limitMemory(cfg *app.Config, getenv func(string) string) {
	if getenv("GOGC") == "" {
		debug.SetGCPercent(200)
	}
	if getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(cfg.Int("store.cache")) + heapRoom)
	}
}
