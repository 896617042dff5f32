-- name: Create :one
INSERT INTO customers (name, email, card) VALUES ($1, $2, $3) RETURNING id;

-- name: Find :many
SELECT * FROM customers WHERE email = ANY (sqlc.arg(ids)::text[]) ORDER BY id;
