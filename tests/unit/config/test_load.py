"""Bad files against the exact messages that they must give.

UPDATE_GOLDENS=1 rewrites the `.expected` files; read the difference before it is committed.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from gpumond.config.keys import sections
from gpumond.config.load import LONGEST_LINE_CHARACTERS, MOST_PROBLEMS, default_config, parse
from gpumond.config.problems import problem_of
from gpumond.config.schema import Config
from gpumond.config.values import FROM_FILE
from gpumond.errors import ConfigError, ExitCode

DATA = Path(__file__).parents[2] / "data" / "config"
INVALID = sorted(DATA.glob("invalid-*.toml"))


def problems_of(text, name="config.toml"):
    with pytest.raises(ConfigError) as caught:
        parse(text, name=name)
    return caught.value


@pytest.mark.parametrize("file", INVALID, ids=lambda file: file.stem)
def test_messages(file):
    error = problems_of(file.read_text(encoding="utf-8"), name=file.name)
    expected = file.with_suffix(".expected")
    said = str(error) + "\n" + (f"hint: {error.hint}\n" if error.hint else "")
    if os.environ.get("UPDATE_GOLDENS"):
        expected.write_text(said, encoding="utf-8")
    assert said == expected.read_text(encoding="utf-8")
    assert error.exit_code is ExitCode.USAGE


def test_there_are_bad_files_and_each_has_its_messages():
    assert len(INVALID) >= 14
    assert {file.stem for file in INVALID} == {file.stem for file in DATA.glob("*.expected")}


def test_ten_mistakes_are_ten_problems():
    error = problems_of((DATA / "invalid-ten-mistakes.toml").read_text(encoding="utf-8"))
    assert len(error.problems) >= 10
    assert [problem.line for problem in error.problems] == sorted(problem.line for problem in error.problems)


def test_no_file_is_needed():
    assert parse("", name="empty") == default_config()
    assert parse("# nothing\n\n", name="comments") == default_config()
    assert default_config().sweeps == ()


def test_a_mistake_between_tables_alone():
    error = problems_of('[[sweep]]\nname = "a"\n\n[[sweep]]\nname = "a"\n')
    assert str(error) == 'config.toml:5: sweep[1].name: is the name of another sweep too, in line 2 (got "a")'


def test_windows_line_ends_and_lines():
    error = problems_of('[log]\r\nlevel = "info"\r\n\r\n[web]\r\nx = 1\r\n')
    assert [(problem.line, problem.key) for problem in error.problems] == [(5, "web.x")]


def test_a_secret_is_never_repeated():
    for file in INVALID:
        error = problems_of(file.read_text(encoding="utf-8"))
        for secret in ("secret-", "hunter2", "1234567"):
            assert secret not in f"{error}{error.hint}{error!r}", file.name
        # Nor by way of the exception behind it, which a traceback would print.
        assert error.__cause__ is None
        assert error.__suppress_context__ or error.__context__ is None


@pytest.mark.parametrize(
    "line", ['NCCL_X = "secret-1', "NCCL_X = secret-1", "NCCL_X = ['secret-1'", "NCCL_X 'secret-1'"]
)
def test_nor_by_a_mistake_of_syntax(line):
    said = str(problems_of(f"[benchmark.environment]\n{line}\n"))
    assert said.startswith("config.toml:2: not valid TOML: ")
    assert "secret" not in said


def test_no_control_character_reaches_a_terminal():
    text = '"\\u001b[2J" = 1\n[log]\nlevel = "\\u001b[31m\\u009b"\n'
    said = str(problems_of(text))
    assert "\\u001b" in said
    assert all(character.isprintable() or character == "\n" for character in said)


def test_long_values_are_cut():
    said = str(problems_of(f'[log]\nlevel = "{"x" * 1000}"\n'))
    assert len(said) < 250


def test_more_problems_than_a_person_reads_are_counted():
    error = problems_of("".join(f"key{number} = 1\n" for number in range(MOST_PROBLEMS + 5)))
    assert len(error.problems) == MOST_PROBLEMS + 1
    assert str(error.problems[-1]) == "config.toml: and 5 more problems"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = " + "[" * 2000, "nested too deep"),
        ("a = " + "1" * 4090, "a: unknown key"),
        ("#" + "x" * LONGEST_LINE_CHARACTERS, "is longer than"),
        ("[a" + ".a" * 2000 + "]\n", "a: unknown key"),
        ("a = 1979-13-99", "not valid TOML"),
        ("a = \x01", "not valid TOML"),
        ("\ufeffa = 1", "not valid TOML"),
    ],
)
def test_hostile_text_gets_one_problem(text, message):
    error = problems_of(text)
    assert len(error.problems) == 1
    assert message in str(error)


JUNK = st.recursive(
    st.one_of(
        st.none().map(lambda _: "x"),
        st.booleans(),
        st.integers(-(2**40), 2**40),
        st.floats(),
        st.text(max_size=5),
        st.sampled_from(["60s", "8", ":1", "02:00-05:00", "all", "GPU-00000000-0000-4000-8000-00000000a000"]),
        st.dates(),
        st.times(),
    ),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=3,
)


@st.composite
def documents(draw):
    """The right keys with the wrong values."""
    document = {}
    for section in sections():
        table = {key.name: draw(JUNK) for key in section.keys if draw(st.booleans())}
        here = document
        for part in section.path[:-1]:
            here = here.setdefault(part, {})
        here[section.path[-1]] = [table] if section.is_array else table
    return document


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(documents())
def test_every_kind_of_mistake_has_a_phrase_of_ours(document):
    """A pydantic error type without a phrase would show pydantic's own words."""
    try:
        Config.model_validate(document, context=FROM_FILE)
    except ValidationError as error:
        for detail in error.errors():
            said = str(problem_of(detail, document, {}, file="f"))
            assert "is not right" not in said, detail["type"]


def test_valid_toml_that_is_no_table_of_ours():
    assert tomllib.loads("a.b = 1")
    assert [problem.key for problem in problems_of("a.b = 1").problems] == ["a"]
