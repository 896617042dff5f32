package rows

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/seed-72ea4aab/vault"
	"github.com/seed-72ea4aab/vault/cmd/tokenvault/internal/shell"
)

// maxRow is the maximum size of a row in bytes. It is the limit of a call,
// plus some for the syntax of CSV.
const maxRow = 6 << 20

// badRow returns an error about an unreadable row.
func badRow(rule string) error {
	return &vault.InvalidError{Fields: map[string][]string{"": {rule}}}
}

// jsonRows reads a row from each non-empty line.
func (s *Source) jsonRows() (iter.Seq2[vault.TokenParams, error], error) {
	in := bufio.NewReaderSize(s.reader, 64<<10)
	return func(yield func(vault.TokenParams, error) bool) {
		for {
			line, long, err := readLine(in)
			if len(line) > 0 || long {
				row, bad := s.jsonRow(line, long)
				if !yield(row, bad) {
					return
				}
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(vault.TokenParams{}, err)
				return
			}
		}
	}, nil
}

func (s *Source) jsonRow(line []byte, long bool) (vault.TokenParams, error) {
	var row vault.TokenParams
	if long {
		return row, badRow(fmt.Sprintf("The row has more than %d bytes.", maxRow))
	}
	if s.typ != "" {
		line = withType(line, s.typ)
	}
	err := json.Unmarshal(line, &row)
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return row, badRow("The row is not JSON.")
	}
	if err != nil && !errors.Is(err, vault.ErrInvalid) {
		return row, badRow("The row is not a JSON object.")
	}
	return row, err
}

// withType adds a type to an object without one.
func withType(line []byte, typ string) []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(line, &fields) != nil || fields == nil || fields["type"] != nil {
		return line
	}
	head := append([]byte(`{"type":`), strconv.Quote(typ)...)
	rest := bytes.TrimSpace(bytes.TrimSpace(line)[1:])
	if len(fields) > 0 {
		head = append(head, ',')
	}
	return append(head, rest...)
}

// readLine reads a line without its newline. It discards a line that is too
// long.
func readLine(in *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(line)+len(part) > maxRow {
			line, long = nil, true
		}
		if !long {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSpace(line), long, err
		}
	}
}

// field maps a column to a field of a token.
type field struct {
	path   []string
	column string
}

// parseMap parses the flag --map.
func parseMap(columns []string) ([]field, error) {
	var fields []field
	for _, word := range columns {
		path, column, ok := strings.Cut(word, "=")
		if !ok || path == "" || column == "" {
			return nil, shell.Usagef("--map takes field=column, such as data.number=pan")
		}
		fields = append(fields, field{strings.Split(path, "."), column})
	}
	return fields, nil
}

// plainFields are the fields of a token that a column can set. outerFields
// are the fields whose members a column can set.
var (
	plainFields = []string{"id", "type", "data", "mask", "containers", "search_indexes", "fingerprint_expression", "deduplicate_token", "expires_at"}
	outerFields = []string{"data", "mask", "metadata"}
)

func (f *field) check() error {
	if len(f.path) == 1 && slices.Contains(plainFields, f.path[0]) || len(f.path) > 1 && slices.Contains(outerFields, f.path[0]) {
		return nil
	}
	return shell.Usagef("%s is not a field of a token; the fields are %s, and data.<name>, mask.<name> and metadata.<key>; --map assigns columns to fields",
		shell.Printable(strings.Join(f.path, ".")), strings.Join(plainFields, ", "))
}

// csvRows reads a row from each record after the header.
func (s *Source) csvRows() (iter.Seq2[vault.TokenParams, error], error) {
	bound := &boundedReader{r: skipMark(s.reader)}
	in := csv.NewReader(bound)
	in.Comma, in.ReuseRecord, in.LazyQuotes = s.delimiter, true, false
	header, err := in.Read()
	if errors.Is(err, io.EOF) {
		return func(func(vault.TokenParams, error) bool) {}, nil
	}
	if err != nil {
		return nil, errors.New("the header of the CSV file cannot be read")
	}
	at, err := s.columns(slices.Clone(header))
	if err != nil {
		return nil, err
	}
	return func(yield func(vault.TokenParams, error) bool) {
		for {
			bound.n = 0
			record, err := in.Read()
			if errors.Is(err, io.EOF) {
				return
			}
			row, err := s.csvRow(record, at, err)
			if !yield(row, err) || err != nil && !errors.Is(err, vault.ErrInvalid) {
				return
			}
		}
	}, nil
}

