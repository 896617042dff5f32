package sqlite

import (
	"strings"

	"github.com/seed-72ea4aab/vault/storage/internal/sqlstore"
)

// statementID names a statement of the writer. Each statement is prepared when
// first needed, and kept.
type statementID int

// statementTexts are the texts of all statements.
var statementTexts []string

// statement adds a statement.
func statement(text string) statementID {
	statementTexts = append(statementTexts, text)
	return statementID(len(statementTexts) - 1)
}

var (
	stmtBegin      = statement(`BEGIN IMMEDIATE`)
	stmtCommit     = statement(`COMMIT`)
	stmtRollback   = statement(`ROLLBACK`)
	stmtSavepoint  = statement(`SAVEPOINT vault_change`)
	stmtRollbackTo = statement(`ROLLBACK TO vault_change`)
	stmtRelease    = statement(`RELEASE vault_change`)
	stmtSyncFull   = statement(`PRAGMA synchronous = FULL`)
	stmtSyncNormal = statement(`PRAGMA synchronous = NORMAL`)

	// Changes nothing, but takes the write lock.
	stmtLock = statement(`UPDATE vault_migrations SET version = version WHERE version = 0`)
	// Changes nothing, but writes to the file.
	stmtTouch    = statement(`UPDATE vault_migrations SET vault_id = vault_id WHERE version = 1001`)
	stmtIdentity = statement(`SELECT m.vault_id, l.file FROM vault_migrations m, pragma_database_list l WHERE l.name = 'main' LIMIT 1`)
	stmtHold     = statement(`SELECT 1 FROM vault_records WHERE tenant_id = ? AND kind = ? AND id = ? AND rev = ?`)

	stmtInsertToken    = statement(insertInto("vault_tokens", sqlstore.TokenRow) + ` ON CONFLICT DO NOTHING`)
	stmtFindTakenToken = statement(`SELECT 1 FROM vault_tokens WHERE tenant_id = ? AND (id = ? OR ord = ?)`)
	stmtReadHashes     = statement(`SELECT hashes FROM vault_tokens WHERE tenant_id = ? AND ord = ? AND rev = ?`)
	stmtUpdateToken    = statement(strings.Replace(`UPDATE OR IGNORE vault_tokens SET `+assigned(sqlstore.TokenReplaced)+`, rev = rev + 1
		WHERE tenant_id = ? AND ord = ? AND rev = ?`, `hashes = ?`, `hashes = COALESCE(?, hashes)`, 1))
	stmtFindToken   = statement(`SELECT 1 FROM vault_tokens WHERE tenant_id = ? AND ord = ? AND rev = ?`)
	stmtDeleteToken = statement(`DELETE FROM vault_tokens WHERE tenant_id = ? AND ord = ? AND rev = ? RETURNING hashes`)
	stmtInsertHash  = statement(`INSERT INTO vault_token_hashes (tenant_id, hash, ord) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`)
	stmtDeleteHash  = statement(`DELETE FROM vault_token_hashes WHERE tenant_id = ? AND hash = ? AND ord = ?`)
	stmtInsertSet   = statement(`INSERT INTO vault_container_sets (tenant_id, set_id, containers) VALUES (?, ?, ?)
		ON CONFLICT DO NOTHING`)
	stmtCountTokens = statement(`INSERT INTO vault_token_counts (tenant_id, set_id, type, shard, n) VALUES (?, ?, ?, 0, ?)
		ON CONFLICT DO UPDATE SET n = n + excluded.n`)
	stmtInsertLog  = statement(insertLogs(1))
	stmtInsertLogs = statement(insertLogs(logsAtOnce))
	stmtLastSeq    = statement(lastSeq)
	// first_id and last_id are no longer read, but must not be NULL.
	stmtCountLogs = statement(`INSERT INTO vault_log_counts (tenant_id, entity_type, day, shard, n, first_id, last_id)
		VALUES (?, ?, ?, 0, ?, x'', x'') ON CONFLICT DO UPDATE SET n = n + excluded.n`)

	stmtInsertRecord   = statement(insertInto("vault_records", sqlstore.RecordRow) + ` ON CONFLICT DO NOTHING`)
	stmtReadRecordKeys = statement(`SELECT key_hash, alt_hash FROM vault_records WHERE tenant_id = ? AND kind = ? AND id = ? AND rev = ?`)
	stmtUpdateRecord   = statement(`UPDATE vault_records SET ` + assigned(sqlstore.RecordReplaced) + `, rev = rev + 1
		WHERE tenant_id = ? AND kind = ? AND id = ? AND rev = ?`)
	stmtDeleteRecord = statement(`DELETE FROM vault_records WHERE tenant_id = ? AND kind = ? AND id = ? AND rev = ?
		RETURNING key_hash, alt_hash`)
	stmtInsertLookup = statement(`INSERT INTO vault_lookups (hash, tenant_id, kind, id) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`)
	stmtDeleteLookup = statement(`DELETE FROM vault_lookups WHERE hash = ? AND tenant_id = ?`)

	stmtTakeClaim = statement(insertInto("vault_claims", sqlstore.ClaimRow) + ` ON CONFLICT DO UPDATE SET owner = excluded.owner,
		lease_until = excluded.lease_until, expires_at = excluded.expires_at,
		key_version = excluded.key_version, answer = excluded.answer
		WHERE COALESCE(CASE WHEN answer IS NULL THEN lease_until ELSE expires_at END, 0) <= ?`)
	stmtFinishClaim = statement(`UPDATE vault_claims SET answer = ?, expires_at = ?, key_version = ?
		WHERE tenant_id = ? AND key = ? AND owner = ? AND answer IS NULL`)
	stmtDropClaim   = statement(`DELETE FROM vault_claims WHERE tenant_id = ? AND key = ? AND owner = ? AND answer IS NULL`)
	stmtSweepClaims = statement(`DELETE FROM vault_claims WHERE rowid IN (
		SELECT rowid FROM vault_claims WHERE ` + claimExpired + ` LIMIT ?)`)
	stmtClaimsDue = statement(`SELECT 1 FROM vault_claims WHERE ` + claimExpired + ` LIMIT 1`)
	stmtSweepJobs = statement(`DELETE FROM vault_jobs WHERE rowid IN (SELECT rowid FROM vault_jobs WHERE dead AND run_at <= ? LIMIT ?)`)
	stmtJobsOver  = statement(`SELECT 1 FROM vault_jobs WHERE dead AND run_at <= ? LIMIT 1`)

	stmtInsertJob = statement(insertInto("vault_jobs", sqlstore.JobRow))
	stmtUpdateJob = statement(`UPDATE vault_jobs SET run_at = ?, attempts = ?, dead = ?, key_version = ?, payload = ?,
		owner = ?, lease_until = ? WHERE tenant_id = ? AND id = ? AND owner = ?`)
	stmtDeleteJob = statement(`DELETE FROM vault_jobs WHERE tenant_id = ? AND id = ? AND owner IS ?`)
	stmtLeaseJobs = statement(`UPDATE vault_jobs SET owner = ?, lease_until = ? WHERE rowid IN (
		SELECT rowid FROM vault_jobs WHERE tenant_id = ? AND NOT dead AND run_at <= ? AND length(id) = 16
		AND (lease_until IS NULL OR lease_until <= ?) ORDER BY run_at, id LIMIT ?)
		RETURNING ` + sqlstore.JobColumns)

	stmtResealClaim = statement(`UPDATE vault_claims SET answer = ?, key_version = ?
		WHERE tenant_id = ? AND key = ? AND key_version < ? AND answer IS NOT NULL`)
	stmtResealJob = statement(`UPDATE vault_jobs SET payload = ?, key_version = ? WHERE tenant_id = ? AND id = ? AND key_version < ?`)
)

