#!/usr/bin/env bash
# Formats, vets and tests everything, PostgreSQL and a browser included, and ends
# with one line of totals. As root on Debian it installs what is missing;
# elsewhere install curl, PostgreSQL, or set VAULT_TEST_POSTGRES to a URL, and
# Chromium, or set VAULT_TEST_CHROMIUM to its path.
# Arguments are handed to "go test" in place of "./...".
set -u
cd "$(dirname "$0")" || exit 1

fail() {
	printf '%s\n' "$@" "0 passed, 1 failed, 0 skipped"
	exit 1
}

have_postgres() {
	command -v pg_ctl >/dev/null || ls -d /usr/lib/postgresql/*/bin/pg_ctl /usr/pgsql-*/bin/pg_ctl \
		/opt/homebrew/opt/postgresql*/bin/pg_ctl /usr/local/opt/postgresql*/bin/pg_ctl \
		/home/linuxbrew/.linuxbrew/opt/postgresql*/bin/pg_ctl >/dev/null 2>&1
}

have_chromium() {
	[ -n "${VAULT_TEST_CHROMIUM:-}" ] || command -v chromium >/dev/null ||
		command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null
}

# install PACKAGE installs it when this is a Debian machine and we are root.
install() {
	[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 0
	export DEBIAN_FRONTEND=noninteractive
	apt-get install -qq -y --no-install-recommends "$1" >/dev/null 2>&1 && return
	apt-get update -qq >/dev/null 2>&1
	apt-get install -qq -y --no-install-recommends "$1" >/dev/null 2>&1
}

command -v go >/dev/null || fail "Go is missing: see https://go.dev/doc/install"
if [ -z "${VAULT_TEST_POSTGRES:-}" ] && ! have_postgres; then
	install postgresql
	have_postgres || fail "PostgreSQL is missing: install it, or set VAULT_TEST_POSTGRES to the URL of a server"
fi
command -v curl >/dev/null || install curl
command -v curl >/dev/null || fail "curl is missing: the tests of docs/http.md run its commands"
if ! have_chromium; then
	install chromium
	have_chromium || fail "Chromium is missing: install it, or set VAULT_TEST_CHROMIUM to its path"
fi
export VAULT_TEST_REQUIRE_CHROMIUM=1
command -v pgbouncer >/dev/null || install pgbouncer # without it, its tests go to the server directly

unformatted=$(gofmt -l .)
[ -z "$unformatted" ] || fail "Not formatted (run gofmt -w):" "$unformatted"
go vet ./... || fail "go vet found problems."

# The race detector watches our code. SQLite's is machine-made from C and runs
# on one goroutine at a time; watching it too would take twenty times as long.
[ $# -gt 0 ] || set -- ./...
exec go run ./internal/pgtest/testrun -race -gcflags='modernc.org/...=-race=false' -timeout 15m -p 2 "$@"
