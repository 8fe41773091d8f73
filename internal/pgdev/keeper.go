package pgdev

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

//go:embed keeper.sh
var keeperScript string

// stopTime is how long a keeper may take to end its server, at most: the
// script itself gives up sooner.
const stopTime = time.Minute

// A keeper is the process that holds the server. Only this process has the
// write end of its input.
type keeper struct {
	process *exec.Cmd
	input   io.WriteCloser
	answers *bufio.Reader
	turn    sync.Mutex // one command at a time
	once    sync.Once
	end     error
}

// startKeeper starts the keeper of a folder. lock stays open in it and in the
// server, so that the folder is locked until both are gone.
func startKeeper(ctx context.Context, f folder, bin binaries, lock *os.File) (*keeper, error) {
	if err := f.write("keeper.sh", keeperScript); err != nil {
		return nil, err
	}
	arguments := []string{f.file("keeper.sh"), f.path, bin.dir}
	if f.temporary {
		arguments = append(arguments, "temporary")
	}
	k := &keeper{process: exec.Command("/bin/sh", arguments...)}
	k.process.Dir = f.path
	k.process.Env = environment()
	k.process.SysProcAttr = detached(f.owner)
	k.process.ExtraFiles = []*os.File{lock}
	output, err := k.process.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start the keeper of the server: %w", err)
	}
	if k.input, err = k.process.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start the keeper of the server: %w", err)
	}
	k.answers = bufio.NewReader(output)
	if err := k.process.Start(); err != nil {
		return nil, fmt.Errorf("start the keeper of the server: %w", err)
	}
	if err := k.answer(ctx); err != nil {
		_ = k.stop() // it ends with an error of its own
		return nil, err
	}
	return k, nil
}

// environment is ours without what would change how PostgreSQL's programs
// work, and with messages in English.
func environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "PG") || strings.HasPrefix(v, "LC_") || strings.HasPrefix(v, "LANG")
	})
	return append(env, "LC_ALL=C")
}

// errCommand is a command that the keeper could not carry out.
var errCommand = errors.New("not done")

// ask has a command carried out; an errCommand if it was and failed.
func (k *keeper) ask(ctx context.Context, command string) error {
	k.turn.Lock()
	defer k.turn.Unlock()
	if _, err := fmt.Fprintln(k.input, command); err != nil {
		return fmt.Errorf("the keeper of the server is gone: %w", err)
	}
	return k.answer(ctx)
}

// answer reads the answer to the last command. If the context ends before it,
// the keeper is of no more use.
func (k *keeper) answer(ctx context.Context) error {
	got := make(chan error, 1)
	go func() {
		switch line, err := k.answers.ReadString('\n'); {
		case err != nil:
			got <- fmt.Errorf("the keeper of the server is gone: %w", err)
		case line == "busy\n":
			got <- errBusy
		case line != "0\n":
			got <- errCommand
		default:
			got <- nil
		}
	}()
	select {
	case err := <-got:
		return err
	case <-ctx.Done():
		k.input.Close()
		<-got // the command ends by itself; reading and waiting must not overlap
		return ctx.Err()
	}
}

// stop ends the input and waits for the keeper.
func (k *keeper) stop() error {
	k.once.Do(func() {
		k.input.Close()
		ended := make(chan error, 1)
		go func() { ended <- k.process.Wait() }()
		select {
		case k.end = <-ended:
		case <-time.After(stopTime):
			k.end = errors.New("the server does not stop")
		}
	})
	return k.end
}
