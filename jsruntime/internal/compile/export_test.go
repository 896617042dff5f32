package compile

// Patches are the names that call for each patch, and Companions the names that a
// program must have, too.
var (
	Patches    = patches
	Companions = companions
)
