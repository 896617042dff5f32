// Package audit defines the vocabulary of the audit log: entity types,
// operations and messages.
package audit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/seed-72ea4aab/vault/internal/token"
)

// Operations of entries.
const (
	Create    = "create"
	Update    = "update"
	Read      = "read"
	Delete    = "delete"
	Use       = "use"
	Authorize = "authorize"
	Expire    = "expire"
	React     = "react"
	Import    = "import"
	// Key is about the key that wraps a tenant's data keys, or about the API keys of an
	// application.
	Key = "key"
)

// Operations that only a full audit records.
const (
	Denied = "denied"
	Start  = "start"
	Stop   = "stop"
)

// Entity types other than tokens. The entity type of a token is its type.
const (
	Application = "application"
	Erasure     = "erasure"
	Proxy       = "proxy"
	Reactor     = "reactor"
	Session     = "session"
	Tenant      = "tenant"
	Log         = "log" // only in a full audit
)

// Messages of an erasure. The reason follows TokensErased.
const (
	TokenErased  = "Token erased"
	TokensErased = "Tokens erased: "
	// Unopened follows the message about a row that was deleted while the tenant's
	// own key was denied.
	Unopened  = " (unopened)"
	JobErased = "Reactor job erased with a token"
)

// KeyRegenerated is the message when an application gets another key.
const KeyRegenerated = "Application key regenerated"

const (
	keyMessage = "Application key "
	keyCreated = " created"
	keyDeleted = " deleted"
)

// KeyCreated returns the message when an application gets one more key.
func KeyCreated(key uuid.UUID) string { return keyMessage + key.String() + keyCreated }

// KeyDeleted returns the message when a key of an application is deleted.
func KeyDeleted(key uuid.UUID) string { return keyMessage + key.String() + keyDeleted }

// DeletedKey returns the key in a message of KeyDeleted.
func DeletedKey(message string) (key uuid.UUID, ok bool) {
	rest, ok := strings.CutPrefix(message, keyMessage)
	text, after, found := strings.Cut(rest, " ")
	key, err := uuid.Parse(text)
	return key, ok && found && err == nil && strings.HasPrefix(" "+after, keyDeleted)
}

// Suspended and Confirmed follow the name of an entity that a restore brought back
// in an older state.
const (
	Suspended = " suspended after a restore"
	Confirmed = " confirmed after a restore"
)

var pastTense = map[string]string{
	Create: "created", Update: "updated", Read: "read", Delete: "deleted",
	Use: "used", Authorize: "authorized", Expire: "expired", React: "invoked",
}

// IsToken reports whether an entity type is the type of a token.
func IsToken(entityType string) bool { return token.TypeOf(entityType) != nil }

// messages are the texts of entries by entity type and operation.
var messages = func() map[[2]string]string {
	all := map[[2]string]string{}
	for _, entityType := range EntityTypes(true) {
		noun := entityType
		if IsToken(entityType) {
			noun = "token"
		}
		for operation, past := range pastTense {
			all[[2]string{entityType, operation}] = DisplayName(noun) + " " + past
		}
	}
	all[[2]string{Proxy, Use}] = "Proxy invoked"
	all[[2]string{Log, Start}] = "Vault started"
	all[[2]string{Log, Stop}] = "Vault stopped"
	return all
}()

// FailedMessage returns the text of the entry for a failed run of a reactor or a
// proxy. The line of the error may be 0.
func FailedMessage(entityType string, line int) string {
	text := DisplayName(entityType) + " failed"
	if line > 0 {
		text += fmt.Sprintf(" in line %d", line)
	}
	return text
}

// ImportMessage returns the text of the entry for a batch of an import.
func ImportMessage(rows, refused, skipped int) string {
	return fmt.Sprintf("Import: of %d rows %d refused, %d skipped", rows, refused, skipped)
}

// RefusedMessage returns the text of the entry for a refused row of an
// import.
func RefusedMessage(row int) string { return fmt.Sprintf("Import: row %d refused", row) }

// DeniedMessage returns the text of an entry for denied calls. The permission
// may be empty.
func DeniedMessage(call, permission string, times int) string {
	text := "Denied: " + call
	if times > 1 {
		text = fmt.Sprintf("Denied %d times: %s", times, call)
	}
	if permission != "" {
		text += " (" + permission + ")"
	}
	return text
}

// To returns the end of the text of an entry about data that was sent to a
// host.
func To(host string) string { return " in a request to " + host }

// revisionMark precedes the revision at the end of a message.
const revisionMark = " (revision "

// WithRevision appends to a message the revision of the changed row.
func WithRevision(message string, revision int64) string {
	return message + revisionMark + strconv.FormatInt(revision, 10) + ")"
}

// Revision returns the revision at the end of a message.
func Revision(message string) (revision int64, ok bool) {
	i := strings.LastIndex(message, revisionMark)
	if i < 0 {
		return 0, false
	}
	text, ok := strings.CutSuffix(message[i+len(revisionMark):], ")")
	revision, err := strconv.ParseInt(text, 10, 64)
	return revision, ok && err == nil && revision >= 0
}

// Message returns the text of an entry.
func Message(entityType, operation string) string { return messages[[2]string{entityType, operation}] }

// EntityTypes returns all entity types, sorted by name. The log is an entity
// type only in a full audit.
func EntityTypes(full bool) []string {
	all := []string{
		Application, token.Bank, token.Card, token.CardNumber, token.EmployerIDNumber, Erasure, Log,
		Proxy, Reactor, Session, token.SocialSecurityNumber, Tenant, token.Generic,
		token.USBankAccountNumber, token.USBankRoutingNumber,
	}
	if full {
		return all
	}
	return slices.DeleteFunc(all, func(name string) bool { return name == Log })
}

var known = EntityTypes(true)

// Known reports whether the vault writes entries about entities of a type.
func Known(entityType string) bool { return slices.Contains(known, entityType) }

// DisplayName returns a system name for people: us_bank_account_number
// becomes US Bank Account Number.
func DisplayName(name string) string {
	words := strings.Split(name, "_")
	for i, w := range words {
		switch w {
		case "us", "id":
			words[i] = strings.ToUpper(w)
		case "":
		default:
			words[i] = strings.ToUpper(w[:1]) + w[1:]
		}
	}
	return strings.Join(words, " ")
}
