package expr

// List has templates for detokenization that belong to one document and are
// evaluated together, within the limits of one [Tree]. They are the strings of
// a JSON text that otherwise stays the same, or the parts of a form. The zero
// value is an empty list.
type List struct {
	templates
	total total
}

// Add compiles a template like [CompileTokens] and appends it. The error is an
// [*Error].
func (l *List) Add(source string) error { return l.add(source, false, nil) }

// AddText adds a template whose value is text, even if it is exactly one
// expression. If escape is not nil, it is applied to each value before it is
// inserted.
func (l *List) AddText(source string, escape func(string) string) error {
	return l.add(source, true, escape)
}

func (l *List) add(source string, asText bool, escape func(string) string) error {
	t, err := parse(source, true)
	if err != nil {
		return err
	}
	if err := l.total.add(t); err != nil {
		return err
	}
	t.asText, t.escape = asText, escape
	l.templates = append(l.templates, t)
	return nil
}

// Naming returns which of these ids each template names, in order.
func (l *List) Naming(ids []string) [][]string {
	all := make([][]string, len(l.templates))
	for i, t := range l.templates {
		all[i] = t.naming(ids)
	}
	return all
}

// Eval returns the replacements of the templates in order. For a template added
// with Add it is the JSON of the value, and for one added with AddText the
// text. The error is as for [Template.Eval], and concerns the template after
// those whose results are returned with it.
func (l *List) Eval(env Env) ([]string, error) {
	ev := newEvaluator(env)
	defer ev.release()
	results, room := make([]string, 0, len(l.templates)), maxTree
	for _, t := range l.templates {
		result, fault := ev.replacement(t)
		if fault != nil {
			return results, ev.failure(fault)
		}
		if room -= max(0, len(result)-t.size); room < 0 {
			return results, faultf("the inserted values have more than %d bytes in all", maxTree)
		}
		results = append(results, result)
	}
	return results, nil
}

func (ev *evaluator) replacement(t *Template) (result string, err *Error) {
	defer ev.caught(&err)
	if t.asText {
		ev.spend(t.cost)
		return ev.textOf(t), nil
	}
	v := ev.template(t)
	return string(v.Append(make([]byte, 0, ev.weigh(v)))), nil
}

// RefsOf returns the distinct references of a template.
func (l *List) RefsOf(i int) []Ref { return l.templates[i].Refs() }

// IsExpression reports whether a template is exactly one expression, without text
// around it.
func (l *List) IsExpression(i int) bool { return l.templates[i].whole }
