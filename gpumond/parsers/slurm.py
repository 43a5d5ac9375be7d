"""What squeue, scontrol and sbatch print. Pure. Written against Slurm 22.05; each function names what it reads.

A text that does not say what it should raises ValueError: a guard makes a no of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SQUEUE_FORMAT = "%A|%T|%u|%j"
"""Job id, state, user, name; the name comes last because it may hold anything."""

_FIELDS = 4
_JOB_ID = re.compile(r"[0-9]+")
_NODE_FIELD = re.compile(r"(?:^| )(NodeName|State|Reason)=(.*?)(?= [A-Z][A-Za-z]*=|$)")

# Older and other releases mark flags with a letter behind the state (`man sinfo`, NODE STATE CODES).
_MARKS = {
    "*": "NOT_RESPONDING",
    "~": "POWERED_DOWN",
    "#": "POWERING_UP",
    "!": "POWERING_DOWN",
    "%": "POWERING_DOWN",
    "$": "MAINTENANCE",
    "@": "REBOOT_REQUESTED",
    "^": "REBOOT_ISSUED",
    "-": "PLANNED",
}


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """A job as squeue shows it; an array's task has an id of its own."""

    job: str
    state: str
    user: str
    name: str


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """`states` begins with the base state (IDLE, MIXED, ...), flags follow."""

    name: str
    states: tuple[str, ...]
    reason: str = ""


def parse_jobs(text: str) -> tuple[SlurmJob, ...]:
    """The output of `squeue --noheader --format=SQUEUE_FORMAT`; no line means no job. Raises ValueError."""
    return tuple(_job(line) for line in text.splitlines() if line.strip())


def _job(line: str) -> SlurmJob:
    fields = line.split("|", _FIELDS - 1)
    if len(fields) != _FIELDS or not _JOB_ID.fullmatch(fields[0].strip()):
        raise ValueError(f"squeue printed what is no job: {line[:120]!r}")
    job, state, user, name = (field.strip() for field in fields)
    if not state:
        raise ValueError(f"squeue printed a job without a state: {line[:120]!r}")
    return SlurmJob(job, state, user, name)


def parse_node(text: str) -> SlurmNode:
    """The output of `scontrol --oneliner show node NAME`. Raises ValueError."""
    line = text.strip()
    if "\n" in line:
        raise ValueError(f"scontrol printed {line.count(chr(10)) + 1} nodes instead of one")
    fields = {name: value.strip() for name, value in _NODE_FIELD.findall(line)}
    name, state = fields.get("NodeName", ""), fields.get("State", "")
    if not name or not state:
        raise ValueError(f"scontrol printed what is no node: {line[:120]!r}")
    return SlurmNode(name, _states(state), fields.get("Reason", ""))


def _states(text: str) -> tuple[str, ...]:
    """`MIXED+DRAIN`, `IDLE*`, `ALLOCATED$`."""
    base, *flags = text.split("+")
    marks = [_MARKS.get(letter, letter) for letter in base if not (letter.isalpha() or letter == "_")]
    word = "".join(letter for letter in base if letter.isalpha() or letter == "_")
    if not word:
        raise ValueError(f"scontrol printed a state without a word: {text!r}")
    return (word.upper(), *(flag.upper() for flag in flags if flag), *marks)


def parse_submitted(text: str) -> str:
    """The job id that `sbatch --parsable` printed: `12` or `12;cluster`. Raises ValueError."""
    job = text.strip().rpartition("\n")[2].partition(";")[0]
    if not _JOB_ID.fullmatch(job):
        raise ValueError(f"sbatch printed no job id: {text[:120]!r}")
    return job
