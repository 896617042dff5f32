package pace

// Lock is a mutex for work that calls other services while it holds the lock. A
// simulation with simulated time sees that a goroutine waits for a Lock; it does not
// see who waits for a sync.Mutex.
type Lock chan struct{}

// NewLock returns a free lock.
func NewLock() Lock { return make(Lock, 1) }

// Lock waits for the lock and takes it.
func (l Lock) Lock() { l <- struct{}{} }

// TryLock takes the lock if it is free.
func (l Lock) TryLock() bool {
	select {
	case l <- struct{}{}:
		return true
	default:
		return false
	}
}

// Unlock gives the lock back.
func (l Lock) Unlock() { <-l }
