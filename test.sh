#!/usr/bin/env bash
# Checks the format, vets and tests everything, against a real PostgreSQL and in
# a real browser. It shows each package that ends, then the slowest tests and
# one line of totals. On Debian, as root, it first installs what is missing, and
# says so; elsewhere it names the command to run.
#
#   ./test.sh                       everything that protects a change
#   ./test.sh -long                 also what needs time or luck
#   ./test.sh [-long] ./storage/... some packages
#
# Other flags go to "go test", in the form -run=TestX. VAULT_TEST_POSTGRES, the URL
# of a server, and VAULT_TEST_CHROMIUM, the path of a browser, take the place of
# installed ones.
set -u
cd "$(dirname "$0")" || exit 1

fail() {
	printf '%s\n' "$@" "0 passed, 1 failed, 0 skipped"
	exit 1
}

have() { command -v "$1" >/dev/null 2>&1; }

have_postgres() {
	[ -n "${VAULT_TEST_POSTGRES:-}" ] || have pg_ctl ||
		ls -d /usr/lib/postgresql/*/bin/pg_ctl /usr/pgsql-*/bin/pg_ctl \
			/opt/homebrew/opt/postgresql*/bin/pg_ctl /usr/local/opt/postgresql*/bin/pg_ctl \
			/home/linuxbrew/.linuxbrew/opt/postgresql*/bin/pg_ctl 2>/dev/null | grep -q .
}

have_chromium() {
	[ -n "${VAULT_TEST_CHROMIUM:-}" ] || have chromium || have chromium-browser || have google-chrome
}

# missing prints the packages that the tests cannot do without.
missing() {
	have_postgres || printf ' postgresql'
	have curl || printf ' curl'
	have_chromium || printf ' chromium'
	have promtool || printf ' prometheus'
	have softhsm2-util || printf ' softhsm2'
}

# optional prints the packages that some tests use if they are there: PgBouncer,
# without which its tests connect to the server directly, and, for the long run,
# buildah, which builds the image, Firefox, and WebKit with a screen.
optional() {
	have pgbouncer || printf ' pgbouncer'
	[ -n "$long" ] || return 0
	have buildah || printf ' buildah'
	have firefox-esr || have firefox || printf ' firefox-esr'
	have WebKitWebDriver || printf ' webkit2gtk-driver'
	have Xvfb || printf ' xvfb'
}

# install_promtool takes promtool out of its package, so that the daemon in the
# package is not installed and does not start.
install_promtool() (
	folder=$(mktemp -d) && cd "$folder" || exit
	trap 'rm -rf "$folder"' EXIT
	{ apt-get download prometheus || { apt-get update -qq && apt-get download prometheus; }; } >/dev/null 2>&1 &&
		dpkg-deb -x prometheus_*.deb . && mv usr/bin/promtool /usr/local/bin/
)

# install installs Debian packages, one by one, and shows what apt-get says when
# it fails.
install() {
	local package output updated=
	export DEBIAN_FRONTEND=noninteractive
	for package in "$@"; do
		[ "$package" = prometheus ] && install_promtool && continue
		output=$(apt-get install -qq -y --no-install-recommends "$package" 2>&1) && continue
		[ -n "$updated" ] || { apt-get update -qq >/dev/null 2>&1; updated=1; }
		output=$(apt-get install -qq -y --no-install-recommends "$package" 2>&1) || printf '%s\n' "$output"
	done
}

long=
for arg in "$@"; do [ "$arg" != -long ] || long=1; done

have go || fail "Go is missing: see https://go.dev/doc/install"
if [ "$(id -u)" = 0 ] && have apt-get; then
	packages="$(missing)$(optional)"
	if [ -n "$packages" ]; then
		echo "Installing what the tests need, with apt-get:$packages"
		# shellcheck disable=SC2086 # a list of words
		install $packages
	fi
fi
packages=$(missing)
if [ -n "$packages" ]; then
	how="Install:$packages"
	if have apt-get; then how="Run: sudo apt-get install$packages"; fi
	if have brew; then how="Run: brew install$packages"; fi
	fail "The tests need more than this machine has. $how" \
		"Or set VAULT_TEST_POSTGRES to the URL of a server, VAULT_TEST_CHROMIUM to the path of a browser."
fi
export VAULT_TEST_REQUIRE_CHROMIUM=1

unformatted=$(gofmt -l .)
[ -z "$unformatted" ] || fail "Not formatted (run gofmt -w):" "$unformatted"
echo "Vetting every package, the long tests included. The first run also downloads and compiles."
for module in . */go.mod */*/go.mod; do
	(cd "${module%go.mod}" && go vet -tags=long ./...) || fail "go vet found problems."
done
exec go run ./internal/test/testrun "$@"
