"""A short question to another program: its answer as text, or why there is none. Never raises for the program's sake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpumond.clock import Clock
from gpumond.model.run import Cause
from gpumond.process import supervisor
from gpumond.process.command import Command, Limits

ANSWER_BYTES_MAX = 4 * 1024 * 1024
"""`squeue` of one node prints 100 bytes a job."""

GRACE_SECONDS = 1.0
LOST_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Answer:
    """`failure` is one sentence, empty where the program exited with status 0. `errors` is its standard error."""

    output: str
    errors: str
    failure: str = ""

    @property
    def last_error_line(self) -> str:
        """The last thing that it said: most programs name the mistake there. Empty where it said nothing."""
        return self.errors.strip().rpartition("\n")[2]


def ask(
    command: Sequence[str], *, environment: Mapping[str, str], deadline_seconds: float, clock: Clock
) -> Answer:
    result = supervisor.run(
        Command(tuple(command), environment, Path("/")),
        Limits(
            total_seconds=deadline_seconds,
            grace_seconds=GRACE_SECONDS,
            lost_seconds=LOST_SECONDS,
            head_bytes=ANSWER_BYTES_MAX,
            tail_bytes=0,
            max_bytes=ANSWER_BYTES_MAX,
        ),
        clock=clock,
        merge_stderr=False,
    )
    is_good = result.cause is Cause.EXITED and result.exit_status == 0
    detail = result.detail or result.cause.value
    return Answer(
        output=result.output.decode(errors="replace"),
        errors=result.errors.decode(errors="replace"),
        failure="" if is_good else detail if detail.startswith(command[0]) else f"{command[0]} {detail}",
    )
