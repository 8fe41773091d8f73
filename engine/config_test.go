package engine

import (
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// unbuilt are documented settings of what is not there yet. One that is built
// goes from here.
var unbuilt = []string{
	"Locker", "Retention", "WaitDelay", "WaitJitter", "WaitLimit", "GrantTimeout", "ReadWait", "ReadLimit", "UndoWait",
}

// A setting is a field of Config with its default in words.
type setting struct{ Name, Default string }

// The settings of a zero Config are those of the documents: by name, default
// and order.
//
// spec: K-1, C-674
// spec: C-644, C-652, C-654..C-657
// spec: C-1014..C-1017
// spec: C-1020..C-1022, C-1024
func TestSettingsAreThoseOfTheDocuments(t *testing.T) {
	t.Parallel()
	for file, read := range map[string]func(text string) []setting{
		"../docs/spec/coordination.md": func(text string) []setting { return tableIn(text, `(?m)^\| (`+"`"+`[^|]*) \| ([^|]*) \|`) },
		"../docs/spec/core.md": func(text string) []setting {
			return tableIn(text, `(?m)^\| \*\*C-\d+\*\* \| (`+"`"+`[A-Z][^|()]*) \| ([^|]*) \|`)
		},
		"../docs/reference/api.md": structIn,
	} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		documented := read(sectionOf(string(raw)))
		var names []string
		for _, s := range documented {
			names = append(names, s.Name)
		}
		for _, name := range unbuilt {
			if !slices.Contains(names, name) {
				t.Errorf("%s has no %s", file, name)
			}
		}
		built := slices.DeleteFunc(documented, func(s setting) bool { return slices.Contains(unbuilt, s.Name) })
		if diff := cmp.Diff(built, settingsOf(Config{}.withDefaults())); diff != "" {
			t.Errorf("%s (-documented +code):\n%s", file, diff)
		}
	}
}

// sectionOf is the part of a document that is about Config.
func sectionOf(text string) string {
	for _, begin := range []string{"\n## 0. Constants", "\n## 16. Configuration\n", "\ntype Config struct {"} {
		if _, rest, found := strings.Cut(text, begin); found {
			section, _, _ := strings.Cut(rest, "\n## ")
			section, _, _ = strings.Cut(section, "\nFixed:")
			return section
		}
	}
	return ""
}

// tableIn reads rows of fields and their defaults. One row may have two fields.
func tableIn(text, row string) (all []setting) {
	for _, m := range regexp.MustCompile(row).FindAllStringSubmatch(text, -1) {
		names, defaults := strings.Split(plain(m[1]), ", "), []string{plain(m[2])}
		if len(names) > 1 {
			defaults = strings.Split(plain(m[2]), ", ")
		}
		for i, name := range names {
			all = append(all, setting{name, defaults[i]})
		}
	}
	return all
}

// structIn reads the type as the API page has it.
func structIn(text string) (all []setting) {
	fields := func(text, prefix string) (all []setting) {
		for _, m := range regexp.MustCompile(`(?m)^\t(\w+) .*?// (.*)$`).FindAllStringSubmatch(text, -1) {
			_, value, _ := strings.Cut(m[2], "Default ")
			all = append(all, setting{prefix + m[1], plain(value)})
		}
		return all
	}
	config, rest, _ := strings.Cut(text, "\n}")
	_, limits, _ := strings.Cut(rest, "\ntype Limits struct {")
	limits, _, _ = strings.Cut(limits, "\n}")
	for _, s := range fields(config, "") {
		switch s.Name {
		case "Limits":
			all = append(all, fields(limits, "Limits.")...)
		case "Store":
			all = append(all, setting{"Store", "–"})
		default:
			all = append(all, s)
		}
	}
	return all
}

func plain(cell string) string { return strings.Trim(strings.ReplaceAll(cell, "`", ""), ` "`) }

// settingsOf are the fields of a Config, those of Limits one by one.
func settingsOf(c Config) (all []setting) {
	v := reflect.ValueOf(c)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if limits, ok := v.Field(i).Interface().(Limits); ok {
			l := reflect.ValueOf(limits)
			for j := range l.NumField() {
				all = append(all, setting{"Limits." + l.Type().Field(j).Name, roundSize(int(l.Field(j).Int()))})
			}
			continue
		}
		all = append(all, setting{name, inWords(name, v.Field(i).Interface())})
	}
	return all
}

