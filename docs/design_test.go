package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/seed-72ea4aab/vault/internal/test/must"
)

// codeName matches the names of functions, methods and types in prose.
var codeName = regexp.MustCompile("`((?:[A-Za-z]\\w*\\.)+[A-Za-z]\\w*)`")

// Every function, method and type that design.md names exists.
func TestDesignNamesCode(t *testing.T) {
	t.Parallel()
	declared := declarations(t)
	named := 0
	for _, m := range codeName.FindAllStringSubmatch(prose(t, "design.md"), -1) {
		if strings.HasSuffix(m[1], ".go") {
			continue
		}
		if named++; !declared[m[1]] {
			t.Errorf("design.md names %s, which is neither a function nor a type", m[1])
		}
	}
	if named < 30 {
		t.Errorf("found only %d names", named)
	}
}

// The map of rooms has every package below internal, and no package that was deleted.
func TestRoomsAreOnTheMap(t *testing.T) {
	t.Parallel()
	_, text, _ := strings.Cut(readText(t, "design.md"), "## Rooms")
	rooms, _, _ := strings.Cut(text, "\n## ")
	for _, folder := range must.Get(filepath.Glob("../internal/*"))(t) {
		if name := "`internal/" + filepath.Base(folder); !strings.Contains(rooms, name) {
			t.Errorf("the map of rooms lacks %s`", name)
		}
	}
	for _, m := range regexp.MustCompile("`(internal/[a-z/]+)`").FindAllStringSubmatch(rooms, -1) {
		if len(must.Get(filepath.Glob("../"+m[1]))(t)) == 0 {
			t.Errorf("the map of rooms has %s, which does not exist", m[1])
		}
	}
}

// declarations returns the functions, methods and types of the repository, as
// package.Func, package.Type, Type.method and package.Type.method.
func declarations(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	must.Do(t, filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && d.Name() != ".."):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		file := must.Get(parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution))(t)
		name := file.Name.Name + "."
		for _, decl := range file.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					all[name+d.Name.Name] = true
					continue
				}
				method := receiver(d.Recv.List[0].Type) + "." + d.Name.Name
				all[method], all[name+method] = true, true
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if typ, ok := spec.(*ast.TypeSpec); ok {
						all[name+typ.Name.Name] = true
						methods(name, typ, all)
					}
				}
			}
		}
		return nil
	}))
	return all
}

// receiver returns the name of a receiver's type.
func receiver(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.StarExpr:
		return receiver(x.X)
	case *ast.IndexExpr:
		return receiver(x.X)
	case *ast.IndexListExpr:
		return receiver(x.X)
	case *ast.Ident:
		return x.Name
	}
	return ""
}

// methods adds the methods of an interface.
func methods(pkg string, typ *ast.TypeSpec, all map[string]bool) {
	if in, ok := typ.Type.(*ast.InterfaceType); ok {
		for _, m := range in.Methods.List {
			for _, name := range m.Names {
				method := typ.Name.Name + "." + name.Name
				all[method], all[pkg+method] = true, true
			}
		}
	}
}
