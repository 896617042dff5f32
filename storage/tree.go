package storage

import (
	"context"
	"time"
)

// TreeStorage is a [Storage] that also keeps the Merkle trees over the log. No
// Storage has to be one; the vault then cannot offer evidence.
//
// Each tenant has a tree, and so has the vault, under the tenant zero. A backend
// does not compute hashes: it stores what it is given, and only adds, except for
// what [TreeChange] says. The tables are vault_log_trees, vault_log_leaves,
// vault_log_nodes, vault_log_events and vault_log_checkpoints.
type TreeStorage interface {
	// Trees returns trees in the order of their tenants.
	Trees(ctx context.Context, f TreeFilter) ([]Tree, error)

	// ReadTree returns the rows of a tree that a query asks for. Rows that do not
	// exist are left out.
	ReadTree(ctx context.Context, q TreeQuery) (TreePart, error)

	// TreeEvents returns the contents of the leaves of the vault's tree, from one
	// index up to, but not including, another, in their order.
	TreeEvents(ctx context.Context, from, to int64) ([]TreeEvent, error)

	// Checkpoints returns up to limit notes over the vault's tree with a size
	// below the given one, largest first.
	Checkpoints(ctx context.Context, below int64, limit int) ([]Checkpoint, error)

	// LogsByRef returns the tenant's log entries, in any order. Entries that do
	// not exist are left out.
	LogsByRef(ctx context.Context, tenant ID, refs []LogRef) ([]Log, error)

	// WriteTree applies a change to a tree as [Writer.Write] does: whole, or not
	// at all, and durable when it returns nil. If the tree is not as the change
	// expects, the error is a [*Conflict] of the kind TreeStale. After any other
	// error the change may be applied or not.
	WriteTree(ctx context.Context, c *TreeChange) error
}

// Instanced is a [Storage] that can tell one copy of a database from another. No
// Storage has to be one.
type Instanced interface {
	Instance(ctx context.Context) (Instance, error)
}

// Instance is the server that a database is on.
type Instance struct {
	// ID differs on a copy that is served elsewhere. It is empty if that cannot
	// be known.
	ID string
	// Started is when the server last started, or recovered from a crash. It is
	// zero if a crash cannot lose what a relaxed change has written.
	Started time.Time
}

// TreeFilter asks for trees.
type TreeFilter struct {
	Tenants []ID // these; nil for those after After
	After   ID
	Limit   int
}

// Tree is the state of a tree.
type Tree struct {
	Tenant ID
	Size   int64 // leaves
	Root   Key
	State  []byte // what the vault keeps beside it, never nil
}

// TreeQuery asks for rows of a tree.
type TreeQuery struct {
	Tenant   ID
	From, To int64 // leaves, from From up to, but not including, To
	// Holding asks for the batches only that hold the leaf of a log entry, unless
	// it is zero.
	Holding ID
	Nodes   []NodeRange
}

// NodeRange names subtrees of a level, from From up to, but not including, To.
type NodeRange struct {
	Level    int
	From, To int64
}

// TreePart holds rows of a tree, in the order of the tree.
type TreePart struct {
	Leaves []Leaves // every batch that has a leaf in the range
	Nodes  []Node   // ordered by level, then by number
}

// LeavesPerBlock is the number of leaves of a block. A batch of leaves lies in
// one block.
const LeavesPerBlock = 256

// Leaves is a batch of leaves of a tenant's tree.
type Leaves struct {
	First int64 // index of the first
	Kind  int
	Refs  []LogRef
	Hash  []Key // commitments, one for each of the Refs
}

// LogRef names a log entry.
type LogRef struct {
	ID  ID
	Seq int64 // of the entry: see [Log]; AnySeq if it is not known
}

// AnySeq stands for a number that is not known.
const AnySeq = -1

// Node is the root of a complete subtree: the Nth of its level, from 0 on.
type Node struct {
	Level int
	N     int64
	Hash  Key
}

// TreeEvent is the content of a leaf of the vault's tree.
type TreeEvent struct {
	N    int64
	Body []byte
}

// Checkpoint is a signed note over the vault's tree.
type Checkpoint struct {
	Size int64
	Note []byte
	At   time.Time
}

// TreeChange changes a tree.
type TreeChange struct {
	// Was is the tree as it must be: its size and its state count. A tree that
	// does not exist has the size 0 and the state nil.
	Was Tree
	// Tree is the tree as it will be. It has the tenant of Was.
	Tree Tree

	Leaves     []Leaves
	Nodes      []Node
	Events     []TreeEvent // of the vault's tree
	Checkpoint *Checkpoint // of the vault's tree; one of the same size stays

	// PruneBelow deletes the batches of leaves below an index, which is a multiple
	// of LeavesPerBlock.
	PruneBelow int64
	// Erase removes ActorName, Origin and Mac from log entries of the tenant.
	Erase []LogRef
}
