// Package vaultsql keeps personal data out of your own tables. A field of one of
// its types holds a value in memory and a token id in the database:
//
//	type Customer struct {
//		ID    int64
//		Name  vaultsql.Text `vault:"container=/pii/high/,index"`
//		Email vaultsql.Text `vault:"dedup"`
//		Card  vaultsql.Card
//	}
//
//	cust := Customer{Name: vaultsql.NewText("Jane"), Card: vaultsql.NewCard(card)}
//	err := vaultsql.Seal(ctx, c.InTx(tx), &cust) // one call creates every token
//	_, err = tx.ExecContext(ctx, "INSERT INTO customers (name, email, card) VALUES ($1, $2, $3)",
//		cust.Name, cust.Email, cust.Card)
//
//	err = vaultsql.Open(ctx, c, customers) // rows that were read, any number of them
//	name, err := customers[0].Name.Get()
//
// The column is a text column that holds a token id or NULL. A field implements
// [driver.Valuer] and [sql.Scanner], so it works with database/sql and the
// libraries built on it, and with pgx itself: Seal(ctx, c.InTx(vaultpgx.Tx(tx)), &cust).
// Writing a value that was not sealed is an error.
//
// # Tags
//
// A field may have a tag with these words, separated by commas:
//
//	type=card_number        the type of the token; by default card for Card, bank
//	                        for Of[vault.BankData], and token for everything else
//	container=/pii/high/    a container of the token; may be repeated
//	index                   the whole value can be found with Lookup
//	dedup                   equal values share one token; implies index
//	expires=720h            the token expires this long after Seal
//	mask=last4              the mask: none, last4, first1 or another number of
//	                        characters up to 9, or an expression such as
//	                        {{ data | reveal: 1, 1 }}
//	subject=ID              the metadata subject of every token of the row is the
//	                        value of its field ID
//	field=customers.email   the name of the field in the vault; by default the
//	                        names of the struct and the field, as in Customer.Email
//
// Dedup fields with the same type and containers share tokens. They never share a
// token that was created by other means. The duration of expires is measured on
// the vault's clock, and starts again when the value changes.
//
// The default mask of a text of type token shows the last four characters, and
// nothing of a text with fewer than ten. Other types have the masks of the vault.
//
// Every token of a field in a struct has the name of the field as the metadata
// field. [Lookup] finds tokens by it. Structs for the same table, such as the
// parameters that sqlc generates, need field= to have the same names. [Reapply]
// applies a changed tag to existing tokens, and [CheckTags] finds the tokens that need it.
//
// With subject= on one field of a struct, all tokens of the struct, and of structs
// in it, can be found and erased with the query metadata.subject:42. The named
// field is a string, an integer or an [encoding.TextMarshaler], such as the key of
// a customer, and must be set before [Seal]. A shared token of a dedup field has
// the subject of the row that created it. A field that is sealed alone has the
// subject of the row before it: Seal(ctx, c, &customer, &note). Queries ignore the case of
// metadata, so keys that differ only in case are one person to such a query.
//
// # Structs
//
// [Seal], [Open], [Forget] and [Erase] take pointers to structs, slices of structs or of
// pointers to them, and pointers to single fields. They find fields in nested and
// embedded structs, behind pointers, and in slices, arrays and maps of pointers.
// A nil pointer inside a struct is skipped. An error about a field is a
// [FieldError]. Errors never contain a value.
//
// # What a field shows
//
// With fmt, slog and templates a field shows its token id, never its value.
// [Of.Get] returns the value, [Of.Mask] the mask, and [Of.View] what the caller may
// see. The value is stored behind a pointer and a function, so a struct that has the
// field as an unexported field does not print it either.
//
// In JSON a field is a reference to its token, {"$vault": "<id>"}. Decoding it gives
// the same field, so rows may pass through caches, queues and pages. Any other JSON
// is a new value: see [Of.UnmarshalJSON].
package vaultsql
