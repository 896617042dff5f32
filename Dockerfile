# The program vault and nothing else: no shell, no libraries.
#
#   docker build -t vault .
#   docker run -p 8080:8080 -e VAULT_DB=postgres://... -e VAULT_MASTER_KEY=vaultkey_... vault
#
# The program needs no configuration files: every flag of vault serve is also an
# environment variable.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags=-s -o /vault ./cmd/vault && mkdir -m 0700 /data

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /vault /vault
COPY --from=build --chown=65532:65532 /data /data
USER 65532:65532
WORKDIR /data
ENV VAULT_ADDR=:8080 VAULT_DEMO=false
EXPOSE 8080
ENTRYPOINT ["/vault"]
CMD ["serve"]
