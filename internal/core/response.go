package core

import (
	"encoding/json"
	"net/http"
)

// StoredResponse is a response with its dependencies. It is stored as JSON.
type StoredResponse struct {
	Status int         `json:"status"`
	Header http.Header `json:"header,omitempty"`
	Body   []byte      `json:"body"`
	Depends
}

// Decode reads the JSON of a stored response. Its error quotes nothing of it.
func (a *StoredResponse) Decode(src []byte) error {
	if json.Unmarshal(src, a) != nil {
		return errDocument
	}
	return nil
}
