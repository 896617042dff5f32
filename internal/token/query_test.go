package token

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mr-tron/base58"

	"github.com/seed-72ea4aab/vault/storage"
)

// words are terms that keep their values.
type words struct{}

// word is a condition of words. The key of a container is "*" for a prefix.
type word struct {
	storage.Cond
	Field, Key, Value string
}

func (words) Data(value string) storage.Cond { return word{Field: "data", Value: value} }
func (words) Metadata(key, value string) storage.Cond {
	return word{Field: "metadata", Key: key, Value: value}
}

func (words) Container(path string, prefix bool) storage.Cond {
	return word{Field: "container", Key: strings.Repeat("*", map[bool]int{true: 1}[prefix]), Value: path}
}

func not(c storage.Cond) storage.Cond { return storage.Not{Cond: c} }

var someone = [16]byte{0x0a, 0xb1, 0xc2, 0xd3, 0xe4, 0xf5, 0x46, 0x07, 0x88, 0x19, 0x2a, 0x3b, 0x4c, 0x5d, 0x6e, 0x7f}

var somePrint = storage.Key{1, 2, 3}

const someoneText = "0ab1c2d3-e4f5-4607-8819-2a3b4c5d6e7f"

func utc(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return t.UTC()
}

func TestParse(t *testing.T) {
	t.Parallel()
	card, bank, a := storage.TypeIn{"card"}, storage.TypeIn{"bank"}, storage.IDIn{"a"}
	for q, want := range map[string]storage.Cond{
		"type:card":          card,
		"  type:\tcard \r\n": card,
		"type: card":         card,
		`type:"card"`:        card,
		"id:a":               a,
		`id:"a b"`:           storage.IDIn{"a b"},
		`id:a\ b`:            storage.IDIn{"a b"},
		`id:"a*\"\\"`:        storage.IDIn{`a*"\`},
		`id:\*\"\(`:          storage.IDIn{`*"(`},
		"id:-a!":             storage.IDIn{"-a!"},
		`id:"AND"`:           storage.IDIn{"AND"},
		"data:4242":          word{Field: "data", Value: "4242"},
		"data:\"a\nb\"":      word{Field: "data", Value: "a\nb"},
		"data:\uFFFDé":       word{Field: "data", Value: "\uFFFDé"},
		"data:a:b":           word{Field: "data", Value: "a:b"},
		"fingerprint:2Fq":    storage.Or{},
		"fingerprint:" + base58.Encode(somePrint[:]): storage.FingerprintIs(somePrint),
		"container:/pci/high/":                       word{Field: "container", Value: "/pci/high/"},
		"container:/PCI/":                            word{Field: "container", Value: "/pci/"},
		"container:/":                                word{Field: "container", Value: "/"},
		"container:/pci/*":                           word{Field: "container", Key: "*", Value: "/pci/"},
		"container:/pci/H*":                          word{Field: "container", Key: "*", Value: "/pci/h"},
		`container:"/pci/*"`:                         word{Field: "container", Key: "*", Value: "/pci/"},
		"container:*":                                word{Field: "container", Key: "*"},
		"metadata.user:Jane":                         word{Field: "metadata", Key: "user", Value: "Jane"},
		`metadata.user:""`:                           word{Field: "metadata", Key: "user", Value: ""},
		"metadata.a.b-c_d:x":                         word{Field: "metadata", Key: "a.b-c_d", Value: "x"},
		`metadata."a key: \"1\"":"x y"`:              word{Field: "metadata", Key: `a key: "1"`, Value: "x y"},
		`metadata.a\:b:c`:                            word{Field: "metadata", Key: "a:b", Value: "c"},
		"created_by:" + someoneText:                  storage.ByIs{Field: storage.CreatedBy, ID: someone},
		"modified_by:" + someoneText:                 storage.ByIs{Field: storage.ModifiedBy, ID: someone},
		`created_by:"` + someoneText + `"`:           storage.ByIs{Field: storage.CreatedBy, ID: someone},
		"type:card AND type:bank":                    storage.And{card, bank},
		"type:card type:bank":                        storage.And{card, bank},
		"type:card(type:bank)":                       storage.And{card, bank},
		"type:card OR type:bank":                     storage.Or{card, bank},
		"type:card OR type:bank OR id:a":             storage.Or{card, bank, a},
		"type:card OR type:bank AND id:a":            storage.Or{card, storage.And{bank, a}},
		"type:card OR type:bank id:a":                storage.Or{card, storage.And{bank, a}},
		"(type:card OR type:bank) AND id:a":          storage.And{storage.Or{card, bank}, a},
		"( type:card )":                              card,
		"NOT type:card":                              not(card),
		"!type:card":                                 not(card),
		"-type:card":                                 not(card),
		"! type:card":                                not(card),
		"NOT(type:card)":                             not(card),
		"NOT -type:card":                             not(not(card)),
		"NOT-type:card":                              not(not(card)),
		"NOT type:card OR id:a":                      storage.Or{not(card), a},
		"NOT type:card id:a":                         storage.And{not(card), a},
		"type:card NOT type:bank":                    storage.And{card, not(bank)},
		"type:card AND NOT type:bank":                storage.And{card, not(bank)},
		"type:card -(type:bank !id:a)":               storage.And{card, not(storage.And{bank, not(a)})},
		"type:card OR(type:bank)AND!id:a":            storage.Or{card, storage.And{bank, not(a)}},
		strings.Repeat("(", 20) + "id:a" + strings.Repeat(")", 20):      a,
		"id:" + strings.Repeat("é", MaxQuery-3):                         storage.IDIn{strings.Repeat("é", MaxQuery-3)},
		"created_by:" + strings.ToUpper(someoneText) + " AND type:bank": storage.And{storage.ByIs{Field: storage.CreatedBy, ID: someone}, bank},
	} {
		got, err := ParseQuery(q, words{})
		if err != nil {
			t.Errorf("Parse(%s): %v", q, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Parse(%s) (-want +got):\n%s", q, diff)
		}
	}
}

func TestParseTimes(t *testing.T) {
	t.Parallel()
	var open time.Time
	jan := func(day int) time.Time { return time.Date(2026, time.January, day, 0, 0, 0, 0, time.UTC) }
	for v, want := range map[string]storage.TimeIn{
		"2026-01-31":                     {From: jan(31), To: utc("2026-02-01T00:00:00Z")},
		`"2026-01-31"`:                   {From: jan(31), To: utc("2026-02-01T00:00:00Z")},
		"2026-01-02T10:30":               {From: utc("2026-01-02T10:30:00Z"), To: utc("2026-01-02T10:31:00Z")},
		"2026-01-02T10:30Z":              {From: utc("2026-01-02T10:30:00Z"), To: utc("2026-01-02T10:31:00Z")},
		"2026-01-02T10:30:15":            {From: utc("2026-01-02T10:30:15Z"), To: utc("2026-01-02T10:30:16Z")},
		"2026-01-02T10:30:15Z":           {From: utc("2026-01-02T10:30:15Z"), To: utc("2026-01-02T10:30:16Z")},
		"2026-01-02T00:30:15+01:00":      {From: utc("2026-01-01T23:30:15Z"), To: utc("2026-01-01T23:30:16Z")},
		"2026-01-02T23:30-01:00":         {From: utc("2026-01-03T00:30:00Z"), To: utc("2026-01-03T00:31:00Z")},
		"2026-01-02T10:30:15.5Z":         {From: utc("2026-01-02T10:30:15.5Z"), To: utc("2026-01-02T10:30:15.6Z")},
		"2026-01-02T10:30:15,25":         {From: utc("2026-01-02T10:30:15.25Z"), To: utc("2026-01-02T10:30:15.26Z")},
		"2026-01-02T10:30:15.123456789Z": {From: utc("2026-01-02T10:30:15.123456Z"), To: utc("2026-01-02T10:30:15.123457Z")},
		"9999-12-31":                     {From: utc("9999-12-31T00:00:00Z"), To: utc("9999-12-31T23:59:59.999999Z")},
		"[2026-01-01 TO 2026-01-03]":     {From: jan(1), To: jan(4)},
		"{2026-01-01 TO 2026-01-03}":     {From: jan(2), To: jan(3)},
		"[2026-01-01 TO 2026-01-03}":     {From: jan(1), To: jan(3)},
		"{2026-01-01 TO 2026-01-03]":     {From: jan(2), To: jan(4)},
		"[2026-01-01 TO 2026-01-01]":     {From: jan(1), To: jan(2)},
		"[ 2026-01-01  TO\t2026-01-03 ]": {From: jan(1), To: jan(4)},
		`["2026-01-01" TO "2026-01-03"]`: {From: jan(1), To: jan(4)},
		"[2026-01-01 TO *]":              {From: jan(1), To: open},
		"{* TO 2026-01-03}":              {From: open, To: jan(3)},
		"[* TO *]":                       {From: open, To: open},
		"[2026-01-01T10:00:00Z TO 2026-01-01T10:00:00Z]": {
			From: utc("2026-01-01T10:00:00Z"), To: utc("2026-01-01T10:00:01Z"),
		},
		"[2026-01-01 TO 2026-01-01T12:30]": {From: jan(1), To: utc("2026-01-01T12:31:00Z")},
	} {
		for name, field := range map[string]storage.Field{"created_at:": storage.CreatedAt, "modified_at:": storage.ModifiedAt} {
			want.Field, want.ExcludeTo = field, true
			got, err := ParseQuery(name+v, words{})
			if err != nil {
				t.Errorf("Parse(%s%s): %v", name, v, err)
			} else if diff := cmp.Diff(storage.Cond(want), got); diff != "" {
				t.Errorf("Parse(%s%s) (-want +got):\n%s", name, v, diff)
			}
		}
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	for q, want := range map[string]QueryError{
		"":                          {0, "at least one term"},
		"   ":                       {3, "at least one term"},
		"card":                      {0, "field:value"},
		"type:card and type:bank":   {10, "upper case"},
		"type:card AND":             {13, "field:value"},
		"AND type:card":             {0, "field:value"},
		"type:card OR":              {12, "field:value"},
		"type:card OR OR type:bank": {13, "field:value"},
		"NOT":                       {3, "field:value"},
		"type":                      {0, "field:value"},
		"type :card":                {0, "field:value"},
		":card":                     {0, "unknown field"},
		"ssn:1":                     {0, "unknown field"},
		"AND:x":                     {0, "unknown field"},
		"é:1":                       {0, "unknown field"},
		"é:é":                       {0, "unknown field"},
		"metadata:x":                {0, "metadata.<key>"},
		"metadata.:x":               {9, "a key"},
		`metadata."":x`:             {9, "a key"},
		"metadata.a*:x":             {10, "quotes"},
		"metadata.a x:y":            {0, "field:value"},
		"type:":                     {5, "expected a value"},
		"type:)":                    {5, "expected a value"},
		"type: OR":                  {6, "expected a value"},
		`type:""`:                   {5, "empty"},
		`type:"card`:                {5, "never closed"},
		`type:"card\`:               {11, "backslash"},
		`type:"a\n"`:                {8, "backslash"},
		`type:card\`:                {9, "backslash"},
		`type:ca"rd"`:               {7, "quote"},
		"type:\x01":                 {5, "control"},
		"type:\x00":                 {5, "NUL"},
		"data:é\xff":                {6, "UTF-8"},
		"(type:card":                {0, "never closed"},
		"id:a ((type:card)":         {5, "never closed"},
		"type:card)":                {9, "never opened"},
		"()":                        {1, "field:value"},
		"type:c*":                   {6, "'*'"},
		"id:*":                      {3, "'*'"},
		"data:42*42":                {7, "'*'"},
		"metadata.user:J*":          {15, "'*'"},
		"fingerprint:*":             {12, "'*'"},
		"container:pci/":            {10, "path"},
		"container:/pci":            {10, "path"},
		"container:/p*/":            {10, "path"},
		"container:/p**":            {10, "path"},
		"container://":              {10, "path"},
		"container:/a b/":           {10, "path"},
		`container:"/a b/"`:         {10, "path"},
		`container:""`:              {10, "path"},
		"created_by:me":             {11, "UUID"},
		"created_by:*":              {11, "UUID"},
		"created_by:0ab1c2d3e4f5-46078819-2a3b4c5d6e7f-":  {11, "UUID"},
		"created_by:0gb1c2d3-e4f5-4607-8819-2a3b4c5d6e7f": {11, "UUID"},
		"created_by:00000000-0000-0000-0000-000000000000": {11, "UUID"},
		"created_at:yesterday":                            {11, "ISO 8601"},
		"created_at:*":                                    {11, "ISO 8601"},
		"created_at:2026-02-30":                           {11, "ISO 8601"},
		"created_at:1899-12-31":                           {11, "ISO 8601"},
		"created_at:0001-01-01":                           {11, "ISO 8601"},
		"created_at:9999-12-31T23:59:59-01:00":            {11, "ISO 8601"},
		"created_at:[2026-01-01 TO soon]":                 {26, "ISO 8601"},
		"created_at:[soon TO 2026-01-01]":                 {12, "ISO 8601"},
		"created_at:[2026-01-02 TO 2026-01-01]":           {11, "end after"},
		"created_at:{2026-01-02 TO 2026-01-02}":           {11, "end after"},
		"created_at:{2026-01-01 TO 2026-01-02}":           {11, "end after"},
		"created_at:[2026-01-01]":                         {22, "TO"},
		"created_at:[2026-01-01 to 2026-01-02]":           {23, "TO"},
		"created_at:[TO 2026-01-02]":                      {15, "TO"},
		"created_at:[2026-01-01 TO ]":                     {26, "a date"},
		"created_at:[2026-01-01 TO 2026-01-02":            {36, "']'"},
		"created_at:[2026-01-01 TO 2026-01-02)":           {36, "']'"},
		"type:[a TO b]":                                   {5, "ranges"},
		"container:{/a/ TO /b/}":                          {10, "ranges"},
		strings.Repeat("(", 21) + "id:a":                  {21, "20 levels deep"},
		strings.Repeat("!", 21) + "id:a":                  {21, "20 levels deep"},
		"id:" + strings.Repeat("é", MaxQuery-2):           {MaxQuery, "at most 200"},
	} {
		n, err := ParseQuery(q, words{})
		var got *QueryError
		if !errors.As(err, &got) || n != nil {
			t.Errorf("Parse(%q) = %v, %v, want an *Error", q, n, err)
			continue
		}
		if got.Offset != want.Offset || !strings.Contains(got.Msg, want.Msg) {
			t.Errorf("Parse(%q): at %d: %s; want at %d: %s", q, got.Offset, got.Msg, want.Offset, want.Msg)
		}
	}
}

func TestErrorText(t *testing.T) {
	t.Parallel()
	_, err := ParseQuery("type:card ssn:123456789", words{})
	const want = "query: at character 11: unknown field; the fields are " + fieldNames
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
