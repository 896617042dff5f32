package link

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

// ErrGuard means that a step did not write the number of rows it must write.
var ErrGuard = errors.New("postgres: a guard of the change does not hold")

// ErrUncertain means that a transaction may or may not have been committed.
var ErrUncertain = errors.New("postgres: the commit failed; the change may or may not have been applied")

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

// Clean replaces a driver error with an error that is safe to show.
func Clean(err error) error {
	var server *pq.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &server):
		return &ServerError{Code: string(server.Code), Constraint: server.Constraint}
	case Code(err) != "":
		return &ServerError{Code: string(Code(err))}
	case errors.Is(err, pq.ErrSSLNotSupported):
		return errors.New("postgres: the server has no TLS: turn it on, or, on a network that you trust, add sslmode=disable to the connection string")
	case Lost(err):
		return fmt.Errorf("postgres: no connection: %w", err)
	default:
		return err
	}
}

// Refused reports whether the server undid a statement because one of its
// guards or a unique key did not hold.
func Refused(err error) bool {
	if errors.Is(err, ErrGuard) {
		return true
	}
	switch Code(err) {
	case pqerror.DivisionByZero, pqerror.UniqueViolation, pqerror.CardinalityViolation:
		return true
	default:
		return false
	}
}

// Failed cleans the error of a call on an open database. Errors that may pass
// become [storage.ErrUnavailable], and a canceled statement becomes
// [storage.ErrSlow].
func Failed(err error) error {
	switch {
	case Code(err) == pqerror.QueryCanceled:
		return fmt.Errorf("%w: %w", storage.ErrSlow, Clean(err))
	case err == nil, errors.Is(err, storage.ErrUnavailable), !Passes(err) && !hopeless(err):
		return Clean(err)
	}
	return fmt.Errorf("%w: %w", storage.ErrUnavailable, Clean(err))
}

// Passes reports whether the same call may succeed later.
func Passes(err error) bool { return (Lost(err) || Transient(err)) && !hopeless(err) }

// hopeless reports whether a rejected connection will stay rejected until
// someone changes the configuration.
func hopeless(err error) bool {
	c := string(Code(err))
	return strings.HasPrefix(c, string(pqerror.ClassInvalidAuthorizationSpecification)) ||
		strings.HasPrefix(c, string(pqerror.ClassInvalidCatalogName))
}

// Transient reports whether a statement certainly had no effect and may succeed
// when tried again.
func Transient(err error) bool {
	switch c := Code(err); c {
	case pqerror.TRSerializationFailure, pqerror.TRDeadlockDetected, pqerror.LockNotAvailable,
		pqerror.ReadOnlySQLTransaction, pqerror.IOError:
		return true
	default: // connections, memory, and disk space
		return strings.HasPrefix(string(c), string(pqerror.ClassInsufficientResources))
	}
}

// Aborted reports whether a statement did not run because its session is in a
// failed transaction. For the vault's own connections, a new connection helps,
// because nothing leaves such a transaction behind on purpose.
func Aborted(err error) bool { return Code(err) == pqerror.InFailedSQLTransaction }

// Lost reports whether the connection was lost or could not be opened. A
// running statement may or may not have been committed.
func Lost(err error) bool {
	if _, ok := errors.AsType[*connectError](err); ok {
		return true
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if errors.Is(err, ErrUncertain) {
		return true
	}
	switch c := Code(err); {
	case strings.HasPrefix(string(c), "08"), c == pqerror.TRStatementCompletionUnknown,
		c == pqerror.AdminShutdown, c == pqerror.CrashShutdown, c == pqerror.CannotConnectNow:
		return true
	}
	var network net.Error
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.As(err, &network)
}

// Code returns the SQLSTATE of an error of any driver, because a transaction of
// the application may use another driver.
func Code(err error) pqerror.Code {
	var server interface {
		error
		SQLState() string
	}
	if errors.As(err, &server) {
		return pqerror.Code(server.SQLState())
	}
	return ""
}

// Violates reports whether a statement violated a unique key. In a distributed
// table, the name of the key ends with the number of the shard.
func Violates(err error, key string) bool {
	var server *pq.Error
	return errors.As(err, &server) && (server.Constraint == key || strings.HasPrefix(server.Constraint, key+"_"))
}
