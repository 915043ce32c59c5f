"""How is a valid input damaged? A mutation keeps most of its structure, so that it gets past the first check."""

import copy
import json
import random
import re

# Texts that stand for values which no JSON library writes, and are put in after the rest is written.
RAW = {
    "@long@": "7" * 5000,
    "@-long@": "-" + "7" * 5000,
    "@hex@": "0x" + "f" * 5000,
    "@octal@": "0o" + "7" * 5000,
    "@huge@": "1e999",
    "@tiny@": "1e-99999",
    "@exponent@": "1e9999999999",
    "@nan@": "NaN",
    "@infinity@": "-Infinity",
    "@yaml nan@": ".nan",
    "@date@": "2026-11-24",
    "@surrogate@": '"\\ud800"',
    "@nul@": '"a\\u0000b"',
    "@deep@": "[" * 3000 + "]" * 3000,
    "@deeper@": '{"a":' * 200 + "1" + "}" * 200,
    "@twice@": '{"a": 1, "a": 2}',
    "@escape@": '"\\u001b[2J"',
    "@open@": '"',
    "@tag@": "!!python/object/apply:os.system [true]",
    "@alias@": "*a",
    "@anchor@": "&a [*a]",
    "@laughs@": f"[&a [{'1, ' * 99}1], &b [{'*a, ' * 99}*a], [{'*b, ' * 99}*b]]",
}
ODD = [
    *RAW,
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    2**31,
    2**63,
    -(2**63) - 1,
    10**25,
    10**400,
    0.0,
    -0.0,
    0.5,
    1.5,
    5e-324,
    1.7976931348623157e308,
    "",
    " ",
    "x",
    "/",
    "..",
    "../../etc/passwd",
    "/etc/passwd",
    "x" * 300,
    "x/" * 2500,
    "é",
    "\u202e",
    "\n",
    "$x",
    "a:b",
    "NaN",
    "float32",
    "2026-99-99T00:00:00",
    "9999-12-31T23:59:59+00:00",
    "0001-01-01T00:00:00+14:00",
    "%s{0}{x}",
    "[",
    [],
    [[]],
    [None],
    [1, "x"],
    {},
    {"": None},
    {"x": {}},
    [0] * 70,
]
BYTES = [
    b"\0",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\r\n",
    b"\n",
    b"<<<<<<< a\n",
    b"\xed\xa0\x80",
    b"9" * 5000,
    b"[" * 5000,
    b"\x93NUMPY",
]


def paths(value, path=()):
    """Yield the path of every value inside a plain value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from paths(item, (*path, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def changed_value(value, dice):
    """Return a plain value with one or a few changes."""
    value = copy.deepcopy(value)
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        places = list(paths(value))
        path = dice.choice(places)
        if path:
            change_at(at(value, path[:-1]), path[-1], at(value, dice.choice(places)), dice)
        elif dice.random() < 0.1:
            return dice.choice(ODD)
        if not value:
            break
    return value


def change_at(parent, key, other, dice):
    """Change one item of a list or a mapping; `other` is another part of the whole value."""
    kind = dice.random()
    if kind < 0.25:
        parent[key] = like(parent[key], dice)
    elif kind < 0.5:
        parent[key] = copy.deepcopy(dice.choice(ODD))
    elif kind < 0.65:
        parent[key] = copy.deepcopy(other)
    elif kind < 0.8:
        del parent[key]
    elif isinstance(parent, dict):
        parent[dice.choice((f"{key}s", "", "\x1b[2J", "x" * 300, key.upper(), "é\n"))] = parent.pop(key)
    else:
        parent[:] = dice.choice((parent * 2, parent[::-1], parent[:key]))


def like(value, dice):
    """Return another value of the same type, which types alone do not refuse."""
    if isinstance(value, list):
        return dice.choice((value[:-1], value * 2, value[::-1], []))
    if isinstance(value, dict):
        return {key: each for key, each in value.items() if dice.random() < 0.7}
    same = [odd for odd in ODD if type(odd) is type(value) and odd not in RAW]
    return dice.choice(same) if same else value


def as_text(value, dice):
    """Write a value as JSON, with the raw texts in place of their names."""
    text = json.dumps(value, ensure_ascii=dice.random() < 0.5, indent=dice.choice((None, 1)))
    for name, raw in RAW.items():
        text = text.replace(f'"{name}"', raw)
    return text


def changed_bytes(data, dice):
    """Return bytes with one or a few changes, at any place."""
    for _ in range(dice.choice((1, 1, 2, 5))):
        place = dice.randrange(len(data) + 1)
        width = dice.choice((1, 1, 4, 30, 300))
        kind = dice.randrange(6)
        if kind == 0:
            data = data[:place] + dice.choice(BYTES) + data[place:]
        elif kind == 1:
            data = data[:place] + data[place + width :]
        elif kind == 2:
            data = data[:place]
        elif kind == 3:
            data = data[:place] + bytes(dice.randrange(256) for _ in range(min(width, 8))) + data[place + width :]
        elif kind == 4:
            start = dice.randrange(len(data) + 1)
            data = data[:place] + data[start : start + width] + data[place:]
        elif data:
            spot = dice.randrange(len(data))
            data = data[:spot] + bytes([data[spot] ^ 1 << dice.randrange(8)]) + data[spot + 1 :]
    return data


def changed_words(data, dice):
    """Return text with numbers and words replaced by odd ones."""
    words = list(re.finditer(rb"[-+.\w]+", data))
    for word in dice.sample(words, min(len(words), dice.choice((1, 1, 2)))):
        odd = dice.choice(ODD)
        raw = RAW.get(odd) if isinstance(odd, str) else None
        text = (raw or as_text(odd, dice)).encode(errors="surrogatepass")
        if dice.random() < 0.5:
            text = text.strip(b'"')
        return data[: word.start()] + text + data[word.end() :]
    return data


class Lines(list):
    """The plain values of a file with one JSON document a line."""


def mutant(seed, plain, dice):
    """Return a damaged input: `seed` are its bytes, `plain` the same as a plain value, or None for a binary file."""
    kind = dice.random()
    if plain is not None and kind < 0.6:
        if isinstance(plain, Lines):
            lines = [*plain]
            place = dice.randrange(len(lines))
            lines[place] = changed_value(lines[place], dice)
            text = "\n".join(as_text(line, dice).replace("\n", " ") for line in lines) + "\n"
        else:
            text = as_text(changed_value(plain, dice), dice)
        return text.encode(errors="surrogatepass")
    return changed_words(seed, dice) if kind < 0.75 else changed_bytes(seed, dice)


def dice_of(name, number):
    return random.Random(f"{name} {number}")
