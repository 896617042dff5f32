package model

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/seed-72ea4aab/vault/storage"
)

// Claim returns a claim, live or not.
func (s *Store) Claim(ctx context.Context, id storage.ID, key storage.Key) (storage.Claim, error) {
	return locked(ctx, s, func() (storage.Claim, error) {
		c, ok := s.db.tenant(id).claims[key]
		if !ok {
			return storage.Claim{}, storage.ErrNotFound
		}
		return copyClaim(c), nil
	})
}

func due(j *storage.Job, now time.Time) bool {
	return !j.Dead && !j.RunAt.After(now) && !j.LeaseUntil.After(now)
}

// DueTenants returns the tenants that have due jobs.
func (s *Store) DueTenants(ctx context.Context, now time.Time, after storage.ID, limit int) ([]storage.ID, error) {
	return tenantsWith(ctx, s, after, limit, func(t *tenant) bool {
		for _, job := range t.jobs {
			if due(&job, now) {
				return true
			}
		}
		return false
	})
}

// tenantsWith returns tenants for which has is true, in order, from the tenant after
// the given id on.
func tenantsWith(ctx context.Context, s *Store, after storage.ID, limit int, has func(*tenant) bool) ([]storage.ID, error) {
	return locked(ctx, s, func() ([]storage.ID, error) {
		var ids []storage.ID
		for id, t := range s.db.tenants {
			if bytes.Compare(id[:], after[:]) > 0 && has(t) {
				ids = append(ids, id)
			}
		}
		slices.SortFunc(ids, func(a, b storage.ID) int { return bytes.Compare(a[:], b[:]) })
		return page(ids, 0, limit), nil
	})
}

// LeaseJobs leases due jobs to the owner.
func (s *Store) LeaseJobs(ctx context.Context, l storage.Lease) ([]storage.Job, error) {
	return locked(ctx, s, func() ([]storage.Job, error) {
		t := s.db.tenant(l.Tenant)
		var jobs []storage.Job
		for _, job := range t.jobs {
			if due(&job, l.Now) {
				jobs = append(jobs, job)
			}
		}
		slices.SortFunc(jobs, func(a, b storage.Job) int { return cmp.Or(a.RunAt.Compare(b.RunAt), bytes.Compare(a.ID[:], b.ID[:])) })
		jobs = page(jobs, 0, l.Limit)
		for i := range jobs {
			jobs[i].Owner, jobs[i].LeaseUntil = l.Owner, stored(l.Until)
			t.jobs[jobs[i].ID] = jobs[i]
			jobs[i] = copyJob(jobs[i])
		}
		return jobs, nil
	})
}

// Jobs returns jobs, newest first.
func (s *Store) Jobs(ctx context.Context, f storage.JobFilter) ([]storage.Job, error) {
	return locked(ctx, s, func() ([]storage.Job, error) {
		var jobs []storage.Job
		for id, job := range s.db.tenant(f.Tenant).jobs {
			if job.Dead == f.Dead && (f.ID.IsZero() || f.ID == id) && (f.Before.IsZero() || bytes.Compare(id[:], f.Before[:]) < 0) {
				job.Tenant = f.Tenant
				jobs = append(jobs, copyJob(job))
			}
		}
		slices.SortFunc(jobs, func(a, b storage.Job) int { return bytes.Compare(b.ID[:], a.ID[:]) })
		return page(jobs, 0, f.Limit), nil
	})
}

// SealedRows returns claims or jobs in the order of their keys.
func (s *Store) SealedRows(ctx context.Context, f storage.SealedFilter) ([]storage.Sealed, error) {
	return locked(ctx, s, func() ([]storage.Sealed, error) {
		t := s.db.tenant(f.Tenant)
		var rows []storage.Sealed
		add := func(key storage.Key, version int, body []byte) {
			if len(body) > 0 && bytes.Compare(key[:], f.After[:]) > 0 {
				rows = append(rows, storage.Sealed{Kind: f.Kind, Key: key, KeyVersion: version, Body: bytes.Clone(body)})
			}
		}
		if f.Kind == storage.SealedClaims {
			for key, c := range t.claims {
				add(key, c.KeyVersion, c.Answer)
			}
		} else {
			for id, j := range t.jobs {
				var key storage.Key
				copy(key[:], id[:])
				add(key, j.KeyVersion, j.Payload)
			}
		}
		slices.SortFunc(rows, func(a, b storage.Sealed) int { return bytes.Compare(a.Key[:], b.Key[:]) })
		return page(rows, 0, f.Limit), nil
	})
}
