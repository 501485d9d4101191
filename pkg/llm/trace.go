package llm

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

// begin begins a span of one call of a model under the span that ctx holds. Without one it makes nothing.
func begin(ctx context.Context, model string) (context.Context, func(Answer, error)) {
	over := trace.SpanFromContext(ctx)
	if !over.IsRecording() {
		return ctx, unrecorded
	}
	ctx, s := over.TracerProvider().Tracer("github.com/factmill/factmill").Start(ctx, "model call", trace.WithSpanKind(trace.SpanKindClient),
		trace.WithAttributes(attribute.String("gen_ai.operation.name", "chat"), attribute.String("gen_ai.request.model", model)))
	return ctx, func(ans Answer, err error) {
		s.SetAttributes(attribute.Int("gen_ai.usage.input_tokens", ans.PromptTokens), attribute.Int("gen_ai.usage.output_tokens", ans.ReplyTokens))
		if err != nil {
			s.SetStatus(codes.Error, "")
		}
		s.End()
	}
}

func unrecorded(Answer, error) {}
