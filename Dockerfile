# The program vault and nothing else: no shell, no libraries.
#
#   CGO_ENABLED=0 GOOS=linux go build -trimpath -ldflags=-s -o vault ./cmd/vault
#   docker build -t vault .
#   docker run -p 8080:8080 -e VAULT_DB=postgres://... -e VAULT_MASTER_KEY=vaultkey_... vault
#
# The program needs no configuration files: every flag of vault serve is also an
# environment variable. For SQLite, mount a folder at /data that user 65532 may
# write to.
FROM scratch
COPY vault /vault
USER 65532:65532
WORKDIR /data
ENV VAULT_ADDR=:8080 VAULT_DEMO=false
EXPOSE 8080
ENTRYPOINT ["/vault"]
CMD ["serve"]
