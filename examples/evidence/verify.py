#!/usr/bin/env python3
"""Verifies an exported audit log with only Python and the vault's public key.

    verify.py BUNDLE VKEY [EARLIER_NOTE]

Exit status: 0 verified, 5 tampered with, 6 cannot tell. The documentation of the Go
package evidence describes the format. This script shares no code with the vault.
"""
import json
import sys
from base64 import b64decode, b64encode
from datetime import datetime, timezone
from hashlib import sha256, sha512
from re import fullmatch, search
from uuid import UUID

KINDS = {"entry": b"\1", "imported": b"\2", "vault": b"\3"}
FIELDS = "id created_at actor_id actor_type actor_name entity_type entity_id operation message origin".split()
SHAPES = [shape.split() for shape in (  # the keys of objects, in order
    "bundle tenant note events", "event", "body index proof", "n kind id c mac entry erased",
    "n pruned roots", "head body", "size hashes")] + [FIELDS]
MAX_LINE = 1 << 20  # bytes


def verify(lines, vkey, earlier):
    def event(p):  # returns an event of the signed tree
        leaf = sha256(b"\0" + p["body"].encode()).digest()
        check(included(leaf, p["index"], size, [unb64(h) for h in p["proof"]], root), "an event is not in the tree")
        return json.loads(p["body"])

    def compare(tree, suffix=""):  # an earlier origin may cover entries that a restore removed
        nonlocal compared
        if since and not compared and since[1] == tree.size and past(since[0], suffix) is not None:
            check(tree.root() == since[2] or past(since[0], suffix) < past(origin), "forked")
            compared = tree.root() == since[2]

    def past(name, suffix=""):  # returns how many restores an origin counts
        count = fullmatch("(?:/([2-9]|[1-9][0-9]+))?", name.removeprefix(key).removesuffix(suffix))
        return int(count[1] or 1) - 1 if count and name == key + count[0] + suffix else None

    lines = map(canonical, lines)
    header = next(lines)
    check(header["bundle"] == "vault-evidence/2", "the bundle has another format")
    tenant, key, (origin, size, root) = header["tenant"], vkey.split("+")[0], open_note(header["note"], [vkey])
    restores, begun, pruned, imported, vkeys, last = [], {}, {}, {}, [vkey], -1
    for _ in range(header["events"]):
        p = next(lines)["event"]
        e = event(p)
        check(p["index"] > last, "events are reordered")
        last, mine = p["index"], e.get("tenant") == tenant
        restores += [e | {"index": last}] if e["kind"] == "restored" else []
        vkeys += e["keys"] if e["kind"] == "signing key changed" else []
        check(not mine or e["kind"] != "tenant deleted" and not (e["kind"] == "begun" and begun), "a tree begins again")
        begun = e if mine and e["kind"] == "begun" else begun
        imported = e if mine and e["kind"] == "imported" else imported
        pruned = e if mine and e["kind"] == "pruned" else pruned
    check(origin == ([key] + [e["origin"] for e in restores])[-1], "a restore is hidden")
    since, compared, days = note_or_none(earlier, vkeys), not earlier, []
    if since and past(since[0]) is not None:  # a restore may have removed what the note covers
        removed = next((e["index"] for e in restores if past(e["origin"]) > past(since[0])), size)
        compared = since[1] > removed and past(since[0]) < past(origin)

    log, vault, head, prev, grew, old = Tree(), Tree(), {}, 0, False, 0
    for line in lines:
        if "size" in line:  # other events of the vault's tree
            check(line["size"] > vault.size, "the vault's tree is reordered")
            vault.grow(line["size"], line["hashes"])
            grew = True
            compare(vault)
        elif "head" in line:  # every head must fit the entries before it
            head, grew = json.loads(line["body"]), False
            check(line["head"] == vault.size and (head["kind"], head["tenant"]) == ("head", tenant), "a head is of another log")
            check(head.get("prev", 0) == prev, "a head is missing")
            vault.add(sha256(b"\0" + line["body"].encode()).digest())
            prev, hidden = vault.size, head.get("size", 0) < min(pruned.get("below", 0), log.size)
            check(hidden or head.get("size", 0) == log.size, "the log ends before a head, or began again")
            check(hidden or not log.size or log.root() == unb64(head["root"]), "the entries are not those of a head")
            compare(vault)
        elif "pruned" in line:
            check(line["n"] == 0 == log.size and line["pruned"] <= pruned.get("below", 0), "the first entries are missing")
            log.grow(line["pruned"], line["roots"])
            compare(log, "/" + tenant)
        else:
            old += line["kind"] == "imported"
            days.append(entry_of(line, tenant, log, begun, pruned, event))
            days = [min(days), max(days)]
            check(not grew, "an entry is reordered")
            compare(log, "/" + tenant)
    check((vault.size, vault.root()) == (size, root) and head, "the bundle ends early")
    check(head.get("size", 0) == log.size, "the last entries are in no head")
    cut = pruned.get("below", 0) > 0
    check(not imported or old == imported.get("count", 0) or cut and old < imported["count"], "an old entry was added")
    suffix = "" if since and past(since[0]) == past(origin) else "/" + tenant
    ahead = since and not compared and past(since[0], suffix) == past(origin) and since[1] > (log if suffix else vault).size
    check(not ahead, "the log ends before the earlier note")
    for e in restores:
        print(f"restored from a copy on {e['time']}: {e['reason']}")
    period = f", from {days[0]:%d %b %Y} to {days[1]:%d %b %Y}" if days else ""
    print(f"{log.size} entries of 1 tenant verified{period}, against {1 + bool(since)} notes of {vkey.rsplit('+', 1)[0]}.")
    print("" if compared else "cannot tell: the bundle does not reach back to the earlier note", end="")
    return 0 if compared and log.size else 6


