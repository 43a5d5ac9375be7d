"""The settings of `[guards]`: what must be so before a benchmark may use the GPUs, and what has the last word."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator, Field, StrictInt, StrictStr

from gpumond.config.durations import SECONDS_PER_DAY
from gpumond.config.table import Table
from gpumond.config.values import (
    GIB,
    LARGEST_BYTES,
    AbsolutePath,
    Bytes,
    Seconds,
    between,
    bytes_between,
    seconds_between,
)

LONGEST_ANSWER_SECONDS: Final = 120
NICE_MAX: Final = 2_147_483_645
"""sbatch's own limit."""


class SlurmMode(StrEnum):
    """Who decides: Slurm, or a look at it."""

    JOB = "job"
    LOOK = "look"


def _check_program(command: tuple[str, ...]) -> tuple[str, ...]:
    if command and not command[0].startswith("/"):
        raise ValueError("must begin with the absolute path of a program")
    return command


CommandLine: TypeAlias = Annotated[tuple[StrictStr, ...], AfterValidator(_check_program)]


class SlurmConfig(Table):
    """For hosts whose GPUs Slurm gives out. With this table, even an empty one, no sweep runs past Slurm.

    `job`: each sweep is submitted as an exclusive job of low priority, and Slurm decides when it runs; the daemon must
    be allowed to submit to this node. `look`: a sweep runs only where `squeue` knows no job on this node and
    `scontrol` calls it idle; between that look and the start a job may begin, and the watch then ends the sweep.
    """

    mode: Annotated[
        SlurmMode, Field(description="Whether Slurm decides, or is only looked at.", examples=["look"])
    ] = SlurmMode.JOB
    node: Annotated[
        StrictStr | None,
        Field(
            description="What Slurm calls this host. Otherwise the host name up to the first dot.",
            examples=["gpu-17"],
        ),
    ] = None
    partition: Annotated[
        StrictStr | None,
        Field(
            description="Where jobs are submitted. Otherwise Slurm's default partition.", examples=["maint"]
        ),
    ] = None
    account: Annotated[
        StrictStr | None, Field(description="On whose account the jobs run.", examples=["operations"])
    ] = None
    qos: Annotated[
        StrictStr | None,
        Field(
            description="The quality of service of the jobs; one that others preempt lets users go first.",
            examples=["scavenger"],
        ),
    ] = None
    nice: Annotated[
        StrictInt,
        between(0, NICE_MAX),
        Field(description="How far the priority of the jobs is lowered.", examples=[0]),
    ] = 100_000
    gres: Annotated[
        StrictStr | None,
        Field(
            description="What the jobs ask for. Otherwise `gpu:` and the number of GPUs that this host has.",
            examples=["gpu:h200:8"],
        ),
    ] = None
    submit_arguments: Annotated[
        tuple[StrictStr, ...],
        Field(description="Further options of `sbatch`.", examples=[["--reservation=night"]]),
    ] = ()
    wait: Annotated[
        Seconds,
        seconds_between(1, SECONDS_PER_DAY),
        Field(
            description="A job that has not started by then is withdrawn. In a window it is, at the latest, at the "
            "window's end.",
            examples=["30m"],
        ),
    ] = 3600.0
    deadline: Annotated[
        Seconds,
        seconds_between(1, LONGEST_ANSWER_SECONDS),
        Field(description="How long `squeue`, `scontrol` and `sbatch` may take.", examples=["30s"]),
    ] = 15.0


class GuardsConfig(Table):
    """Before a benchmark starts all of these must say yes, and one that cannot be asked says no. Two are always on: the
    machine-wide lock, and the driver's lists of processes, which are watched while a benchmark runs too.
    """

    quiet: Annotated[
        Seconds,
        seconds_between(0, SECONDS_PER_DAY),
        Field(
            description="For a sweep in its window: how long the GPUs must have been at 0 % and below `memory_floor`, in "
            "every snapshot. It bridges the pauses of a job. After the daemon's start it takes as long to know.",
            examples=["30m"],
        ),
    ] = 600.0
    quiet_by_hand: Annotated[
        Seconds,
        seconds_between(0, LONGEST_ANSWER_SECONDS),
        Field(description="The same for a sweep that somebody asks for; it is waited for.", examples=["1m"]),
    ] = 10.0
    memory_floor: Annotated[
        Bytes,
        bytes_between(0, LARGEST_BYTES),
        Field(description="Memory in use below this is nobody's job.", examples=["4GiB"]),
    ] = GIB
    allowed_processes: Annotated[
        tuple[StrictStr, ...],
        Field(
            description="Names of processes that may be on the GPUs, as `ps -o comm` prints them: display servers, "
            "monitors. What they do shows in the results.",
            examples=[["Xorg", "nvidia-cuda-mps-server"]],
        ),
    ] = ("Xorg", "Xwayland", "gnome-shell")
    inhibit_file: Annotated[
        AbsolutePath,
        Field(
            description="While this file exists no sweep starts. What it holds is shown as the reason.",
            examples=["/run/gpumond/inhibit"],
        ),
    ] = Path("/etc/gpumond/inhibit")
    command: Annotated[
        CommandLine,
        Field(
            description="A program of yours that says yes with exit status 0. It gets the UUIDs of the GPUs that must be "
            "idle behind these words. There is no shell.",
            examples=[["/usr/local/sbin/gpus-are-free", "--node"]],
        ),
    ] = ()
    command_deadline: Annotated[
        Seconds,
        seconds_between(0.1, LONGEST_ANSWER_SECONDS),
        Field(description="A program that takes longer is ended, and has said no.", examples=["30s"]),
    ] = 10.0
    slurm: Annotated[
        SlurmConfig | None,
        Field(description="For hosts whose GPUs Slurm gives out."),
    ] = None
