"""Where keys stand: the scanner against documents whose lines are known, because the test has written them."""

from __future__ import annotations

import json
import tomllib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gpumond.config.lines import DEEPEST, index_lines, line_of


def paths_of(value, path=()):
    """Every path of a parsed document."""
    if path:
        yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths_of(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from paths_of(inner, (*path, number))


def assert_complete(text):
    lines = index_lines(text)
    rows = text.split("\n")
    for path in paths_of(tomllib.loads(text)):
        assert path in lines, path
        if isinstance(path[-1], str) and len(path) <= DEEPEST:
            assert path[-1] in rows[lines[path] - 1], path
    return lines


# --- a table of what makes scanners stumble ---------------------------------------------------------------------------

TRICKY = '''\
# [not.a.table]
title = "a # no comment, [no.table], \\" still text"   # comment = 1

[plain]
key = 1
"quoted key" = 2
'literal.key' = 3
dotted.inner."last one" = { a = 1, b = { c = [ 1, 2 ] } }
text = """
[inside]
not_a_key = 1
ends with quotes"""""
raw = \'\'\'
[[also_inside]]
it's\'\'\'
after = true

[ spaced . "out" ]
x = 1

[[array]]
name = "first"
list = [
  # a comment with ] and "
  "one",
  [ "two", { deep = "yes" } ],
  1979-05-27 07:32:00,
]

[array.sub]
in_first = 1

[[array]]
name = "second"
[[array.nested]]
n = 1
[[array.nested]]
n = 2
[array.nested.leaf]
value = inf
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("title",), 2),
        (("plain",), 4),
        (("plain", "quoted key"), 6),
        (("plain", "literal.key"), 7),
        (("plain", "dotted", "inner", "last one", "b", "c", 1), 8),
        (("plain", "text"), 9),
        (("plain", "raw"), 13),
        (("plain", "after"), 16),
        (("spaced",), 18),
        (("spaced", "out", "x"), 19),
        (("array",), 21),
        (("array", 0, "list", 0), 25),
        (("array", 0, "list", 1, 1, "deep"), 26),
        (("array", 0, "list", 2), 27),
        (("array", 0, "sub", "in_first"), 31),
        (("array", 1), 33),
        (("array", 1, "name"), 34),
        (("array", 1, "nested", 0, "n"), 36),
        (("array", 1, "nested", 1), 37),
        (("array", 1, "nested", 1, "leaf", "value"), 40),
    ],
)
def test_tricky_places(path, line):
    assert index_lines(TRICKY)[path] == line


def test_tricky_text_is_complete():
    lines = assert_complete(TRICKY)
    assert not [path for path in lines if "inside" in path or "also_inside" in path]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n# only a comment",
        "a=1",
        "a = 1 # no newline at the end",
        "a = \"\"\nb = ''\nc = \"\"\"\"\"\"\nd = ''''''\ne = 1",
        'a = """"quoted""""\nb = 1',
        "a = '''it''s'''\nb = 2",
        'a = "\\\\"\nb = "\\""\nc = 3',
        'a = """\\\n   joined\\"""" \nb = 1',
        "a = [\n]\nb = [[], [[]],]\nc = {}",
        "a . b . c = 1\na.b.d = 2\n[x . y]\nz = 1\n[x]\nw = 1",
        "a = 1\r\n[b]\r\nc = 2\r\nd = [\r\n 1,\r\n 2]\r\n",
        '"" = 1\n"a.b" = 2\n1234 = 3\n-_- = 4',
        "[[a]]\n[a.b]\nc=1\n[[a.d]]\ne=1\n[[a]]\n[[a.d]]\ne=2",
        "a = [ { b = 1 },\n { b = 2 } ]",
        "t = 07:32:00\nd = 1979-05-27T07:32:00Z\nn = -nan\nh = 0xdead_beef",
        '"ключ" = "x"\nb = 1',
    ],
)
def test_every_path_has_its_line(text):
    assert_complete(text)


def test_a_key_with_escapes_is_known_by_its_meaning():
    assert index_lines('a = 1\n"\\u0062\\t" = 2')[("b\t",)] == 2


def test_a_path_of_any_depth_costs_little():
    parts = 2_000
    lines = index_lines(".".join(["a"] * parts) + " = 1")
    assert max(len(path) for path in lines) == DEEPEST


def test_a_missing_key_is_at_its_table():
    lines = index_lines("a = 1\n[b]\nc = 1\n")
    assert line_of(("b", "missing"), lines) == 2
    assert line_of(("b", "c", 3, "x"), lines) == 3
    assert line_of(("nowhere",), lines) == 0
    assert line_of((), lines) == 0


# --- documents written by the test ------------------------------------------------------------------------------------

KEYS = st.one_of(
    st.from_regex(r"[A-Za-z0-9_-]{1,8}", fullmatch=True),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=6),
)
SCALARS = st.one_of(
    st.integers(-(2**62), 2**62),
    st.booleans(),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=20),
    st.sampled_from(["[table]", "key = 1", "# comment", '"""', "'''", "\\", '"', "]", "}"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
TABLES = st.dictionaries(KEYS, VALUES, max_size=4)


def as_key(key, draw):
    if key.isascii() and key.replace("_", "").replace("-", "").isalnum() and draw(st.booleans()):
        return key
    if "'" not in key and draw(st.booleans()):
        return f"'{key}'"
    return json.dumps(key, ensure_ascii=False)


class Writer:
    """Writes TOML and notes for each path the line on which it stands."""

    def __init__(self, draw):
        self.draw = draw
        self.text = ""
        self.lines = {}

    @property
    def line(self):
        return self.text.count("\n") + 1

    def noise(self):
        self.text += self.draw(st.sampled_from(["", "\n", "# [c] = 'x\n", "  \n\t"]))

    def note(self, path):
        self.lines.setdefault(path, self.line)

    def table(self, path, table):
        for key, value in table.items():
            self.noise()
            self.pair((*path, key), key, value)
            self.text += "  # " + self.draw(st.sampled_from(["", "x = [1", '"'])) + "\n"

    def pair(self, path, key, value):
        self.note(path)
        self.text += f"{as_key(key, self.draw)} = "
        self.value(path, value)

    def value(self, path, value):
        if isinstance(value, dict):
            self.text += "{ "
            for number, (key, inner) in enumerate(value.items()):
                self.text += ", " if number else ""
                self.pair((*path, key), key, inner)
            self.text += " }"
        elif isinstance(value, list):
            self.text += "["
            for number, inner in enumerate(value):
                self.noise_in_list()
                self.note((*path, number))
                self.value((*path, number), inner)
                self.text += ","
            self.noise_in_list()
            self.text += "]"
        else:
            self.text += self.scalar(value)

    def noise_in_list(self):
        # Inline tables may hold no line break, and neither may lists inside of them; those are written before 1.1.
        if "{ " not in self.text.rsplit("\n", 1)[-1]:
            self.text += self.draw(st.sampled_from(["", " ", "\n  ", " # ], '\n"]))

    def scalar(self, value):
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int):
            return str(value)
        if '"""' not in value and "\\" not in value and not value.endswith('"') and self.draw(st.booleans()):
            inline = "{ " in self.text.rsplit("\n", 1)[-1]
            return f'"""{value}"""' if inline else f'"""\n[x]\nk = 1\n{value}"""'
        return json.dumps(value, ensure_ascii=False)


@st.composite
def documents(draw):
    writer = Writer(draw)
    writer.table((), draw(TABLES))
    used = {path[0] for path in writer.lines}
    for name in draw(st.lists(KEYS, max_size=3, unique=True)):
        if name in used:
            continue
        if draw(st.booleans()):
            writer.note((name,))
            writer.text += f"[ {as_key(name, draw)} ]\n"
            writer.table((name,), draw(TABLES))
            continue
        for number in range(draw(st.integers(1, 3))):
            writer.note((name,))
            writer.note((name, number))
            writer.text += f"[[{as_key(name, draw)}]]\n"
            writer.table((name, number), draw(TABLES))
    return writer


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(documents())
def test_written_lines_are_found_again(writer):
    document = tomllib.loads(writer.text)
    found = index_lines(writer.text)
    assert set(paths_of(document)) == set(writer.lines)
    assert {path: found[path] for path in writer.lines} == writer.lines
