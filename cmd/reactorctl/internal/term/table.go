package term

import (
	"io"
	"strings"
	"unicode/utf8"
)

// A Color is what a terminal is sent before a text.
type Color string

// The colours. Nothing is told by colour alone.
const (
	Plain  Color = ""
	Dim    Color = "\x1b[2m"
	Bold   Color = "\x1b[1m"
	Red    Color = "\x1b[31m"
	Green  Color = "\x1b[32m"
	Yellow Color = "\x1b[33m"
	Blue   Color = "\x1b[34m"
	Purple Color = "\x1b[35m"
	Cyan   Color = "\x1b[36m"

	end = "\x1b[0m"
)

// Paint is text in a colour, if colored.
func Paint(text string, c Color, colored bool) string {
	if !colored || c == Plain || text == "" {
		return text
	}
	return string(c) + text + end
}

// A Cell is a text in a table and its colour.
type Cell struct {
	Text  string
	Color Color
}

// A Table is lines of cells, each column as wide as its widest text.
type Table struct {
	Head    []string
	Colored bool

	rows []row
}

// A row is a line of cells and, below it, what they have no room for.
type row struct {
	cells []Cell
	notes []string
}

// Add adds a line.
func (t *Table) Add(cells ...Cell) { t.rows = append(t.rows, row{cells: cells}) }

// Note adds lines below the last one, each cut to the width of the page.
func (t *Table) Note(notes ...string) {
	last := &t.rows[len(t.rows)-1]
	last.notes = append(last.notes, notes...)
}

// Write writes the table. The last column is not padded.
func (t *Table) Write(out io.Writer) error {
	widths := t.widths()
	head := make([]Cell, len(t.Head))
	for i, h := range t.Head {
		head[i] = Cell{h, Dim}
	}
	p := &Printer{Out: out}
	p.Printf("%s\n", t.line(head, widths))
	for _, r := range t.rows {
		p.Printf("%s\n", t.line(r.cells, widths))
		for _, note := range r.notes {
			p.Printf("  %s\n", Cut(note, Width-2))
		}
	}
	return p.Err
}

func (t *Table) widths() []int {
	widths := make([]int, len(t.Head))
	for i, h := range t.Head {
		widths[i] = utf8.RuneCountInString(h)
	}
	for _, r := range t.rows {
		for i, c := range r.cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(c.Text))
		}
	}
	return widths
}

func (t *Table) line(cells []Cell, widths []int) string {
	var s strings.Builder
	for i, c := range cells {
		s.WriteString(Paint(c.Text, c.Color, t.Colored))
		if i < len(cells)-1 {
			s.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.Text)+2))
		}
	}
	return s.String()
}