// inWords is a default as documents say it.
func inWords(name string, v any) string {
	switch v := v.(type) {
	case time.Duration:
		for _, unit := range []struct {
			d    time.Duration
			name string
		}{{time.Hour, "h"}, {time.Minute, "min"}, {time.Second, "s"}} {
			if v%unit.d == 0 {
				return fmt.Sprintf("%d %s", v/unit.d, unit.name)
			}
		}
		return v.String()
	case *slog.Logger:
		if v == slog.Default() {
			return "slog.Default()"
		}
	case Clock:
		if _, ok := v.(systemClock); ok {
			return "system"
		}
	case func() string:
		if regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7`).MatchString(v()) {
			return "UUID version 7"
		}
	case int, bool, string:
		return fmt.Sprint(v)
	}
	if name == "Store" && v == nil {
		return "–"
	}
	if v == nil || reflect.ValueOf(v).IsZero() {
		return "none"
	}
	return fmt.Sprintf("%T", v)
}

// spec: C-1025, K-4
func TestDurationsAreDurations(t *testing.T) {
	t.Parallel()
	counts := []string{"SweepLimit", "Recoveries", "Value", "Key", "ErrorText", "Priority", "WaitLimit"}
	for _, of := range []reflect.Type{reflect.TypeFor[Config](), reflect.TypeFor[Limits](), reflect.TypeFor[StartOptions]()} {
		for f := range of.Fields() {
			switch f.Type.Kind() {
			case reflect.Int, reflect.Int64, reflect.Int32, reflect.Uint, reflect.Float64:
				if f.Type != reflect.TypeFor[time.Duration]() && !slices.Contains(counts, f.Name) {
					t.Errorf("%s.%s is a %s", of, f.Name, f.Type)
				}
			}
		}
	}
	for _, of := range []reflect.Type{reflect.TypeFor[*StepNode[int, int]](), reflect.TypeFor[*Builder]()} {
		for m := range of.Methods() {
			for in := range m.Type.Ins() {
				if k := in.Kind(); k == reflect.Int64 && in != reflect.TypeFor[time.Duration]() || k == reflect.Float64 {
					t.Errorf("%s of %s takes a %s", m.Name, of, in)
				}
			}
		}
	}
	var c Config
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() {
		if v.Field(i).Type() == reflect.TypeFor[time.Duration]() {
			v.Field(i).SetInt(int64(time.Duration(i+1) * time.Millisecond))
		}
	}
	c.Lease = 3 * c.Heartbeat
	c.Store = newMemory(time.Now)
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	kept := reflect.ValueOf(e.config)
	for i := range v.NumField() {
		if v.Field(i).Type() == reflect.TypeFor[time.Duration]() && v.Field(i).Int() != kept.Field(i).Int() {
			t.Errorf("%s is %s", v.Type().Field(i).Name, time.Duration(kept.Field(i).Int()))
		}
	}
}

// spec: C-677
func TestDispatcherSeesIDsOnly(t *testing.T) {
	t.Parallel()
	var fields []string
	for f := range reflect.TypeFor[Wake]().Fields() {
		fields = append(fields, fmt.Sprintf("%s %s", f.Name, f.Type))
	}
	if diff := cmp.Diff([]string{"Runs []string", "Queue string", "Priority int"}, fields); diff != "" {
		t.Errorf("a Wake (-want +got):\n%s", diff)
	}
	var methods []string
	for m := range reflect.TypeFor[Dispatcher]().Methods() {
		methods = append(methods, m.Name+strings.TrimPrefix(m.Type.String(), "func"))
	}
	want := []string{
		"Ring(...string)", "Validate() error",
		"Wake(context.Context, engine.Tx, []engine.Wake, bool) error",
	}
	if diff := cmp.Diff(want, methods); diff != "" {
		t.Errorf("a Dispatcher (-want +got):\n%s", diff)
	}
}

// Nothing that can be set turns the fence off.
//
// spec: K-5
func TestNoSettingTurnsTheFenceOff(t *testing.T) {
	t.Parallel()
	c := Config{Store: newMemory(time.Now), Dispatcher: newMemoryDispatcher()}
	v := reflect.ValueOf(&c).Elem()
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Bool {
			v.Field(i).SetBool(true)
		}
	}
	c.Recoveries = Unlimited
	e, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	run := NewRun{WriteID: NewUUID(), Fence: Fence{Token: NewUUID(), Process: e.processID()}}
	run.Header = Header{ID: NewUUID(), Kind: Root, Reactor: "x", Definition: 1, Status: Running, Queue: "reactor", Priority: 1}
	run.Fence.Run = run.ID
	if _, err := c.Store.Create(t.Context(), nil, []NewRun{run}); err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]Fence{
		"another token":   {Run: run.ID, Token: NewUUID(), Process: e.processID(), Version: 1},
		"another version": {Run: run.ID, Token: run.Fence.Token, Process: e.processID(), Version: 2},
	} {
		if _, err := e.config.Store.Save(t.Context(), f, Changes{WriteID: NewUUID(), Status: Completed}); err == nil {
			t.Errorf("a save with %s was accepted", name)
		}
	}
	if err := e.Close(t.Context()); err != nil {
		t.Error(err)
	}
}
