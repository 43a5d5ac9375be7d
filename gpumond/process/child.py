"""The trampoline: the first program of every supervised child; it prepares the process and becomes the real command.

Run as `python -I -S child.py PARENT ENVIRONMENT_FD REPORT_FD CGROUP_FD UMASK FILE_BYTES_MAX -- COMMAND...`, by path and
without `site`: no package is imported, so it starts in half the time of `-m gpumond.process.child` (25 against 45 ms) and does
not depend on how gpumond was installed. It knows the standard library only, and of that what loads fast.

It does what a threaded daemon must not do between fork and exec (engineering.md 2.3, rule 2):
- SIGKILL when the parent ends. Linux means the *thread* that spawned: the supervisor stays in its thread for the whole
  life of the child, so that is right; a throw-away thread would kill it. Cleared by exec of a setuid program.
- its own cgroup, where there is one to enter: before exec, so that nothing of the command is ever outside.
- no core files (a core of a process with 8 x 140 GB mapped fills any disk), a limit on file sizes, a umask.
- signals as a shell would give them: Python ignores SIGPIPE, and a thread that blocks SIGTERM hands that down.
- GPUMOND_CHILD in the environment: pid, start time and boot. Whatever inherits it is recognised later, also after
  `setsid`, after its parent died and after the daemon did (gpumond/process/leftovers.py).

The environment comes through a file descriptor and takes effect with exec only: a configured LD_LIBRARY_PATH may hold
another libpython or libffi, which must not meet this interpreter. REPORT_FD gets READY before exec and is closed by
it; a failed exec adds its errno, so that its failure is never taken for an exit status of the command.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1
READY = b"ready\n"
MARKER = "GPUMOND_CHILD"


def main(arguments: list[str]) -> int:
    numbers = [int(text) for text in arguments[:6]]
    parent, environment_fd, report_fd, cgroup_fd, umask, file_bytes_max = numbers
    command = arguments[7:]
    os.set_inheritable(report_fd, False)  # noqa: FBT003 - os has it positional
    _die_with(parent)
    if cgroup_fd >= 0:
        _enter(cgroup_fd)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if file_bytes_max >= 0:
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, file_bytes_max))
    os.umask(umask)
    environment = read_environment(environment_fd)
    environment[os.fsencode(MARKER)] = os.fsencode(marker_of(os.getpid(), own_start_ticks(), boot_id()))
    _reset_signals()
    os.write(report_fd, READY)
    try:
        os.execvpe(command[0], command, environment)  # noqa: S606 - to become the command is what it is for
    except OSError as error:
        os.write(report_fd, b"%d\n" % (error.errno or 0))
    return 127


def marker_of(pid: int, start_ticks: int, boot: str) -> str:
    """What the environment of a child, and of all that it starts, holds under MARKER."""
    return f"{pid}.{start_ticks}.{boot}"


def boot_id() -> str:
    """The kernel's random id of this boot: a pid and start ticks repeat after a reboot, this does not."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:  # noqa: PTH123 - pathlib costs 10 ms
        return file.read().strip()


def own_start_ticks() -> int:
    """Field 22 of stat; the name in field 2 may hold spaces and brackets, so count from behind it."""
    with open("/proc/self/stat", "rb") as file:  # noqa: PTH123 - pathlib costs 10 ms
        return int(file.read().rpartition(b")")[2].split()[19])


def read_environment(descriptor: int) -> dict[bytes, bytes]:
    """`NAME=value` with a NUL after each, as in /proc/PID/environ."""
    with open(descriptor, "rb") as file:
        entries = file.read().split(b"\0")
    return dict(entry.split(b"=", 1) for entry in entries if entry)


def _die_with(parent: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"prctl: {os.strerror(ctypes.get_errno())}")
    # The parent may have died before the line above: then nobody will ever send that signal.
    if os.getppid() != parent:
        sys.exit("the parent is gone")


def _enter(cgroup_fd: int) -> None:
    try:
        os.write(cgroup_fd, b"0")
        os.close(cgroup_fd)
    except OSError as error:
        sys.exit(f"cgroup.procs: {error.strerror}")


def _reset_signals() -> None:
    for number in signal.valid_signals():
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
