"""A small machine with a real systemd: a Debian tree under an overlay, booted by systemd-nspawn, spoken to with nsenter.

Needs root, and the tree of tests/system/make-tree. Nothing in it can reach a network, and nothing of it is kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from daemon_process import wait_until

TREE = Path("/var/cache/gpumond-tests/systemd-bookworm")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
BOOT_SECONDS_MAX = 90.0
END_SECONDS_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    output: str
    errors: str


@dataclass(slots=True)
class Machine:
    root: Path
    leader: int

    def run(self, *words: str, may_fail: bool = False, timeout: float = 120.0) -> Answer:
        """A command inside, as root."""
        done = subprocess.run(
            [
                "nsenter",
                f"--target={self.leader}",
                "--all",
                "env",
                "-i",
                f"PATH={PATH}",
                "LC_ALL=C.UTF-8",
                *words,
            ],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout,
            check=False,
        )
        answer = Answer(done.returncode, done.stdout, done.stderr)
        assert may_fail or answer.status == 0, f"{shlex.join(words)}: {answer}"
        return answer

    def start(self, *words: str) -> subprocess.Popen[str]:
        """A command inside that the test does not wait for."""
        return subprocess.Popen(
            [
                "nsenter",
                f"--target={self.leader}",
                "--all",
                "env",
                "-i",
                f"PATH={PATH}",
                "LC_ALL=C.UTF-8",
                *words,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
        )

    def path(self, inside: str) -> Path:
        """Where a file of the machine's disk is for the test; not for /run, /tmp and /proc."""
        return self.root / inside.lstrip("/")

    def property(self, unit: str, name: str) -> str:
        return self.run("systemctl", "show", "--value", f"--property={name}", unit).output.strip()

    def journal(self, unit: str) -> list[dict[str, str]]:
        output = self.run("journalctl", "--quiet", "--output=json", f"--unit={unit}", may_fail=True).output
        return [json.loads(line) for line in output.splitlines()]


@contextlib.contextmanager
def booted(directory: Path, binds: Mapping[Path, str]) -> Iterator[Machine]:
    """A machine that has booted; `binds`: what of this host it sees, and where (read only)."""
    assert TREE.is_dir(), f"{TREE} is missing: tests/system/install-packages makes it"
    root = directory / "root"
    with _overlay(directory, root):
        console = (directory / "console.log").open("wb")
        process = subprocess.Popen(
            [
                "systemd-nspawn",
                "--quiet",
                f"--directory={root}",
                "--boot",
                "--register=no",
                "--keep-unit",
                "--private-network",
                "--console=pipe",
                "--machine=gpumond-test",
                *(f"--bind-ro={outside}:{inside}" for outside, inside in binds.items()),
            ],
            env=os.environ | {"SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"},
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=console,
        )
        try:
            machine = wait_until(
                lambda: _running_machine(process, root),
                seconds=BOOT_SECONDS_MAX,
                what=f"the boot, see {directory}/console.log",
            )
            yield machine
        finally:
            _end(process)
            console.close()


@contextlib.contextmanager
def _overlay(directory: Path, root: Path) -> Iterator[None]:
    upper = directory / "upper"
    for path in (upper, root):
        path.mkdir()
    # A file system of its own: an overlay cannot lie on another overlay, and /tmp of a container is one.
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", upper], check=True)
    try:
        for name in ("changes", "work"):
            (upper / name).mkdir()
        options = f"lowerdir={TREE},upperdir={upper}/changes,workdir={upper}/work"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", options, root], check=True)
        try:
            yield
        finally:
            subprocess.run(["umount", "--lazy", root], check=True)
    finally:
        subprocess.run(["umount", "--lazy", upper], check=True)


def _running_machine(process: subprocess.Popen[bytes], root: Path) -> Machine | None:
    """Asked anew each time: the first child of systemd-nspawn only makes the second one, which becomes systemd."""
    assert process.poll() is None, "systemd-nspawn has ended"
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    if not children:
        return None
    machine = Machine(root, int(children[-1]))
    state = machine.run("systemctl", "is-system-running", may_fail=True).output.strip()
    return machine if state in {"running", "degraded"} else None


def _end(process: subprocess.Popen[bytes]) -> None:
    """systemd-nspawn hands SIGTERM on as an orderly shutdown."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(END_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
