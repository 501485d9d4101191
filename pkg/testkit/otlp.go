package testkit

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a span as a collector got it. Ids are hex.
type Span struct {
	Service, Name        string
	Trace, ID, Parent    string
	Attributes           map[string]string // of strings only
	Links                []string          // traces
	Failed               bool
	BeganNano, EndedNano uint64
}

// Collector is an OTLP/HTTP collector that keeps what it is sent.
type Collector struct {
	URL string

	mu    sync.Mutex
	spans []Span // guarded by mu
}

// NewCollector starts a collector that ends with the test.
func NewCollector(t testing.TB) *Collector {
	t.Helper()
	c := &Collector{}
	s := httptest.NewServer(http.HandlerFunc(c.take))
	t.Cleanup(s.Close)
	c.URL = s.URL
	return c
}

func (c *Collector) take(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/v1/traces" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		http.Error(w, "not here", http.StatusNotFound)
		return
	}
	b, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	var req collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(b, &req)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, res := range req.ResourceSpans {
		service := ""
		for _, a := range res.Resource.GetAttributes() {
			if a.Key == "service.name" {
				service = strings.TrimPrefix(a.Value.GetStringValue(), "factmill-")
			}
		}
		for _, sc := range res.ScopeSpans {
			for _, s := range sc.Spans {
				c.spans = append(c.spans, spanOf(service, s))
			}
		}
	}
}

func spanOf(service string, s *otlp.Span) Span {
	out := Span{Service: service, Name: s.Name, Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), Parent: hex.EncodeToString(s.ParentSpanId),
		Attributes: map[string]string{}, Failed: s.Status.GetCode() == otlp.Status_STATUS_CODE_ERROR, BeganNano: s.StartTimeUnixNano, EndedNano: s.EndTimeUnixNano}
	for _, a := range s.Attributes {
		out.Attributes[a.Key] = a.Value.GetStringValue()
	}
	for _, l := range s.Links {
		out.Links = append(out.Links, hex.EncodeToString(l.TraceId))
	}
	return out
}

// Spans are those that arrived so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}
