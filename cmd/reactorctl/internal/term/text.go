package term

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Width is that of a page of text, in characters.
const Width = 80

// IsTerminal reports whether a stream is a terminal, or another device that
// takes characters.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Clean writes out what would move the cursor or change the colours of a
// terminal: values and errors come from outside.
func Clean(text string) string {
	if !strings.ContainsFunc(text, hidden) {
		return text
	}
	var s strings.Builder
	for _, r := range text {
		if !hidden(r) {
			s.WriteRune(r)
			continue
		}
		q := strconv.QuoteRuneToASCII(r)
		s.WriteString(q[1 : len(q)-1])
	}
	return s.String()
}

func hidden(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }

// Cut is text of at most n characters, with a mark if there was more.
func Cut(text string, n int) string {
	if utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n-1]) + "…"
}

// Wrap is text in lines of the page, each but the first behind indent spaces;
// the first is taken to begin there too. A word that is longer than a line is
// left whole.
func Wrap(text string, indent int) string {
	var s strings.Builder
	column := indent
	for i, word := range strings.Fields(text) {
		n := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+n > Width:
			s.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			s.WriteByte(' ')
			column++
		}
		s.WriteString(word)
		column += n
	}
	return s.String()
}

// OneLine is text without line breaks: the parts of a list are put behind one
// another.
func OneLine(text string) string {
	var line strings.Builder
	for part := range strings.Lines(text) {
		part = strings.TrimSpace(part)
		switch {
		case part == "":
			continue
		case line.Len() == 0:
		case strings.HasSuffix(line.String(), ":"):
			line.WriteString(" ")
		default:
			line.WriteString("; ")
		}
		line.WriteString(part)
	}
	return Clean(line.String())
}

// Size is a number of bytes.
func Size(n int) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d bytes", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}

// Count is a number of things.
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// A Printer writes text and keeps the first error.
type Printer struct {
	Out io.Writer
	Err error
}

// Printf writes a text, unless an earlier one could not be written.
func (p *Printer) Printf(format string, args ...any) {
	if p.Err == nil {
		_, p.Err = fmt.Fprintf(p.Out, format, args...)
	}
}
