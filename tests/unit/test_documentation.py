"""What the documentation promises is what the code does."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}


def events_in_code():
    for path in (ROOT / "gpumond").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            target = ast.unparse(node.func.value)
            if node.func.attr in LEVELS and target.split(".")[-1] in ("log", "_log"):
                yield path, node


def test_every_event_is_a_constant_and_is_documented():
    documented = set(
        re.findall(r"^\| `(\w+)` \|", (ROOT / "docs/operating.md").read_text(), flags=re.MULTILINE)
    )
    found = set()
    for path, node in events_in_code():
        first = node.args[0]
        assert isinstance(first, ast.Constant), f"{path}:{node.lineno}"
        assert re.fullmatch(r"[a-z]+(_[a-z0-9]+)+", first.value), f"{path}:{node.lineno}: {first.value}"
        found.add(first.value)
    assert len(found) > 20
    assert found == documented


def test_every_command_is_in_the_readme():
    from gpumond.cli.main import COMMANDS  # noqa: PLC0415 - the command line is not needed by the other test

    listed = set(re.findall(r"^\| `([a-z-]+)` \|", (ROOT / "README.md").read_text(), flags=re.MULTILINE))
    assert listed == set(COMMANDS)


def test_no_document_links_to_a_file_that_is_not_there():
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]:
        for target in re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
