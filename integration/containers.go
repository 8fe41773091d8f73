package integration

import (
	"context"
	"fmt"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/modules/postgres"
)

// StartContainer starts a PostgreSQL in Docker, for machines without server
// binaries. Stop removes it; if the process dies, testcontainers' reaper does.
func StartContainer(ctx context.Context) (url string, stop func(), err error) {
	if err := dockerHealth(ctx); err != nil {
		return "", nil, fmt.Errorf("no healthy Docker daemon: %w", err)
	}
	c, err := postgres.Run(ctx, "postgres:17-alpine", postgres.BasicWaitStrategies())
	if err != nil {
		return "", nil, fmt.Errorf("start a PostgreSQL container: %w", err)
	}
	url, err = c.ConnectionString(ctx, "sslmode=disable")
	if err != nil {
		_ = testcontainers.TerminateContainer(c)
		return "", nil, err
	}
	return url, func() { _ = testcontainers.TerminateContainer(c) }, nil
}

// dockerHealth asks the daemon; looking for one may panic where there is none.
func dockerHealth(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	provider, err := testcontainers.ProviderDefault.GetProvider()
	if err != nil {
		return err
	}
	defer func() { _ = provider.Close() }()
	return provider.Health(ctx)
}
