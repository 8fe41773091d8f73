package engine

import "log/slog"

// InMemoryWith is InMemory with middleware.
func InMemoryWith(middleware ...func(Next) Next) *Engine {
	return InMemoryLogging(slog.New(slog.DiscardHandler), middleware...)
}

// InMemoryLogging is InMemory with a logger and middleware.
func InMemoryLogging(log *slog.Logger, middleware ...func(Next) Next) *Engine {
	return InMemoryConfig(Config{Logger: log, Middleware: middleware})
}

// InMemoryConfig is InMemory with other settings.
func InMemoryConfig(c Config) *Engine {
	e := InMemory()
	c.Store, c.Dispatcher, c.Lease = e.config.Store, e.config.Dispatcher, e.config.Lease
	e.config = c.withDefaults()
	e.middleware = chain(c.Middleware, e.config.Logger)
	return e
}
