package engine

import "fmt"

// located is a seam that says in which database its rows are. The host is for
// people: one database may be reached under several.
type located interface {
	Database() (name, host string)
}

// apart says that store and dispatcher are in different databases, so that no
// transaction can hold what both write. Seams that don't say where they are are
// taken as they come.
func apart(s Store, d Dispatcher) error {
	store, ok := s.(located)
	if !ok {
		return nil
	}
	queue, ok := d.(located)
	if !ok {
		return nil
	}
	stored, at := store.Database()
	queued, on := queue.Database()
	if stored == "" || queued == "" || stored == queued {
		return nil
	}
	return fmt.Errorf("Store is in database %q on %s and Dispatcher in database %q on %s: runs and their wake-ups are written in one transaction, so give both a pool of the same database", stored, at, queued, on)
}
