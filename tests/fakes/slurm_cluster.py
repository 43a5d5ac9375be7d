"""A real cluster of one node: slurmctld and slurmd on loopback, with GPUs that do not exist."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from daemon_process import wait_until

from gpumond.parsers.slurm import parse_node
from gpumond.process.ask import Answer

CONFIGURATION = """
ClusterName=t
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmdPort={node_port}
SlurmUser=root
AuthType=auth/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
StateSaveLocation={directory}/ctld
SlurmdSpoolDir={directory}/d
SlurmctldPidFile={directory}/ctld.pid
SlurmdPidFile={directory}/d.pid
SlurmctldLogFile={directory}/ctld.log
SlurmdLogFile={directory}/d.log
ReturnToService=2
KillWait=5
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=1000 Gres=gpu:2 State=UNKNOWN
PartitionName=p Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""

HOST = os.uname().nodename.partition(".")[0]


class Slurm:
    """Commands of a cluster of one node."""

    def __init__(self, directory: Path):
        self.directory = directory
        self.environment = {"SLURM_CONF": str(directory / "slurm.conf")}

    def run(self, *command):
        done = subprocess.run(
            command,
            env=os.environ | self.environment,
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        return Answer(done.stdout, done.stderr, "" if done.returncode == 0 else f"status {done.returncode}")

    def submit(self, script="sleep 60", *options):
        answer = self.run(
            "sbatch", "--parsable", f"--output={self.directory}/job.log", *options, "--wrap", script
        )
        assert not answer.failure, answer.errors
        return answer.output.strip()

    def state(self):
        return parse_node(self.run("scontrol", "-o", "show", "node", HOST).output).states

    def jobs(self):
        return self.run("squeue", "--noheader", "--format=%A %T %j").output.split("\n")[:-1]

    def clear(self):
        self.run("scancel", "--user=root")
        wait_until(lambda: not self.jobs() and self.state() == ("IDLE",), what="an idle node")


@contextlib.contextmanager
def running_slurm(directory: Path, more: str = "") -> Iterator[Slurm]:
    """`more` are further lines of slurm.conf."""
    for name in ("ctld", "d"):
        (directory / name).mkdir()
    for number in range(2):
        os.mknod(directory / f"gpu{number}", 0o600 | 0o020000, os.makedev(195, number))
    ports = {"port": 16817 + os.getpid() % 1000, "node_port": 17818 + os.getpid() % 1000}
    text = CONFIGURATION.format(host=HOST, directory=directory, **ports)
    (directory / "slurm.conf").write_text(text + more)
    (directory / "gres.conf").write_text(f"NodeName={HOST} Name=gpu File={directory}/gpu[0-1]\n")
    munge = start_munge()
    cluster = Slurm(directory)
    daemons = [
        subprocess.Popen(
            [program, "-D", "-f", directory / "slurm.conf"], env=os.environ | cluster.environment
        )
        for program in ("slurmctld", "slurmd")
    ]
    try:
        wait_until(
            lambda: "IDLE" in cluster.run("sinfo", "-h", "-o", "%T").output.upper(), what="an idle node"
        )
        yield cluster
    finally:
        cluster.run("scancel", "--user=root")
        for daemon in daemons:
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(30)
        if munge is not None:
            munge.terminate()
            munge.wait(10)


def start_munge():
    """One for the machine; None where it runs already."""
    run = Path("/run/munge")
    run.mkdir(exist_ok=True)
    shutil.chown(run, "munge", "munge")
    if (run / "munge.socket.2").exists() and subprocess.run(
        ["munge", "-n"], capture_output=True, check=False
    ).returncode == 0:
        return None
    process = subprocess.Popen(
        ["runuser", "-u", "munge", "--", "/usr/sbin/munged", "--foreground", "--force"]
    )
    wait_until(
        lambda: subprocess.run(["munge", "-n"], capture_output=True, check=False).returncode == 0,
        what="munge",
    )
    return process
