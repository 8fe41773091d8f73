package pgstore

import (
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/pgreactor/reactor/engine"
)

// transaction is the engine.Tx of this package. Its method Pgx is how package
// river finds what is in it.
type transaction struct{ tx pgx.Tx }

// EngineTx makes t an engine.Tx.
func (transaction) EngineTx() {}

// Pgx is the transaction itself.
func (t transaction) Pgx() pgx.Tx { return t.tx }

// Tx makes tx one that StartTx and its like take. You commit it; until then
// nobody sees what was started in it.
func Tx(tx pgx.Tx) engine.Tx { return transaction{tx} }

// FromTx is the pgx transaction in tx; it panics on a transaction that is not
// from this package.
func FromTx(tx engine.Tx) pgx.Tx {
	t, err := unwrap(tx)
	if err != nil {
		panic(err.Error())
	}
	return t
}

// unwrap is FromTx with an error.
func unwrap(tx engine.Tx) (pgx.Tx, error) {
	t, ok := tx.(transaction)
	switch {
	case !ok:
		return nil, fmt.Errorf("pgstore: a %T is no transaction of this store: make one with pgstore.Tx", tx)
	case t.tx == nil:
		return nil, fmt.Errorf("pgstore: the transaction given to pgstore.Tx is nil")
	}
	return t.tx, nil
}
