package postgres

import (
	"slices"
	"strconv"
	"strings"

	"github.com/seed-72ea4aab/vault/storage"
)

func (s *statement) insertLogs(logs []storage.Log) {
	rows := rowsOf(logColumns, logs, putLog)
	if !s.routed && !s.portable && ofOneCall(logs) {
		s.with("logged", "INSERT INTO vault_logs (tenant_id, "+logColumns.names("")+") VALUES ($1::bytea, "+
			logColumns.unnested(len(s.args), callColumns...)+")")
		s.args = rows.parameters(s.args, logColumns, callColumns)
		return
	}
	if !s.routed {
		s.write("logged", anyRows, func(s *statement) string { return s.insert("vault_logs", rows) })
		return
	}
	s.write("logged", anyRows, func(s *statement) string {
		text := s.insert("vault_logs", rows)
		s.args = append(s.args, txNumber{})
		text = strings.Replace(text, ") VALUES (", ", xid) VALUES (", 1)
		return strings.TrimSuffix(text, ")") + ", $" + strconv.Itoa(len(s.args)) + "::bigint)"
	})
}

// callColumns are the columns that have the same value in all log entries of a
// call. They are sent once.
var callColumns = []string{"created_at", "actor_id", "actor_type", "operation", "message", "actor_name", "origin"}

// ofOneCall reports whether there are several log entries, and they differ only
// in id, entity and Mac.
func ofOneCall(logs []storage.Log) bool {
	first := logs[0]
	return len(logs) > 1 && !slices.ContainsFunc(logs, func(l storage.Log) bool {
		l.ID, l.EntityType, l.EntityID, l.Mac = first.ID, first.EntityType, first.EntityID, first.Mac
		return l != first
	})
}