def entry_of(line, tenant, log, begun, pruned, event):  # checks the line of an entry
    entry, at = line.get("entry"), int.from_bytes(unhex(line["id"])[:6], "big")
    what = "{created_at}, {operation} of {entity_type} {entity_id} by {actor_type} {actor_name}, ".format_map(Named(entry or {}))
    where = f"entry {line['id']} at {line['n']} ({what if entry else ''}{datetime.fromtimestamp(at / 1000, timezone.utc):%d %b %Y}) is "
    check(line["n"] == log.size, where + "reordered, or one before it is missing")
    check(line["kind"] != "imported" or begun.get("import"), where + "forged")
    log.add(sha256(b"\0" + KINDS[line["kind"]] + unhex(line["id"]) + unb64(line["c"])).digest())
    mac = unb64(line.get("mac", ""))
    if entry is None:
        check(at < pruned.get("cutoff", 0) and not mac and "erased" not in line, where + "missing")
        return datetime.fromtimestamp(at / 1000, timezone.utc)
    check(entry["id"] == line["id"], where + "altered")
    if "erased" in line:
        e = event(line["erased"])
        check((e["kind"], e["tenant"], e["entry"]) == ("erased", tenant, entry["id"]), where + "altered")
        check(commit(tenant, bytes(16), entry) == unb64(e["after"]) and not mac, where + "altered")
    else:
        check(len(mac) == 16 and commit(tenant, mac, entry) == unb64(line["c"]), where + "altered")
    return datetime.fromtimestamp(at / 1000, timezone.utc)


def note_or_none(earlier, vkeys):  # a note that the keys did not sign says nothing about the bundle
    try:
        return open_note(earlier, vkeys) if earlier else None
    except (Tampered, ValueError):
        return None


class Named(dict):  # the fields of an entry for a text
    def __missing__(self, key):
        return "?"


class Tampered(Exception):
    pass


def check(condition, what):
    if not condition:
        raise Tampered(what)


def unhex(text):
    check(str(UUID(text)) == text, "an id was altered")
    return UUID(text).bytes


def unb64(text):
    raw = b64decode(text, validate=True)
    check(b64encode(raw).decode() == text, "a base64 text was altered")
    return raw


def shaped(pairs):  # returns an object that has the keys of a shape, in order, and no empty texts
    value = dict(pairs)
    check(any([*value] == [key for key in shape if key in value] for shape in SHAPES), "a line was altered")
    check(all(type(v) in (str, int, list, dict) and v != "" for v in value.values()), "a line was altered")
    return value


