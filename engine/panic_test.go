package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func recovered(f func()) (p *PanicError) {
	defer func() { p = newPanic(recover()) }()
	f()
	return nil
}

func dig(levels int) int {
	if levels == 0 {
		panic("bottom")
	}
	return dig(levels-1) + 1
}

// spec: C-853
func TestFramesOfPanics(t *testing.T) {
	t.Parallel()
	var nothing *byValue
	zero := 0
	for name, f := range map[string]func(){
		"text":        func() { panic("text") },
		"error":       func() { panic(errors.New("error")) },
		"nil":         func() { panic(nil) },
		"nil pointer": func() { _ = nothing.Cents },
		"division":    func() { _ = 1 / zero },
		"in a defer":  func() { defer func() { panic("second") }(); dig(3) },
		"again":       func() { defer func() { panic(recover()) }(); dig(3) },
	} {
		p := recovered(f)
		if len(p.Frames) == 0 || !strings.Contains(p.Frames[0], "TestFramesOfPanics.func") || !strings.HasPrefix(p.Error(), "panic: ") {
			t.Errorf("%s: %v %q", name, p, p.Frames)
		}
	}
}

// spec: C-612, C-670, C-853
func TestDeepPanics(t *testing.T) {
	t.Parallel()
	p := recovered(func() { dig(10_000) })
	if len(p.Frames) != 101 || !strings.HasPrefix(p.Frames[0], "github.com/pgreactor/reactor/engine.dig (panic_test.go:") {
		t.Fatalf("%d frames, first %s", len(p.Frames), p.Frames[0])
	}
	var rest int
	if _, err := fmt.Sscanf(p.Frames[100], "… %d more", &rest); err != nil || rest < 9_902 || rest > 9_920 {
		t.Errorf("last line %s", p.Frames[100])
	}
	if p := recovered(func() { dig(10) }); len(p.Frames) > 30 || strings.Contains(strings.Join(p.Frames, "\n"), "more") {
		t.Errorf("few frames: %q", p.Frames)
	}
}
