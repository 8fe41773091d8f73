package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// What a transaction of the application is given while a run is created in it:
// the settings that it had are read first and put back afterwards.
const limitsBeforeSQL = `select current_setting('lock_timeout'), current_setting('plan_cache_mode')`

const limitsRestoredSQL = `
select set_config('lock_timeout', $1::text, true), set_config('plan_cache_mode', $2::text, true)`

const limitsInsideSQL = `
select set_config('lock_timeout', $1::text, true), set_config('plan_cache_mode', 'force_custom_plan', true)`

// inside creates the runs in a transaction of the application, within a
// savepoint of ours: what is refused leaves the transaction as it was, usable
// and with its own settings.
func (c *creation) inside(ctx context.Context, tx pgx.Tx) error {
	part, err := tx.Begin(ctx)
	if err != nil {
		return err
	}
	if err := c.within(ctx, part); err != nil {
		rollbackPart(ctx, part)
		return err
	}
	return part.Commit(ctx)
}

func (c *creation) within(ctx context.Context, part pgx.Tx) error {
	var lock, plans string
	var b pgx.Batch
	b.Queue(limitsBeforeSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&lock, &plans) })
	b.Queue(limitsInsideSQL, lockTimeout)
	c.queue(&b)
	if err := part.SendBatch(ctx, &b).Close(); err != nil {
		return err
	}
	if err := c.verdict(); err != nil {
		return err
	}
	if err := c.store.enqueue(ctx, part, c.wakes(), true); err != nil {
		return err
	}
	_, err := part.Exec(ctx, limitsRestoredSQL, lock, plans)
	return err
}

// rollbackPart goes back to the savepoint, whatever has become of ctx.
func rollbackPart(ctx context.Context, part pgx.Tx) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	_ = part.Rollback(ctx)
}
