"""The fake NVML of tests/fakes/nvml, built once a session, and the environment in which a child finds it.

fake = FakeNvml(directory)
environment = os.environ | fake.environment(load_scenario("hgx-h200-8"))
"""

from __future__ import annotations

import hashlib
import itertools
import subprocess
from pathlib import Path

from gpumond.simulate.nvml_answers import render_answers
from gpumond.simulate.nvml_calls import absent_symbols
from gpumond.simulate.world import Scenario

SOURCE = Path(__file__).parent / "nvml" / "fake_nvml.c"
LIBRARY = "libnvidia-ml.so.1"
ANSWERS_VARIABLE = "GPUMOND_FAKE_NVML_ANSWERS"

COMPILE = (
    "gcc",
    "-std=c11",
    "-O1",
    "-g",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wshadow",
    "-fvisibility=hidden",
    "-fPIC",
    "-shared",
    "-pthread",
    f"-Wl,-soname,{LIBRARY}",
)


class FakeNvml:
    """Libraries and answer files live in `directory`. A driver too old for a call gets a library without its symbol."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._numbers = itertools.count()

    def environment(self, scenario: Scenario, *, elapsed_seconds: float = 0.0) -> dict[str, str]:
        """What a child's environment needs, so that its `libnvidia-ml.so.1` is that of `scenario`."""
        answers = self._directory / f"{scenario.name}-{next(self._numbers)}.answers"
        answers.write_text(render_answers(scenario, elapsed_seconds=elapsed_seconds), encoding="utf-8")
        library = self.library(absent_symbols(scenario.host.driver_version))
        return {"LD_LIBRARY_PATH": str(library.parent), ANSWERS_VARIABLE: str(answers)}

    def host(self, scenario: Scenario) -> FakeHost:
        """The driver of a whole host, for a daemon: its children inherit nothing but the loader's path."""
        directory = self._directory / f"host-{next(self._numbers)}"
        directory.mkdir()
        (directory / LIBRARY).symlink_to(self.library(absent_symbols(scenario.host.driver_version)))
        host = FakeHost(directory)
        host.show(scenario)
        return host

    def library(self, absent: tuple[str, ...] = ()) -> Path:
        """A built library that lacks the symbols of `absent`."""
        name = hashlib.sha256(" ".join(absent).encode()).hexdigest()[:12]
        directory = self._directory / f"lib-{name}"
        if not (directory / LIBRARY).exists():
            directory.mkdir(exist_ok=True)
            _build(directory, absent)
        return directory / LIBRARY


class FakeHost:
    """A directory that a loader finds a driver library in; what it answers can change while a daemon runs."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": str(self._directory)}

    def show(self, scenario: Scenario) -> None:
        """From the next snapshot on the host is `scenario`."""
        new = self._directory / "answers.new"
        new.write_text(render_answers(scenario), encoding="utf-8")
        new.replace(self._directory / f"{LIBRARY}.answers")


def _build(directory: Path, absent: tuple[str, ...]) -> None:
    script = directory / "symbols.map"
    hidden = f" local: {'; '.join(absent)};" if absent else ""
    script.write_text(f"{{ global: nvml*;{hidden} }};\n", encoding="utf-8")
    library = directory / LIBRARY
    command = [*COMPILE, f"-Wl,--version-script={script}", "-o", str(library), str(SOURCE)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
