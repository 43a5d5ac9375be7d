"""Every error that gpumond raises on purpose.

GpumondError                  1  never raised itself
|- UsageError                 2  a command line that cannot be obeyed
|- ConfigError(problems)      2  every problem of a configuration file at once
|- NotEvaluatedError          3  nothing could be measured or judged
|- StoreError(kind)          10  full | busy | corrupt | newer_schema | read_only | unavailable
|- LockedError(holder)       11  another gpumond holds the lock
`- HostError                 12  something that this host must have is missing

The number is the process exit code (DESIGN 5). A message is lower case, has no full stop and holds the offending value;
the hint is a sentence that says what to do. Expected outcomes (a benchmark that hangs, a busy GPU) are values, not errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class ExitCode(IntEnum):
    """What a command's exit status means; part of the contract with schedulers and scripts."""

    HEALTHY = 0
    UNHEALTHY = 1
    USAGE = 2
    NOT_EVALUATED = 3
    STORE = 10
    LOCKED = 11
    ENVIRONMENT = 12


class GpumondError(Exception):
    """A failure that a person can act on."""

    exit_code = ExitCode.UNHEALTHY

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(GpumondError):
    """A command line that cannot be obeyed."""

    exit_code = ExitCode.USAGE


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One mistake in a configuration file; `line` is 0 where none can be named."""

    file: str
    line: int
    key: str
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return f"{place}: {self.key}: {self.message}" if self.key else f"{place}: {self.message}"


class ConfigError(GpumondError):
    """A configuration file with at least one problem; all of them are listed."""

    exit_code = ExitCode.USAGE

    def __init__(self, problems: tuple[ConfigProblem, ...], *, hint: str = "") -> None:
        super().__init__("\n".join(str(problem) for problem in problems), hint=hint)
        self.problems = problems


class NotEvaluatedError(GpumondError):
    """Nothing could be measured or judged."""

    exit_code = ExitCode.NOT_EVALUATED


class StoreErrorKind(StrEnum):
    """Why the store could not do its work."""

    FULL = "full"
    BUSY = "busy"
    CORRUPT = "corrupt"
    NEWER_SCHEMA = "newer_schema"
    READ_ONLY = "read_only"
    UNAVAILABLE = "unavailable"


class StoreError(GpumondError):
    """The history file cannot be read or written."""

    exit_code = ExitCode.STORE

    def __init__(self, message: str, *, kind: StoreErrorKind, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.kind = kind


class LockedError(GpumondError):
    """Another gpumond holds the lock; `holder` says which (pid, purpose, since), as far as it is known."""

    exit_code = ExitCode.LOCKED

    def __init__(self, message: str, *, holder: str = "", hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.holder = holder


class HostError(GpumondError):
    """Something that this host must have is missing: a port, a directory, a binary, a driver."""

    exit_code = ExitCode.ENVIRONMENT
