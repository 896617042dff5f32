package compile

// Patches are the names that require each patch, and Companions the names that
// a program must also contain.
var (
	Patches    = patches
	Companions = companions
)