// claimExpired is the condition for claims that a sweep may delete. It excludes
// claims whose lease is still active, whatever their expiry.
const claimExpired = `expires_at <= ? AND (answer IS NOT NULL OR lease_until IS NULL OR lease_until <= ?)`

// insertInto returns the statement that inserts a row, under a tenant.
func insertInto(table string, columns sqlstore.Columns) string {
	return `INSERT INTO ` + table + ` (tenant_id, ` + columns.Names("") + `) VALUES ` + placeholders(1+len(columns))
}

// placeholders lists the placeholders of a row.
func placeholders(n int) string { return "(?" + strings.Repeat(", ?", n-1) + ")" }

// assigned lists assignments to columns.
func assigned(columns sqlstore.Columns) string {
	return strings.ReplaceAll(columns.Names(""), ",", " = ?,") + " = ?"
}

// logColumns is the number of columns of a log entry, with its tenant and number.
var logColumns = 1 + len(sqlstore.LogRow) + 1

// insertLogs returns the statement that inserts some log entries. With OR FAIL,
// SQLite keeps no journal of the statement, which takes 4 % off the CPU time of
// GetToken at 8 callers and 10 % at 32. A statement that fails may then leave
// some of its entries, so the caller must roll back.
func insertLogs(n int) string {
	return `INSERT OR FAIL INTO vault_logs (tenant_id, ` + sqlstore.LogRow.Names("") + `, seq) VALUES ` +
		strings.Repeat(placeholders(logColumns)+", ", n-1) + placeholders(logColumns)
}
