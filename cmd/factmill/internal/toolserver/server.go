// Package toolserver serves the tools of package agent over the Model Context Protocol: on standard input and output, and over streamable HTTP.
package toolserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/factmill/factmill/cmd/factmill/internal/agent"
)

// instructions are what a client is told of the server.
const instructions = "Tools over a knowledge graph whose every fact shows the sentence that says it. Search first; cite evidence ids (ev_...) with words of their text, and check them with check_citations before you answer. " +
	agent.Notice

// maxLine bounds one message of a client, in bytes.
const maxLine = 1 << 20

// New makes a server of the kit's tools.
func New(ctx context.Context, kit *agent.Kit, version string, log *slog.Logger) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "factmill", Title: "Factmill", Version: version},
		&mcp.ServerOptions{Instructions: instructions, Logger: log, Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}}})
	no := false
	for _, t := range kit.Tools(ctx) {
		s.AddTool(&mcp.Tool{
			Name: t.Name, Title: t.Title, Description: t.Description, InputSchema: t.InputSchema,
			Annotations: &mcp.ToolAnnotations{Title: t.Title, ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no},
		}, handler(t, log))
	}
	return s
}

// handler calls a tool. What went wrong on the way to the graph is a result too, so that the agent sees it; the log has the whole of it.
func handler(t agent.Tool, log *slog.Logger) mcp.ToolHandler {
	return func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		r, err := t.Call(ctx, req.Params.Arguments)
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			log.Warn("tool", "tool", t.Name, "error", err)
			r = agent.Unreachable(err)
		}
		data, err := json.Marshal(r.Data)
		if err != nil {
			return nil, fmt.Errorf("%s: encode the result: %w", t.Name, err)
		}
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: r.Text}}, StructuredContent: json.RawMessage(data), IsError: r.Error}, nil
	}
}

// Stdio serves one client on a pair of streams until it goes, or ctx ends.
func Stdio(ctx context.Context, s *mcp.Server, in io.Reader, out io.Writer) error {
	err := s.Run(ctx, &mcp.IOTransport{Reader: io.NopCloser(in), Writer: keepOpen{out}, MaxLineLength: maxLine})
	if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return nil
	}
	return err
}

// keepOpen leaves closing to who opened.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }
