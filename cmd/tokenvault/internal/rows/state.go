package rows

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/serve"
)

// State is the progress of an import, as stored in its file.
type State struct {
	// Name determines the ids of rows without an id.
	Name string `json:"name"`
	// Target is the tenant of the import, or the host of its vault.
	Target string `json:"target"`
	// Bytes, Format and Check identify the imported file.
	Bytes  int64  `json:"bytes"`
	Format string `json:"format"`
	Check  string `json:"check,omitempty"`

	Rows    int  `json:"rows"` // rows done
	Created int  `json:"created"`
	Updated int  `json:"updated"`
	Skipped int  `json:"skipped"`
	Failed  int  `json:"failed"`
	Found   int  `json:"found,omitempty"` // created by an interrupted run that could not count them
	Done    bool `json:"done"`

	// File is where the state is stored, or empty. Resumed means that it was.
	File    string `json:"-"`
	Resumed bool   `json:"-"`
}

// OpenState reads the state of an import, or starts a new one. Without a
// file, nothing is stored.
func OpenState(file, target string, src *Source) (*State, error) {
	fresh := &State{Target: target, Bytes: src.size, Format: src.format, Check: src.check, File: file}
	if file == "" {
		return fresh, nil
	}
	text, err := os.ReadFile(filepath.Clean(file))
	if errors.Is(err, fs.ErrNotExist) {
		fresh.Name = uuid.NewString()
		return fresh, nil
	}
	if err != nil {
		return nil, err
	}
	s := &State{File: file, Resumed: true}
	if json.Unmarshal(text, s) != nil || s.Name == "" || s.Rows < 0 {
		return nil, fmt.Errorf("%s is not the state of an import; remove it, or name another file with --resume", file)
	}
	if s.Target != target {
		return nil, fmt.Errorf("%s is the state of an import into another tenant or vault; name another file with --resume, or import where it was begun", file)
	}
	if s.Bytes != src.size || s.Format != src.format || s.Check != src.check {
		return nil, fmt.Errorf("%s is the state of the import of another file; remove it, or name another one with --resume", file)
	}
	return s, nil
}

// Save stores the state, if it has a file.
func (s *State) Save() error {
	if s.File == "" {
		return nil
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return serve.ReplaceFile(s.File, bytes.NewReader(append(text, '\n')).WriteTo)
}
