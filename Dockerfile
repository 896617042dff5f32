# The program tokenvault and nothing else: no shell, no libraries.
#
#   docker build -t tokenvault .
#   docker run -p 8080:8080 -e TOKENVAULT_DB=postgres://... -e TOKENVAULT_MASTER_KEY=vaultkey_... tokenvault
#
# The program needs no configuration files: every flag of tokenvault serve is also
# an environment variable. For SQLite, mount a folder at /data that user 65532 may
# write to.
FROM golang:1.26 AS build
WORKDIR /src
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags=-s -o /tokenvault ./cmd/tokenvault

FROM scratch
COPY --from=build /tokenvault /tokenvault
USER 65532:65532
WORKDIR /data
ENV TOKENVAULT_ADDR=:8080
EXPOSE 8080
ENTRYPOINT ["/tokenvault"]
CMD ["serve"]
