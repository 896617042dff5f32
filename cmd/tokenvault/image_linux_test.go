package main

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// TestProgramNeedsNoCLibraries looks for packages with C code. The standard
// library works without C code if CGO_ENABLED is 0, as in the image. Other
// packages would not build or not work.
func TestProgramNeedsNoCLibraries(t *testing.T) {
	t.Parallel()
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if and .CgoFiles (not .Standard)}}{{.ImportPath}}{{end}}", ".")
	list.Env = append(os.Environ(), "CGO_ENABLED=1")
	out, err := list.Output()
	if names := strings.Fields(string(out)); err != nil || len(names) > 0 {
		t.Errorf("packages with C code: %v (%v)", names, err)
	}
}

// TestImageHasOnlyTheProgram checks the files that describe the image.
// One stage builds the program, and keys and data are not sent to it. The
// image contains only the program, and runs it as an unprivileged user.
func TestImageHasOnlyTheProgram(t *testing.T) {
	t.Parallel()
	want := []string{"FROM golang:1.26 AS build", "WORKDIR /src", "COPY . .",
		"RUN CGO_ENABLED=0 go build -trimpath -ldflags=-s -o /tokenvault ./cmd/tokenvault",
		"FROM scratch", "COPY --from=build /tokenvault /tokenvault", "USER 65532:65532", "WORKDIR /data", "ENV TOKENVAULT_ADDR=:8080", "EXPOSE 8080", `ENTRYPOINT ["/tokenvault"]`, `CMD ["serve"]`}
	must.Same(t, "Dockerfile", want, instructions(t, "../../Dockerfile"))
	ignored := instructions(t, "../../.dockerignore")
	for _, secret := range []string{"**/*.key", "**/*.db", "**/vault-credentials.json"} {
		if !slices.Contains(ignored, secret) {
			t.Errorf("%s would be sent to the builder", secret)
		}
	}
	module, err := os.ReadFile("../../go.mod")
	if err != nil || !strings.Contains(string(module), "\ngo 1.26") {
		t.Errorf("the image builds with Go 1.26, but go.mod has another version (%v)", err)
	}
}

// instructions returns the lines of a file without empty lines and comments.
func instructions(t *testing.T, file string) []string {
	t.Helper()
	text := must.Get(os.ReadFile(file))(t)
	return slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool {
		return line == "" || strings.HasPrefix(line, "#")
	})
}

var variableForm = regexp.MustCompile(`\bTOKENVAULT_[A-Z_]+`)

// TestDeploymentVariablesExist checks that the manual of tokenvault serve
// has every variable in the files that deploy a vault.
func TestDeploymentVariablesExist(t *testing.T) {
	t.Parallel()
	manual := succeed(t, t.TempDir(), nil, "help", "serve")
	known := append(variableForm.FindAllString(manual, -1), "TOKENVAULT_MASTER_KEY")
	for _, file := range []string{"../../Dockerfile", "../../compose.yaml", "../../examples/deploy/tokenvault.service", "../../examples/deploy/kubernetes.yaml"} {
		text := must.Get(os.ReadFile(file))(t)
		names := variableForm.FindAllString(string(text), -1)
		if len(names) == 0 {
			t.Errorf("%s has no variables", file)
		}
		for _, name := range names {
			if !slices.Contains(known, name) {
				t.Errorf("%s: tokenvault serve does not know %s", file, name)
			}
		}
	}
	text := must.Get(os.ReadFile("../../compose.yaml"))(t)
	var compose struct {
		Services map[string]struct {
			Image, Build string
			Environment  map[string]string
		}
	}
	must.Do(t, yaml.Unmarshal(text, &compose))
	if compose.Services["tokenvault"].Build != "." || !strings.HasPrefix(compose.Services["db"].Image, "postgres:") {
		t.Errorf("%+v", compose)
	}
}
