package serve

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/seed-72ea4aab/vault"
)

// sinkFlag is a log destination, as a flag names it.
type sinkFlag struct{ name, dest, format string }

// sinkList is a flag that may be repeated.
type sinkList []sinkFlag

// set adds sinks. In an environment variable, spaces separate them.
func (l *sinkList) set(text string) error {
	for one := range strings.FieldsSeq(text) {
		name, dest, ok := strings.Cut(one, "=")
		s := sinkFlag{name: name, dest: dest}
		for _, format := range []string{vault.FormatNative, vault.FormatOTLP, vault.FormatOCSF} {
			if rest, found := strings.CutSuffix(dest, ","+format); found {
				s.dest, s.format = rest, format
			}
		}
		path, isFile := strings.CutPrefix(s.dest, "file:")
		isURL := strings.HasPrefix(s.dest, "https://") || strings.HasPrefix(s.dest, "http://")
		if !ok || name == "" || s.dest != "stdout" && (!isFile || path == "") && !isURL || strings.Contains(s.dest, ",") && !isURL {
			return errors.New("must be NAME=DEST[,FORMAT], where DEST is stdout, file:PATH or a URL, and FORMAT native, otlp or ocsf")
		}
		*l = append(*l, s)
	}
	return nil
}

// headerFiles are files with headers, by the name of their sink. The flag may be
// repeated; in an environment variable, spaces separate the values.
type headerFiles map[string]string

func (h *headerFiles) set(text string) error {
	for one := range strings.FieldsSeq(text) {
		name, file, _ := strings.Cut(one, "=")
		if name == "" || file == "" {
			return errors.New("must be NAME=FILE")
		}
		if *h == nil {
			*h = headerFiles{}
		}
		(*h)[name] = file
	}
	return nil
}

// checkSinks checks that the files with headers are readable, and belong to a URL.
func (c *Config) checkSinks() error {
	for name, file := range c.sinkHeaders {
		if !slices.ContainsFunc(c.sinks, func(s sinkFlag) bool { return s.name == name && strings.HasPrefix(s.dest, "http") }) {
			return fmt.Errorf("--log-sink-headers: no --log-sink with a URL has the name %s", name)
		}
		if _, err := readHeaders(file); err != nil {
			return fmt.Errorf("--log-sink-headers %s: %w", name, err)
		}
	}
	return nil
}

// headerLine is a line "Header: value".
var headerLine = regexp.MustCompile("^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([^\\x00-\\x08\\x0a-\\x1f\\x7f]+)$")

// readHeaders reads the headers in a file. An error names the line, not its text,
// which may be secret.
func readHeaders(file string) (http.Header, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	headers := http.Header{}
	for i, line := range strings.Split(string(text), "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		parts := headerLine.FindStringSubmatch(line)
		if parts == nil {
			return nil, fmt.Errorf("line %d of %s is not \"Header: value\"", i+1, file)
		}
		headers.Add(parts[1], parts[2])
	}
	return headers, nil
}

// sinkConfig returns the sinks of the vault.
func (c *Config) sinkConfig() ([]vault.Sink, error) {
	var all []vault.Sink
	for _, s := range c.sinks {
		sink := vault.Sink{Name: s.name, Format: s.format}
		path, isFile := strings.CutPrefix(s.dest, "file:")
		switch {
		case s.dest == "stdout":
			sink.Sender = vault.LogWriter(os.Stdout)
		case isFile:
			sink.Sender = vault.LogFile(path)
		default:
			opts := &vault.LogHTTPOptions{Gzip: true, AllowHTTP: c.allowHTTPSinks || c.AllowPrivateEgress}
			if file := c.sinkHeaders[s.name]; file != "" {
				var err error
				if opts.Header, err = readHeaders(file); err != nil {
					return nil, err
				}
			}
			sink.Sender = vault.LogHTTP(s.dest, opts)
		}
		all = append(all, sink)
	}
	return all, nil
}
