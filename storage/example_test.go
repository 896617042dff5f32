package storage_test

import (
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// A backend lists the fields that it writes. When a release adds a field to the change,
// the conversion does not compile, so the backend cannot ignore the field.
func ExampleChange() {
	type written struct {
		Tenant        storage.ID
		Now, Before   time.Time
		Unsure        bool
		Hold          *storage.Hold
		Claim         *storage.ClaimChange
		InsertTokens  []storage.Token
		UpdateTokens  []storage.TokenUpdate
		DeleteTokens  []storage.TokenDelete
		InsertRecords []storage.Record
		UpdateRecords []storage.RecordUpdate
		DeleteRecords []storage.RecordDelete
		InsertJobs    []storage.Job
		UpdateJobs    []storage.JobUpdate
		DeleteJobs    []storage.JobDelete
		Reseal        []storage.Sealed
		Logs          []storage.Log
		Relaxed       bool
	}
	write := func(written) error { return nil } // the backend
	_ = write(written(storage.Change{}))
}
