// Which optional fields of Kubernetes' own types are Go pointers, as JSON: the field names by OpenAPI definition.
//
// `make generate` runs this, because no OpenAPI document tells it. The API server decodes every manifest into these
// types, so a pointer remembers that zero, false or "" was written; any other field forgets it, and the server's
// answer leaves it out.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"

	// All versioned types, as kubectl and the API server know them. It comes with a module that go.mod requires by
	// name; client-go, which has the types too, is there only as a dependency of others.
	"k8s.io/kubectl/pkg/scheme"
)

// named is what every type with an OpenAPI definition of its own can say.
type named interface{ OpenAPIModelName() string }

// pointers holds the fields that are pointers, by definition.
type pointers map[string][]string

func main() {
	found := pointers{}
	for _, kind := range scheme.Scheme.AllKnownTypes() {
		found.walk(kind)
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// walk adds a type and all that it holds.
func (found pointers) walk(kind reflect.Type) {
	switch kind.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		found.walk(kind.Elem())
	case reflect.Struct:
		definition, ok := reflect.Zero(kind).Interface().(named)
		if !ok || found[definition.OpenAPIModelName()] != nil {
			return
		}
		// Known before its fields are: some types hold themselves.
		found[definition.OpenAPIModelName()] = []string{}
		found[definition.OpenAPIModelName()] = found.fields(kind)
	}
}

// fields returns the pointers of one struct and of those inlined in it, and walks on to what they hold.
func (found pointers) fields(kind reflect.Type) []string {
	names := []string{}
	for at := range kind.NumField() {
		field := kind.Field(at)
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "" && strings.Contains(options, "inline"):
			names = append(names, found.fields(field.Type)...)
			continue
		case name == "" || name == "-":
			continue
		case field.Type.Kind() == reflect.Pointer:
			names = append(names, name)
		}
		found.walk(field.Type)
	}
	return names
}
