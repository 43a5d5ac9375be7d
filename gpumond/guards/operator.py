"""What the operator says: a pause, an inhibit file, a command of theirs. Each is a guard of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gpumond.guards.report import GuardName, GuardReport, GuardSubject
from gpumond.model.status import Pause
from gpumond.process.ask import Answer

TEXT_SHOWN_MAX = 200


class PauseGuard:
    """`gpumond pause` until `gpumond resume`. `read` raises StoreError where the store cannot tell."""

    def __init__(self, read: Callable[[], Pause | None]) -> None:
        self._read = read

    @property
    def name(self) -> GuardName:
        return GuardName.PAUSED

    def check(self, _subject: GuardSubject) -> GuardReport:
        pause = self._read()
        if pause is None:
            return GuardReport(self.name, is_clear=True, evidence="not paused")
        return GuardReport(self.name, is_clear=False, evidence=str(pause))


class InhibitGuard:
    """A file that says no by being there. What it holds is the reason."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def name(self) -> GuardName:
        return GuardName.INHIBITED

    def check(self, _subject: GuardSubject) -> GuardReport:
        try:
            with self._path.open("rb") as file:
                words = file.read(TEXT_SHOWN_MAX).decode(errors="replace").split()
        except (FileNotFoundError, NotADirectoryError):
            return GuardReport(self.name, is_clear=True, evidence=f"there is no {self._path}")
        except OSError as error:
            # It is there, or nobody can tell: no.
            return GuardReport(self.name, is_clear=False, evidence=f"{self._path}: {error.strerror}")
        why = f": {' '.join(words)}" if words else ""
        return GuardReport(self.name, is_clear=False, evidence=f"{self._path} exists{why}")


class CommandGuard:
    """A program of the operator's: exit status 0 within its deadline is a yes, everything else is a no.

    It gets the UUIDs as arguments behind its own: what must be idle, neighbours included.
    """

    def __init__(self, command: Sequence[str], ask: Callable[[Sequence[str]], Answer]) -> None:
        self._command = tuple(command)
        self._ask = ask

    @property
    def name(self) -> GuardName:
        return GuardName.COMMAND

    def check(self, subject: GuardSubject) -> GuardReport:
        answer = self._ask((*self._command, *subject.uuids))
        said = " ".join((answer.output or answer.errors).split())[:TEXT_SHOWN_MAX]
        how = answer.failure or f"{self._command[0]} exited with status 0"
        return GuardReport(self.name, is_clear=not answer.failure, evidence=f"{how}: {said}" if said else how)
