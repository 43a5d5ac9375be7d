"""Checks of what this user may see: what gpumond says less without. docs/privileges.md has the whole table.

A fact that only a privilege opens is `not_evaluated (no_privilege)` without it: never wrong, never green.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from gpumond.assembly import make_questions, slurm_node
from gpumond.clock import SystemClock
from gpumond.config.guards_schema import SlurmMode
from gpumond.config.schema import Config
from gpumond.doctor.checks import NOT_EVALUATED, Check, Level
from gpumond.process.ask import Answer

SERVICE_USER = "gpumond"

Ask = Callable[[Sequence[str]], Answer]


def check_privileges(
    config: Config, *, ask: Ask | None = None, proc: Path = Path("/proc")
) -> Iterator[Check]:
    yield from check_user(os.geteuid(), {entry.pw_name: entry.pw_uid for entry in pwd.getpwall()})
    yield check_processes(proc)
    slurm = config.guards.slurm
    if slurm is not None:
        ask = ask or make_questions(SystemClock(), deadline_seconds=slurm.deadline)
        yield check_slurm(ask, slurm_node(config), slurm.mode)


def check_user(uid: int, users: dict[str, int]) -> Iterator[Check]:
    """Everything below is true for whoever asks, which need not be the service."""
    service = users.get(SERVICE_USER)
    if service is None or uid == service:
        return
    name = next((name for name, number in users.items() if number == uid), str(uid))
    yield Check(
        "user",
        Level.NOTE,
        f"this is {name}; the service runs as {SERVICE_USER}, and may see less or more",
        f"`runuser -u {SERVICE_USER} -- gpumond doctor` tells what it sees without its drop-ins.",
    )


def check_processes(proc: Path) -> Check:
    """The driver names a process by its number; whose it is stands in /proc, which may be mounted with hidepid."""
    try:
        (proc / "1" / "stat").read_bytes()
    except OSError:
        return Check(
            "processes of others",
            Level.WARNING,
            f"{NOT_EVALUATED}: who holds a GPU is told by number only, because /proc is mounted with hidepid",
            "deploy/systemd/gpumond.service.d/hidden-processes.conf puts the service into the group of its gid= option.",
        )
    return Check("processes of others", Level.OK, "visible: whoever holds a GPU is named")


def check_slurm(ask: Ask, node: str, mode: SlurmMode) -> Check:
    """Whether Slurm answers this user, and shows it the jobs of others, which is what mode `look` rests on."""
    answer = ask(("scontrol", "show", "config"))
    if answer.failure:
        said = answer.last_error_line or answer.failure
        hint = (
            "munge and slurm.conf must be there for the service; deploy/systemd/gpumond.service.d/slurm.conf."
        )
        return Check("Slurm access", Level.MISSING, f"scontrol does not answer: {said}", hint)
    private = next((line for line in answer.output.splitlines() if line.startswith("PrivateData")), "")
    if mode is SlurmMode.LOOK and "jobs" in private.partition("=")[2]:
        return Check(
            "Slurm access",
            Level.WARNING,
            f"{NOT_EVALUATED}: PrivateData hides the jobs of others; only the state of node {node} tells of them",
            f"Make {SERVICE_USER} an operator (`sacctmgr modify user {SERVICE_USER} set adminlevel=operator`).",
        )
    return Check("Slurm access", Level.OK, f"answers; mode {mode.value}, node {node}")
