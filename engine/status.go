package engine

// A Status is where a run is.
type Status string

// The statuses of a run; those from Completed on are final.
const (
	Pending     Status = "pending"      // not begun: queued, or its start time has not come
	Running     Status = "running"      // at work or waiting; also when blocked
	Paused      Status = "paused"       // waiting for a payload
	RollingBack Status = "rolling_back" // being undone
	Completed   Status = "completed"    // also with skipped steps
	Halted      Status = "halted"       // ended by Halt, nothing undone
	Failed      Status = "failed"       // rolled back as far as possible
	Cancelled   Status = "cancelled"    // by Cancel, or by Undo
	Aborted     Status = "aborted"      // its caller was interrupted; Undo rolls it back
)

// Final reports whether s is a status that only Undo changes.
func (s Status) Final() bool {
	switch s {
	case Completed, Halted, Failed, Cancelled, Aborted:
		return true
	}
	return false
}
