package storage

import (
	"context"
	"time"
)

// TreeStorage is an optional interface of a [Storage] that also keeps the
// Merkle trees over the log. Without it the vault cannot provide evidence.
//
// Each tenant has a tree, and the vault itself has one under the zero tenant. A
// backend does not compute hashes. It stores the rows it is given and never
// changes them, except where [TreeChange] says so. The tables are
// vault_log_trees, vault_log_leaves, vault_log_nodes, vault_log_events and
// vault_log_checkpoints.
type TreeStorage interface {
	// Trees returns trees in the order of their tenants.
	Trees(ctx context.Context, f TreeFilter) ([]Tree, error)

	// ReadTree returns the rows of a tree that match a query. It skips rows
	// that do not exist.
	ReadTree(ctx context.Context, q TreeQuery) (TreePart, error)

	// TreeEvents returns the contents of leaves of the vault's tree, in order.
	TreeEvents(ctx context.Context, q EventQuery) ([]TreeEvent, error)

	// Checkpoints returns checkpoints of the vault's tree.
	Checkpoints(ctx context.Context, q CheckpointQuery) ([]Checkpoint, error)

	// LogsByRef returns the tenant's log entries with these refs, in any order.
	// It skips entries that do not exist.
	LogsByRef(ctx context.Context, tenant ID, refs []LogRef) ([]Log, error)

	// WriteTree applies a change to a tree, all of it or none of it, and
	// returns nil once the change is durable. If the tree differs from the one
	// the change expects, the error is a [*Conflict] of kind TreeStale. After
	// any other error the change may or may not have been applied.
	WriteTree(ctx context.Context, c *TreeChange) error
}

// Instanced is an optional interface of a [Storage] that can tell one copy of a
// database from another.
type Instanced interface {
	Instance(ctx context.Context) (Instance, error)
}

// Instance identifies the server of a database.
type Instance struct {
	// ID differs if a copy of the database is served elsewhere. It is empty if
	// the backend cannot know.
	ID string
	// Started is when the server last started, or recovered from a crash. It is
	// zero if a crash cannot lose a relaxed change.
	Started time.Time
}

// TreeFilter selects trees.
type TreeFilter struct {
	Tenants []ID // nil for the tenants after After
	After   ID
	Limit   int
}

// Tree is the state of a Merkle tree.
type Tree struct {
	Tenant ID
	Size   int64 // number of leaves
	Root   Key
	State  []byte // data of the vault, never nil
}

// TreeQuery selects rows of a tree.
type TreeQuery struct {
	Tenant   ID
	From, To int64 // leaves, excluding To
	// Holding, if not zero, selects only batches that contain the leaf of this
	// log entry.
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
	Leaves []Leaves // every batch with a leaf in the range
	Nodes  []Node   // ordered by level, then by N
}

// LeavesPerBlock is the number of leaves in a block. A batch of leaves never
// spans two blocks.
const LeavesPerBlock = 256

// Leaves is a batch of leaves of a tenant's tree.
type Leaves struct {
	First int64 // index of the first leaf
	Kind  int
	Refs  []LogRef
	Hash  []Key // commitments, one per element of Refs
}

// LogRef names a log entry.
type LogRef struct {
	ID  ID
	Seq int64 // see [Log]; AnySeq if unknown
}

// AnySeq is the Seq of a LogRef whose sequence number is unknown.
const AnySeq = -1

// Node is the root of a complete subtree. N is its position in the level, from
// 0.
type Node struct {
	Level int
	N     int64
	Hash  Key
}

// EventQuery selects leaves of the vault's tree.
type EventQuery struct {
	From, To int64 // indexes, excluding To
	// About, if not nil, selects only events about this tenant; the zero id
	// selects those about the whole vault.
	About *ID
	Limit int // 0 for all
}

// TreeEvent is the content of a leaf of the vault's tree.
type TreeEvent struct {
	N     int64
	About ID // the tenant that the event is about, or zero
	Body  []byte
}

// CheckpointQuery selects checkpoints by the size of their tree.
type CheckpointQuery struct {
	Above, Below int64 // both exclusive
	// Oldest returns the smallest trees first. By default the largest are first.
	Oldest bool
	Limit  int
}

// Checkpoint is a signed note over the vault's tree.
type Checkpoint struct {
	Size int64
	Note []byte
	At   time.Time
}

// TreeChange changes a tree.
type TreeChange struct {
	// Was is the expected tree. Its size and state must match the stored ones.
	// A tree that does not exist has size 0 and a nil state.
	Was Tree
	// Tree is the new tree. It has the tenant of Was.
	Tree Tree

	Leaves     []Leaves
	Nodes      []Node
	Events     []TreeEvent // for the vault's tree
	Checkpoint *Checkpoint // for the vault's tree; an existing one of the same size is kept

	// PruneBelow deletes the batches of leaves below this index, a multiple of
	// LeavesPerBlock.
	PruneBelow int64
}
