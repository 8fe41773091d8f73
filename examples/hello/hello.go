// Command hello is the smallest program with a reactor: it needs no database.
package main

import (
	"context"
	"fmt"

	"github.com/pgreactor/reactor/engine"
)

// Hello greets a name.
var Hello = engine.MustDefine("hello", func(b *engine.Builder, name engine.Ref[string]) engine.Ref[string] {
	return engine.Step(b, "greet", name, greet)
})

func greet(ctx context.Context, name string) (string, error) {
	return "Hello, " + name + "!", nil
}

func main() {
	res, err := Hello.Run(context.Background(), engine.InMemory(), "Ada")
	fmt.Println(res.Value, err) // Hello, Ada! <nil>
}
