"""nccl-tests and rccl-tests: found on the host, never built or shipped by us.

One process drives all GPUs of a set (`-g N`): no launcher, no process tree, so SIGTERM and SIGKILL suffice. Builds with MPI
can have a process for each GPU instead; a launcher of the operator's starts them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from gpumond.errors import HostError
from gpumond.model.benchmark import Collective
from gpumond.model.run import Engine
from gpumond.sweep.engines.engine import EngineCommand
from gpumond.sweep.engines.trust import require_trusted
from gpumond.sweep.engines.usage import Usage
from gpumond.sweep.plan import Step, nccl_tests_arguments, program_name

USUAL_DIRECTORIES = (
    Path("/opt/nccl-tests/build"),
    Path("/opt/nccl_tests/build"),
    Path("/opt/rccl-tests/build"),
    Path("/usr/local/bin"),
    Path("/usr/bin"),
    Path("/opt/rocm/bin"),
)
"""Where images and packages put the programs, after the configured directory and before PATH."""

GPUS_WORD = "{gpus}"
"""In a launcher: the number of GPUs of the set."""

INSTALL_HINT = (
    "Build NVIDIA/nccl-tests (AMD: ROCm/rccl-tests) on this host and set engines.nccl_tests.directory to the folder "
    "that holds all_reduce_perf."
)


class NcclTests:
    """`name` is rccl-tests on AMD hosts: the programs have the same names, but the results are another series."""

    def __init__(
        self,
        *,
        directory: Path | None,
        library_path: Sequence[Path] = (),
        launcher: Sequence[str] = (),
        is_process_per_gpu: bool = False,
        search_path: str = "",
        is_rccl: bool = False,
        trusted_uids: Collection[int] = (),
        usage: Usage | None = None,
    ) -> None:
        self._directory = directory
        self._library_path = tuple(library_path)
        self._launcher = tuple(launcher)
        self._gpus_per_process = 1 if is_process_per_gpu else None
        self._search_path = search_path
        self._is_rccl = is_rccl
        self._trusted_uids = trusted_uids
        self._usage = usage

    @property
    def name(self) -> Engine:
        return Engine.RCCL_TESTS if self._is_rccl else Engine.NCCL_TESTS

    def command(self, step: Step) -> EngineCommand:
        program = self.find(step.collective)
        self._require_options(program, step.parameters.extra_arguments)
        gpus = str(len(step.gpu_set.uuids))
        launcher = (word.replace(GPUS_WORD, gpus) for word in self._launcher)
        arguments = nccl_tests_arguments(step, gpus_per_process=self._gpus_per_process)
        return EngineCommand((*launcher, str(program), *arguments), self._library_path)

    def _require_options(self, program: Path, extra: Sequence[str]) -> None:
        unknown = self._usage.unknown(program, extra) if self._usage is not None else ""
        if unknown:
            raise HostError(
                f"{program} has no option {unknown}, which extra_arguments gives it",
                hint=f"`{program} -h` lists what this build has.",
            )

    def find(self, collective: Collective) -> Path:
        """The program of a collective. Raises HostError where there is none, or it cannot or must not be run."""
        name = program_name(collective)
        for directory in self.directories:
            program = directory / name
            if program.is_file():
                if not os.access(program, os.X_OK):
                    raise HostError(f"{program} is not executable", hint=f"Run `chmod +x {program}`.")
                require_trusted(program, trusted_uids=self._trusted_uids)
                return program.resolve()
        where = str(self._directory) if self._directory else "the usual places or PATH"
        raise HostError(f"{name} is not in {where}", hint=INSTALL_HINT)

    @property
    def is_wanted(self) -> bool:
        """Whether it is here, or was promised to be: a directory that is configured."""
        if self._directory is not None:
            return True
        return any(
            (directory / program_name(collective)).is_file()
            for directory in self.directories
            for collective in Collective
        )

    @property
    def directories(self) -> tuple[Path, ...]:
        """Where programs are looked for. A configured directory is the only one: a typo must not measure another build."""
        if self._directory is not None:
            return (self._directory,)
        on_path = tuple(Path(entry) for entry in self._search_path.split(os.pathsep) if entry.startswith("/"))
        return (*USUAL_DIRECTORIES, *on_path)
