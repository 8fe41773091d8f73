package engine

import (
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
)

// maxFrames is how many stack frames of a panic are kept.
const maxFrames = 100

// newPanic makes the error of a panic; value is what recover returned, and the
// caller is the deferred function that called recover.
func newPanic(value any) *PanicError {
	return &PanicError{Value: value, Frames: frames(callers())}
}

// callers is the whole stack, however deep.
func callers() []uintptr {
	for size := 4 * maxFrames; ; size *= 8 {
		pcs := make([]uintptr, size)
		if n := runtime.Callers(3, pcs); n < size {
			return pcs[:n]
		}
	}
}

// frames gives one line for each of the first frames from where it panicked, and
// one that counts the rest.
func frames(pcs []uintptr) []string {
	stack := readStack(pcs)
	stack = stack[panicSite(stack):]
	var lines []string
	for _, f := range stack[:min(len(stack), maxFrames)] {
		lines = append(lines, fmt.Sprintf("%s (%s:%d)", f.Function, path.Base(f.File), f.Line))
	}
	if rest := len(stack) - maxFrames; rest > 0 {
		lines = append(lines, fmt.Sprintf("… %d more", rest))
	}
	return lines
}

func readStack(pcs []uintptr) []runtime.Frame {
	if len(pcs) == 0 {
		return nil
	}
	var stack []runtime.Frame
	for next := runtime.CallersFrames(pcs); ; {
		f, more := next.Next()
		stack = append(stack, f)
		if !more {
			return stack
		}
	}
}

// panicSite is the index of the frame that panicked: above it are the deferred
// function that recovered, the runtime, and encoding/json, which recovers and
// panics again.
func panicSite(stack []runtime.Frame) int {
	site := 0
	for i, f := range stack {
		if f.Function == "runtime.gopanic" && (site == 0 || passedOn(stack[site:i])) {
			site = i + 1
		}
	}
	for site < len(stack) && strings.HasPrefix(stack[site].Function, "runtime.") {
		site++
	}
	return site
}

func passedOn(frames []runtime.Frame) bool {
	return !slices.ContainsFunc(frames, func(f runtime.Frame) bool {
		return !strings.HasPrefix(f.Function, "encoding/json.") && !strings.HasPrefix(f.Function, "runtime.")
	})
}
