package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/lib/pq"
	"github.com/lib/pq/pqerror"

	"github.com/seed-72ea4aab/vault/storage"
)

// ErrNotDurable means that synchronous_commit or fsync is off on the server, so
// that it acknowledges commits before they are on disk.
var ErrNotDurable = errors.New("postgres: the server confirms commits before they are on disk")

// ServerError is an error that the server reported. It identifies the kind of
// error, but never contains text that could quote a row.
type ServerError struct {
	Code       string // SQLSTATE
	Constraint string // the violated constraint, if any
}

// Error names the code and, if known, a remedy.
func (e *ServerError) Error() string {
	text := "postgres: the server reported SQLSTATE " + e.Code
	if name := pqerror.Code(e.Code).Name(); name != "" {
		text += " (" + name + ")"
	}
	if e.Constraint != "" {
		text += ", constraint " + e.Constraint
	}
	switch pqerror.Code(e.Code) {
	case pqerror.InvalidSQLStatementName, pqerror.DuplicatePstatement, pqerror.ProtocolViolation:
		text += "; behind a transaction pooler such as PgBouncer, set Options.TransactionPooler (-pooler of the server)"
	case pqerror.InsufficientPrivilege:
		text += "; the role must be allowed to read and write the vault's tables, and, unless Options.Migrate is MigrateCheck, to create them"
	case pqerror.InFailedSQLTransaction:
		text += "; an earlier statement of the transaction has failed, so it can only be rolled back"
	case pqerror.InvalidAuthorizationSpecification, pqerror.InvalidPassword:
		text += "; the server rejects this role: check the user and password in the connection string"
	case pqerror.InvalidCatalogName:
		text += "; create the database first"
	}
	return text
}

// clean replaces a driver error with an error that is safe to show.
func clean(err error) error {
	var server *pq.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &server):
		return &ServerError{Code: string(server.Code), Constraint: server.Constraint}
	case code(err) != "":
		return &ServerError{Code: string(code(err))}
	case errors.Is(err, pq.ErrSSLNotSupported):
		return errors.New("postgres: the server has no TLS: turn it on, or, on a network that you trust, add sslmode=disable to the connection string")
	case lost(err):
		return fmt.Errorf("postgres: no connection: %w", err)
	default:
		return err
	}
}

// refused reports whether the server undid a statement because one of its
// guards or a unique key did not hold.
func refused(err error) bool {
	if errors.Is(err, errGuard) {
		return true
	}
	switch code(err) {
	case pqerror.DivisionByZero, pqerror.UniqueViolation, pqerror.CardinalityViolation:
		return true
	default:
		return false
	}
}

// failed cleans the error of a call on an open database. Errors that may pass
// become [storage.ErrUnavailable].
func failed(err error) error {
	if err == nil || errors.Is(err, storage.ErrUnavailable) || !passes(err) && !hopeless(err) {
		return clean(err)
	}
	return fmt.Errorf("%w: %w", storage.ErrUnavailable, clean(err))
}

// passes reports whether the same call may succeed later.
func passes(err error) bool { return (lost(err) || transient(err)) && !hopeless(err) }

// hopeless reports whether a rejected connection will stay rejected until
// someone changes the configuration.
func hopeless(err error) bool {
	c := string(code(err))
	return strings.HasPrefix(c, string(pqerror.ClassInvalidAuthorizationSpecification)) ||
		strings.HasPrefix(c, string(pqerror.ClassInvalidCatalogName))
}

// transient reports whether a statement certainly had no effect and may succeed
// when tried again.
func transient(err error) bool {
	switch c := code(err); c {
	case pqerror.TRSerializationFailure, pqerror.TRDeadlockDetected, pqerror.LockNotAvailable,
		pqerror.ReadOnlySQLTransaction, pqerror.QueryCanceled, pqerror.IOError:
		return true
	default: // connections, memory, and disk space
		return strings.HasPrefix(string(c), string(pqerror.ClassInsufficientResources))
	}
}

// aborted reports whether a statement did not run because its session is in a
// failed transaction. For the vault's own connections, a new connection helps,
// because nothing leaves such a transaction behind on purpose.
func aborted(err error) bool { return code(err) == pqerror.InFailedSQLTransaction }

// lost reports whether the connection was lost or could not be opened. A
// running statement may or may not have been committed.
func lost(err error) bool {
	if _, ok := errors.AsType[*connectError](err); ok {
		return true
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if errors.Is(err, errUncertain) {
		return true
	}
	switch c := code(err); {
	case strings.HasPrefix(string(c), "08"), c == pqerror.TRStatementCompletionUnknown,
		c == pqerror.AdminShutdown, c == pqerror.CrashShutdown, c == pqerror.CannotConnectNow:
		return true
	}
	var network net.Error
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &network)
}

// code returns the SQLSTATE of an error of any driver, because a transaction of
// the application may use another driver.
func code(err error) pqerror.Code {
	var server interface {
		error
		SQLState() string
	}
	if errors.As(err, &server) {
		return pqerror.Code(server.SQLState())
	}
	return ""
}

// violates reports whether a statement violated a unique key. In a distributed
// table, the name of the key ends with the number of the shard.
func violates(err error, key string) bool {
	var server *pq.Error
	return errors.As(err, &server) && (server.Constraint == key || strings.HasPrefix(server.Constraint, key+"_"))
}

// errUnsettled ends the attempts at a change whose guards keep failing without
// a row that explains why.
var errUnsettled = fmt.Errorf("postgres: other writers kept changing the same rows: %w", storage.ErrStale)
