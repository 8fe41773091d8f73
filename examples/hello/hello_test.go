package main

import "testing"

func Example() {
	main()
	// Output: Hello, Ada! <nil>
}

func TestGreet(t *testing.T) {
	t.Parallel()
	if got, err := greet(t.Context(), "Grace"); got != "Hello, Grace!" || err != nil {
		t.Errorf("greet: got %q, %v", got, err)
	}
}