def canonical(line):
    value = json.loads(line, object_pairs_hook=shaped)
    again = json.dumps(value, separators=(",", ":"), ensure_ascii=False) + "\n"
    check(again.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029") == line, "a line was altered")
    return value


def commit(tenant, mac, entry):
    fields = [entry.get(name, "").encode() for name in FIELDS]
    return sha256(b"vault/log/1" + unhex(tenant) + mac + b"".join(len(f).to_bytes(4, "big") + f for f in fields)).digest()


# Merkle trees (RFC 9162, 2.1).
def node(left, right):
    return sha256(b"\1" + left + right).digest()


def included(leaf, index, size, path, root):
    check(0 <= index < size, "an event is not in the tree")
    index, last = index, size - 1
    for sibling in path:
        if index & 1 or index == last:
            leaf = node(sibling, leaf)
            while index and not index & 1:
                index, last = index >> 1, last >> 1
        else:
            leaf = node(leaf, sibling)
        index, last = index >> 1, last >> 1
    return last == 0 and leaf == root


class Tree:
    def __init__(self):
        self.size, self.roots = 0, []  # of the largest complete subtrees

    def add(self, leaf, level=0):
        self.size += 1 << level
        while not self.size >> level & 1:
            leaf, level = node(self.roots.pop(), leaf), level + 1
        self.roots.append(leaf)

    def grow(self, to, hashes):
        for h in hashes:
            check(to > self.size, "too many hashes")
            level = (to - self.size).bit_length() - 1
            while self.size & (1 << level) - 1:
                level -= 1
            self.add(unb64(h), level)
        check(self.size == to, "too few hashes")

    def root(self):
        h = self.roots[-1] if self.roots else sha256().digest()
        for left in self.roots[-2::-1]:
            h = node(left, h)
        return h


# Signed notes, and Ed25519 (RFC 8032) on extended coordinates.
def open_note(text, vkeys):
    body, blank, signatures = text.rpartition("\n\n")
    lines, keys, seen = signatures.split("\n"), {}, set()
    check(blank and text.encode() and not search("[\0-\t\v-\x1f]", text) and lines.pop() == "" and 0 < len(lines) <= 100, "bad signature")
    for name, key_id, key in (vkey.split("+", 2) for vkey in vkeys):
        keys.setdefault((name, key_id), b64decode(key)[1:])
    for dash, name, raw in (line.split(" ") for line in lines):  # those of other keys are not checked
        raw = unb64(raw)
        who = name, raw[:4].hex()
        check(dash == "—" and name.split() == [name] and "+" not in name and len(raw) > 4, "bad signature")
        check(who not in keys or who in seen or signed(keys[who], (body + "\n").encode(), raw[4:]), "bad signature")
        seen.add(who)
    check(seen & keys.keys(), "bad signature")
    origin, size, root = body.split("\n")[:3]
    return origin, int(size), unb64(root)


P, L = 2**255 - 19, 2**252 + 27742317777372353535851937790883648493
D, I = -121665 * pow(121666, -1, P) % P, pow(2, (P - 1) // 4, P)


def add(p, q):
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def mul(n, p):
    q = (0, 1, 1, 0)
    while n:
        q, p, n = add(q, p) if n & 1 else q, add(p, p), n >> 1
    return q


def point(raw):
    y = int.from_bytes(raw, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    x = x if x * x % P == square else x * I % P
    check(y < P and x * x % P == square and (x or not sign), "bad signature")
    x = x if x & 1 == sign else P - x
    return x, y, 1, x * y % P


def signed(key, message, signature):
    s = int.from_bytes(signature[32:], "little")
    h = int.from_bytes(sha512(signature[:32] + key + message).digest(), "little") % L
    base = point((4 * pow(5, -1, P) % P).to_bytes(32, "little"))
    p, q = mul(s, base), add(point(signature[:32]), mul(h, point(key)))
    return len(signature) == 64 and s < L and (p[0] * q[2] - q[0] * p[2]) % P == 0 == (p[1] * q[2] - q[1] * p[2]) % P


def unusable(path, vkey):  # returns why there can be no verdict, or nothing
    parts = fullmatch("([^+\\s]+)[+]([0-9a-f]{8})[+](A[A-Za-z0-9+/]{43})", vkey)
    if not parts or sha256(parts[1].encode() + b"\n" + b64decode(parts[3])).hexdigest()[:8] != parts[2]:
        return "the key is not the key of a vault"
    starts, whole = tuple(f'{{"{shape[0]}":'.encode() for shape in SHAPES[:-1]), False
    with open(path, "rb") as lines:
        while line := lines.readline(MAX_LINE + 1):
            if len(line) > MAX_LINE:
                return f"a line has more than {MAX_LINE} bytes"
            whole = whole or line.startswith(starts) and line.endswith(b"\n")
    return None if whole else "not a bundle"


def main(path, vkey, note=None):
    try:
        earlier = open(note, encoding="utf-8", errors="surrogateescape", newline="").read() if note else None
        if why := unusable(path, vkey):
            print(f"cannot tell: {why}")
            return 6
        with open(path, encoding="utf-8", newline="\n") as lines:
            return verify(lines, vkey, earlier)
    except OSError as err:
        print(f"cannot tell: {err}")
        return 6
    except StopIteration:
        print("tampered with: the bundle ends early")
    except (Tampered, ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as err:
        print(f"tampered with: {err}")
    return 5


if __name__ == "__main__":
    if not 3 <= len(sys.argv) <= 4:
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