// columns finds the field for each column. Without a map, columns have the
// names of fields.
func (s *Source) columns(header []string) (map[int]*field, error) {
	at := map[int]*field{}
	fields := s.fields
	if len(fields) == 0 {
		for _, name := range header {
			fields = append(fields, field{strings.Split(name, "."), name})
		}
	}
	for i := range fields {
		if err := fields[i].check(); err != nil {
			return nil, err
		}
		n := slices.Index(header, fields[i].column)
		if n < 0 {
			return nil, shell.Usagef("the file has no column %s; it has %s", shell.Printable(fields[i].column), shell.Printable(strings.Join(header, ", ")))
		}
		if at[n] != nil {
			return nil, shell.Usagef("the column %s is used twice", shell.Printable(fields[i].column))
		}
		for _, other := range fields[:i] {
			if overlap(other.path, fields[i].path) {
				return nil, shell.Usagef("%s and %s are the same field, or one is a part of the other", strings.Join(other.path, "."), strings.Join(fields[i].path, "."))
			}
		}
		at[n] = &fields[i]
	}
	return at, nil
}

// overlap reports whether two fields exclude each other.
func overlap(a, b []string) bool {
	n := min(len(a), len(b))
	return slices.Equal(a[:n], b[:n])
}

// csvRow converts a record to a token.
func (s *Source) csvRow(record []string, at map[int]*field, err error) (vault.TokenParams, error) {
	var row vault.TokenParams
	var bad *csv.ParseError
	switch {
	case errors.Is(err, csv.ErrFieldCount):
		return row, badRow("The row and the header have different numbers of columns.")
	case errors.As(err, &bad):
		return row, badRow("The row has invalid quotes.")
	case err != nil:
		return row, err
	}
	object := map[string]any{}
	if s.typ != "" {
		object["type"] = s.typ
	}
	for i, f := range at {
		if text := record[i]; text != "" {
			set(object, f.path, text)
		}
	}
	text, err := json.Marshal(object)
	if err != nil {
		return row, err
	}
	err = json.Unmarshal(text, &row)
	return row, err
}

// set stores the text of a column at the path of its field.
func set(object map[string]any, path []string, text string) {
	for _, name := range path[:len(path)-1] {
		inner, ok := object[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			object[name] = inner
		}
		object = inner
	}
	object[path[len(path)-1]] = cell(path, text)
}

// cell converts the text of a column for its field. Months and years of cards
// are numbers, containers and indexes are lists, and everything else is text.
func cell(path []string, text string) any {
	switch name := strings.Join(path, "."); name {
	case "data.expiration_month", "data.expiration_year":
		if n, err := strconv.Atoi(strings.TrimSpace(text)); err == nil {
			return n
		}
	case "containers":
		return strings.Fields(text)
	case "search_indexes":
		return []string{text}
	case "deduplicate_token":
		if b, err := strconv.ParseBool(text); err == nil {
			return b
		}
	}
	return text
}

// errRunaway means that a record does not end, probably because a quote is
// not closed.
var errRunaway = fmt.Errorf("a row has more than %d bytes; a quote is probably not closed", maxRow)

// boundedReader fails if a record is too long, so that a quote that is not
// closed does not fill the memory.
type boundedReader struct {
	r io.Reader
	n int // bytes since the start of the record
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.n > maxRow {
		return 0, errRunaway
	}
	n, err := b.r.Read(p)
	b.n += n
	return n, err
}

// skipMark skips the byte order mark that some programs write before UTF-8.
func skipMark(r io.Reader) io.Reader {
	b := bufio.NewReader(r)
	if mark, _ := b.Peek(3); string(mark) == "\ufeff" {
		_, _ = b.Discard(3)
	}
	return b
}
