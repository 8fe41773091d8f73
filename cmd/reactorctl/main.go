// Command reactorctl is the command line of the library. Its exit codes are
// those of "reactorctl help exit-codes".
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/pgreactor/reactor/cmd/reactorctl/internal/ctl"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := ctl.Main(ctx, os.Args[1:], ctl.Console{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Getenv})
	stop()
	os.Exit(code)
}
