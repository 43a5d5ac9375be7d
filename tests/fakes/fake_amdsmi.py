"""The fake libamd_smi.so of tests/fakes/amdsmi, built once a session, and the environment in which a child finds it.

fake = FakeAmdSmi(directory)
environment = os.environ | fake.environment(load_scenario("mi300x-8"))

amdsmi looks up every function that it knows when it is imported, and its structures differ from release to release. So
both are taken from the installed module when the library is built: nothing of it is committed here.
"""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from gpumond.simulate.amd_answers import render_answers
from gpumond.simulate.hardware import struck
from gpumond.simulate.kfd import write_kfd_processes
from gpumond.simulate.sysfs import write_sysfs
from gpumond.simulate.world import Scenario

SOURCES = Path(__file__).parent / "amdsmi"
LIBRARY = "lib/libamd_smi.so"
ROCM_LIBRARY = "lib/librocm-core.so"
ANSWERS_VARIABLE = "GPUMOND_FAKE_AMDSMI_ANSWERS"

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
    "-Wl,-soname,libamd_smi.so",
)

_LOOKED_UP = re.compile(r"_libraries\['libamd_smi\.so'\]\.(\w+)")
_DEFINED = re.compile(r"^(?:EXPORT \w+ |GPU_\w+\()(amdsmi_\w+)", re.MULTILINE)


class FakeAmdSmi:
    """ROCm directories that hold nothing but the library."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._numbers = itertools.count()

    def environment(self, scenario: Scenario, *, elapsed_seconds: float = 0.0) -> dict[str, str]:
        """What a child's environment needs, so that its ROCm is that of `scenario`."""
        answers = self._directory / f"{scenario.name}-{next(self._numbers)}.answers"
        answers.write_text(render_answers(scenario, elapsed_seconds=elapsed_seconds), encoding="utf-8")
        return {"ROCM_PATH": str(self.rocm()), ANSWERS_VARIABLE: str(answers)}

    def host(self, scenario: Scenario, directory: Path) -> FakeAmdHost:
        """Library and sysfs of a whole host, which can change while somebody looks."""
        host = FakeAmdHost(self.rocm(), directory)
        host.show(scenario)
        return host

    def rocm(self, *, absent: tuple[str, ...] = ()) -> Path:
        """A ROCm directory whose library lacks the functions of `absent`: one that is older than the module."""
        directory = self._directory / f"rocm-{'-'.join(absent) or 'whole'}"
        if not (directory / LIBRARY).exists():
            self._build(directory, absent)
            (directory / ROCM_LIBRARY).symlink_to(directory / LIBRARY)
        return directory

    def _build(self, directory: Path, absent: tuple[str, ...]) -> None:
        source = SOURCES / "fake_amdsmi.c"
        here = set(_DEFINED.findall(source.read_text(encoding="utf-8")))
        others = sorted(_functions_of_the_module() - here)
        (directory / "lib").mkdir(parents=True)
        (directory / "generated.h").write_text(self._layouts() + _stubs(others), encoding="utf-8")
        script = directory / "symbols.map"
        hidden = f" local: {'; '.join(absent)};" if absent else ""
        script.write_text(f"{{ global: amdsmi_*; getROCmVersion;{hidden} }};\n", encoding="utf-8")
        _compile(source, directory / LIBRARY, f"-I{directory}", f"-Wl,--version-script={script}")

    def _layouts(self) -> str:
        """As the module itself has them; importing it needs a library with every function, if nothing more."""
        bare = self._directory / "bare"
        (bare / "lib").mkdir(parents=True, exist_ok=True)
        source = bare / "stubs.c"
        source.write_text(
            '#define EXPORT __attribute__((visibility("default")))\n' + _stubs(_functions_of_the_module()),
            encoding="utf-8",
        )
        _compile(source, bare / LIBRARY)
        printed = subprocess.run(
            [sys.executable, SOURCES / "layouts.py"],
            env={"ROCM_PATH": str(bare)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert printed.returncode == 0, printed.stderr
        return printed.stdout


class FakeAmdHost:
    """The answers of a library and a tree of sysfs in `directory`."""

    def __init__(self, rocm: Path, directory: Path) -> None:
        self._rocm = rocm
        self._directory = directory
        self._answers = directory / "amdsmi.answers"

    @property
    def environment(self) -> dict[str, str]:
        return {"ROCM_PATH": str(self._rocm), ANSWERS_VARIABLE: str(self._answers)}

    @property
    def sysfs(self) -> Path:
        return self._directory / "roots" / "sys"

    def show(self, scenario: Scenario) -> None:
        """From the next look on it is this host. GPUs do not come and go in sysfs; processes do."""
        if not self.sysfs.exists():
            write_sysfs(scenario, self._directory / "roots")
        self.list_processes(scenario)
        self.tell(scenario)

    def list_processes(self, scenario: Scenario) -> None:
        """What the kernel says, and amdsmi does not."""
        write_kfd_processes(struck(scenario, 0.0), self.sysfs)

    def tell(self, scenario: Scenario) -> None:
        """What amdsmi says, and the kernel does not."""
        new = self._answers.with_suffix(".new")
        new.write_text(render_answers(scenario), encoding="utf-8")
        new.replace(self._answers)


def _functions_of_the_module() -> set[str]:
    """Found without importing it, which would need the library that this is for."""
    spec = find_spec("amdsmi")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    wrapper = Path(spec.submodule_search_locations[0]) / "amdsmi_wrapper.py"
    return set(_LOOKED_UP.findall(wrapper.read_text(encoding="utf-8")))


def _stubs(functions: Iterable[str]) -> str:
    return "".join(f"EXPORT unsigned int {name}(void) {{ return 2; }}\n" for name in sorted(functions))


def _compile(source: Path, library: Path, *options: str) -> None:
    command = [*COMPILE, *options, "-o", str(library), str(source)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
