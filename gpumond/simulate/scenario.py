"""Made-up hosts by name or by file. What is loaded could exist: `load_scenario` refuses anything else.

A file holds a whole host, or takes one of ours and breaks it:

    base = "hgx-h200-8"
    [[faults]]
    kind = "link_down"
    gpu = 3
    link = 7
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gpumond.errors import UsageError
from gpumond.simulate.expand import expand
from gpumond.simulate.faults import Fault, fault_from, parse_fault
from gpumond.simulate.hardware import struck
from gpumond.simulate.recipe import ModelRecipe, ScenarioRecipe
from gpumond.simulate.rules import check
from gpumond.simulate.world import Scenario

__all__ = ["Scenario", "load_scenario", "load_with_faults", "scenario_names", "with_faults"]

MODELS = "models"
SUFFIX = ".toml"

_BUILT_IN = resources.files("gpumond.simulate") / "scenarios"


def scenario_names() -> tuple[str, ...]:
    """The hosts that come with gpumond."""
    files = (entry.name.removesuffix(SUFFIX) for entry in _BUILT_IN.iterdir() if entry.name.endswith(SUFFIX))
    return tuple(sorted(name for name in files if name != MODELS))


def load_scenario(name_or_path: str) -> Scenario:
    """The named host, or the one that the file describes. Raises UsageError for what is not there or could not be."""
    if name_or_path in scenario_names():
        return _built_in(name_or_path)
    if name_or_path.endswith(SUFFIX) or "/" in name_or_path:
        return _from_file(Path(name_or_path))
    near = difflib.get_close_matches(name_or_path, scenario_names(), n=1)
    hint = f"Did you mean {near[0]}?" if near else f"Known scenarios: {', '.join(scenario_names())}."
    raise UsageError(f"unknown scenario {name_or_path!r}", hint=hint)


def with_faults(scenario: Scenario, faults: Iterable[Fault]) -> Scenario:
    """`scenario` with `faults` besides its own. Raises UsageError where they contradict it."""
    return _possible(replace(scenario, faults=(*scenario.faults, *faults)))


def load_with_faults(name_or_path: str, words: Iterable[str]) -> Scenario:
    """The host with the faults that `words` name besides its own. Raises UsageError as `load_scenario` does."""
    return with_faults(load_scenario(name_or_path), map(parse_fault, words))


@cache
def _built_in(name: str) -> Scenario:
    text = (_BUILT_IN / f"{name}{SUFFIX}").read_text(encoding="utf-8")
    return _scenario(name, tomllib.loads(text))


def _from_file(path: Path) -> Scenario:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read scenario {path}: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UsageError(f"{path} is no scenario: {error}", hint="A scenario is a TOML file.") from error
    if "base" in document:
        return _derived(path, document)
    return _scenario(path.stem, document)


def _derived(path: Path, document: dict[str, Any]) -> Scenario:
    unknown = sorted(set(document) - {"base", "faults"})
    if unknown:
        raise UsageError(
            f"{path}: unknown key {unknown[0]!r}", hint="A file with a base holds only faults besides it."
        )
    base = load_scenario(str(document["base"]))
    return with_faults(base, [fault_from(fault) for fault in document.get("faults", [])])


def _scenario(name: str, document: dict[str, Any]) -> Scenario:
    try:
        recipe = ScenarioRecipe.model_validate(document)
    except ValidationError as error:
        problems = [
            f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}"
            for problem in error.errors(include_url=False)
        ]
        raise UsageError(f"scenario {name} does not fit: {'; '.join(problems)}") from error
    if recipe.model not in _models():
        known = ", ".join(sorted(_models()))
        raise UsageError(
            f"scenario {name}: unknown GPU model {recipe.model!r}", hint=f"Known models: {known}."
        )
    return _possible(expand(name, recipe, _models()))


@cache
def _models() -> dict[str, ModelRecipe]:
    text = (_BUILT_IN / f"{MODELS}{SUFFIX}").read_text(encoding="utf-8")
    return {key: ModelRecipe.model_validate(model) for key, model in tomllib.loads(text).items()}


def _possible(scenario: Scenario) -> Scenario:
    """`scenario`, unless it could not exist, now or once all its faults have struck."""
    violations = check(scenario)
    if not violations:
        violations = check(struck(scenario, elapsed_seconds=float("inf")))
    if violations:
        listed = "; ".join(str(violation) for violation in violations)
        raise UsageError(
            f"no host could be like scenario {scenario.name}: {listed}",
            hint="Each rule is explained in gpumond/simulate/rules.py.",
        )
    return scenario
