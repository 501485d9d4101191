# An image for each service, and one for the command line: docker build --target loader -t factmill-loader . (make images builds all).
# In each is one static binary, the public certificate authorities, and nothing else; it runs as user 65532.
FROM --platform=$BUILDPLATFORM golang:1.26.8-trixie AS build
ARG VERSION=dev
ARG TARGETOS
ARG TARGETARCH
ENV CGO_ENABLED=0 GOTOOLCHAIN=local GOFLAGS=-buildvcs=false GOCACHE=/go/build GOMODCACHE=/go/pkg/mod
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/go/build \
    export GOOS=$TARGETOS GOARCH=$TARGETARCH; \
    go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /out/factmill ./cmd/factmill && \
    for s in loader chunker extractor resolver committer reviewer; do \
      go build -trimpath -ldflags "-s -w -X main.version=$VERSION" -o /out/factmill-$s ./services/$s/cmd/$s || exit 1; \
    done

FROM scratch AS run
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
USER 65532:65532

FROM run AS loader
COPY --from=build /out/factmill-loader /factmill-loader
ENTRYPOINT ["/factmill-loader"]

FROM run AS chunker
COPY --from=build /out/factmill-chunker /factmill-chunker
ENTRYPOINT ["/factmill-chunker"]

FROM run AS extractor
COPY --from=build /out/factmill-extractor /factmill-extractor
ENTRYPOINT ["/factmill-extractor"]

FROM run AS resolver
COPY --from=build /out/factmill-resolver /factmill-resolver
ENTRYPOINT ["/factmill-resolver"]

FROM run AS committer
COPY --from=build /out/factmill-committer /factmill-committer
ENTRYPOINT ["/factmill-committer"]

FROM run AS reviewer
COPY --from=build /out/factmill-reviewer /factmill-reviewer
ENTRYPOINT ["/factmill-reviewer"]

FROM run AS factmill
COPY --from=build /out/factmill /factmill
ENTRYPOINT ["/factmill"]
