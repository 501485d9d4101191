package bus

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// The W3C traceparent: version, trace id, span id, flags. The trace id goes from the document event to the commit; every hop
// has a span id of its own.

type traceKey struct{}

// WithTrace gives what is published under ctx this traceparent.
func WithTrace(ctx context.Context, traceparent string) context.Context {
	return context.WithValue(ctx, traceKey{}, traceparent)
}

func traceOf(ctx context.Context) string {
	s, _ := ctx.Value(traceKey{}).(string)
	return s
}

// nextSpan returns the trace id of a traceparent, a new one when it is absent or malformed, and the traceparent of the next hop.
func nextSpan(traceparent string) (id, next string) {
	var b [24]byte
	_, _ = rand.Read(b[:]) // never fails: the runtime ends the process instead
	id, flags := hex.EncodeToString(b[:16]), "01"
	p := strings.Split(traceparent, "-")
	if len(p) >= 4 && len(p[0]) == 2 && isHex(p[0]) && p[0] != "ff" && len(p[1]) == 32 && isHex(p[1]) && strings.Trim(p[1], "0") != "" &&
		len(p[2]) == 16 && isHex(p[2]) && len(p[3]) == 2 && isHex(p[3]) {
		id, flags = p[1], p[3]
	}
	return id, "00-" + id + "-" + hex.EncodeToString(b[16:]) + "-" + flags
}

func isHex(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
