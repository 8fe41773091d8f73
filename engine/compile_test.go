package engine_test

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// declarations are what the wrong lines use.
const declarations = `package shop

import (
	"context"

	"github.com/pgreactor/reactor/engine"
)

type Order struct{ ID int }
type Hold struct{ ID int }
type Payment struct{ ID int }

func reserve(context.Context, Order) (Hold, error)    { return Hold{}, nil }
func charge(context.Context, Hold) (Payment, error)   { return Payment{}, nil }
func release(context.Context, Order, Hold) error      { return nil }
func allowed(context.Context, Order) error            { return nil }
func transfer(engine.Tx)                              {}
type foreignTx struct{}

var child = engine.MustDefine("child", func(b *engine.Builder, hold engine.Ref[Hold]) engine.Ref[Payment] {
	return engine.Step(b, "charge", hold, charge)
})

var (
	_ = reserve
	_ = release
	_ = allowed
	_ = transfer
	_ foreignTx
)

func define(ctx context.Context, e *engine.Engine, b *engine.Builder, order engine.Ref[Order], hold engine.Ref[Hold]) engine.Ref[Payment] {
	LINE
	return engine.Step(b, "charge", hold, charge)
}
`

// spec: C-30
func TestCompilerMessages(t *testing.T) {
	t.Parallel()
	engineImporter := importer.ForCompiler(token.NewFileSet(), "gc", exportData(t))
	for name, c := range map[string]struct{ line, want string }{
		"right":               {`_ = engine.Step(b, "reserve", order, reserve).Undo(release)`, ""},
		"wrong input":         {`_ = engine.Step(b, "charge", order, charge)`, "type func(context.Context, Hold) (Payment, error) of charge does not match inferred type func(context.Context, Order) (Out, error)"},
		"undo of another":     {`engine.Step(b, "charge", hold, charge).Undo(release)`, "cannot use release (value of type func(context.Context, Order, Hold) error) as func(ctx context.Context, in Hold, out Payment) error"},
		"wrong result":        {`var _ engine.Ref[Payment] = engine.Step(b, "reserve", order, reserve)`, "does not implement engine.Ref[Payment] (wrong type for method resolve)"},
		"wrong join function": {`_ = engine.Join2(order, hold, func(o Order, p Payment) Hold { return Hold{} })`, "does not match inferred type func(Order, Hold) T"},
		"key of another":      {`_ = engine.Key(hold, func(o Order) string { return "" })`, "does not match inferred type func(Hold) string"},
		"string for a handle": {`_ = engine.Step(b, "charge", "hold", charge)`, "string does not implement engine.Ref[Hold]"},
		"handle never used":   {`x := engine.Step(b, "reserve", order, reserve)`, "declared and not used: x"},
		"guard of another":    {`engine.Step(b, "charge", hold, charge).Guard(allowed)`, "cannot use allowed (value of type func(context.Context, Order) error) as func(context.Context, Hold) error"},
		"start on another":    {`_, _ = child.Start(ctx, e, Order{})`, "cannot use Order{} (value of struct type Order) as Hold value in argument to child.Start"},
		"foreign transaction": {`transfer(foreignTx{})`, "does not implement engine.Tx (missing method EngineTx)"},
	} {
		got := typeCheck(t, engineImporter, strings.Replace(declarations, "LINE", c.line, 1))
		if c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s:\ngot  %s\nwant %s", name, got, c.want)
		}
	}
}

// exportData finds what the compiler knows of a package.
func exportData(t *testing.T) importer.Lookup {
	t.Helper()
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	files := map[string]string{}
	for _, l := range strings.Split(string(out), "\n") {
		path, file, _ := strings.Cut(l, " ")
		files[path] = file
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(files[path]) }
}

// typeCheck is what the compiler says of a file, one message a line.
func typeCheck(t *testing.T, imports types.Importer, source string) string {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "shop.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	var messages []string
	config := types.Config{Importer: imports, GoVersion: "go1.26", Error: func(err error) { messages = append(messages, err.Error()) }}
	_, _ = config.Check("shop", fset, []*ast.File{file}, nil)
	return strings.Join(messages, "\n")
}
