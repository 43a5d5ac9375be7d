"""What a text says around its table: who ran, on how many ranks, and how it ended."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpumond.model.benchmark import Collective, Note, NoteKind
from gpumond.parsers.nccl_tests.arithmetic import Circumstances
from gpumond.parsers.nccl_tests.failures import OWN_TOOLS, Failure, Severity

MAX_RANKS = 65_536
MAX_NAMES = 32
_NCCL_TESTS = "nccl-tests"
_RCCL_TESTS = "rccl-tests"
_COLLECTIVES = frozenset(Collective)
_ALL_REDUCE_BIAS = "all_reduce_bias"  # rccl-tests
_NAMES = "|".join(sorted((*Collective, _ALL_REDUCE_BIAS), key=len, reverse=True))


_RUN_LINE = re.compile(
    r"\bnThread(s?)(:?)\s+\d{1,6}\s+nGpus:?\s+(\d{1,6})\s+(?:nRanks:\s+\d{1,6}\s+)?minBytes\b", re.ASCII
)
_RANK_LINE = re.compile(
    r"\bRank\s+(\d{1,7})\s+(?:Group\s+(\d{1,7})\s+)?(?:Pid\s+\d{1,10}\s+)?on\s+(\S{1,128})\s+device\s+\d{1,4}\s+\[[0-9a-fA-Fx:.]{1,20}\]",
    re.ASCII,
)
_VERSION = re.compile(rf"\b([nr]ccl-tests|{OWN_TOOLS}):? [Vv]ersion\s+(\S{{1,64}})")
_LIBRARY_CODE = re.compile(r"\b[nr]ccl-library=(\d{1,9})\b", re.ASCII)
_LIBRARY_LINE = re.compile(r"\b[NR]CCL version(?: :)? (\d[\w.+:-]{0,63})", re.ASCII)
_PROGRAM_LINE = re.compile(r"(?:Collective test (?:starting|concluded):|USAGE:)\s+(\S{1,128})")
_PROGRAM = re.compile(rf"(?<![A-Za-z0-9_])({_NAMES})(?:_perf|_mpi|\.cu)", re.ASCII)
_PROGRAM_SUFFIX = re.compile(r"(?:_perf|_mpi|\.exe|\.cu)+$")
_OUT_OF_BOUNDS = re.compile(r"Out of bounds values\s*:\s*(\d{1,18})\s+(OK|FAILED)\b", re.ASCII)
_AVERAGE = re.compile(
    r"Avg bus bandwidth\s*:\s*(?:(\d{1,15}(?:\.\d{1,9})?(?:e[+-]\d\d)?)(\s|$))?\s*(FAILED)?", re.ASCII
)
_CLAMP = re.compile(r"Reducing maxBytes to (\d{1,18}) due to memory limitation")
_REPLACED = re.compile(r"invalid (?:type|op) .{1,64}, defaulting to \w{1,32}")
_NOT_POWER_OF_TWO = re.compile(r"nRanks \d{1,7} is not a power of 2, skipping")
_BITWISE = re.compile(r"Bitwise mismatches\s*:\s*\d{1,18}\s+FAILED")
_ASTERISKS = "Errors with asterisks indicate errors"
# One search decides that a line has nothing to say; most lines of a log have not.
_TELLING = re.compile(
    r"nThread|Rank|nRanks|ccl-tests|gpumond-|CCL version|_perf|_mpi|\.cu\b|Out of bounds|Avg bus|Reducing max|defaulting|Bitwise|asterisks"
    r"|failure|error|timeout|Invalid|invalid|unrecognized|argument|requested GPUs|version `|not found|Incompatible|implementation"
    r"|unable to launch|slots|fault|Illegal|exception|Abort|terminate|signal|backtrace|smashing|corrupt|\(\): |Assertion|HSA_|Collective test|USAGE"
)


def library_version_of(code: int) -> str:
    """NCCL's version code as people write it: 22809 is 2.28.9, and before 2.9 2708 was 2.7.8."""
    major = 10_000 if code >= 10_000 else 1_000  # noqa: PLR2004 - nccl.h changed it with 2.9
    return f"{code // major}.{code % major // 100}.{code % 100}"


def is_telling(text: str) -> bool:
    """Whether a line can hold a fact or a failure; most cannot."""
    return _TELLING.search(text) is not None


@dataclass(slots=True)
class RankList:
    """The ranks of the current run, from its device list."""

    ranks: set[int] = field(default_factory=set)
    ranks_of_group_0: set[int] = field(default_factory=set)
    is_whole: bool = True

    def add(self, rank: int, group: int) -> None:
        if len(self.ranks) >= MAX_RANKS:
            self.is_whole = False
            return
        self.ranks.add(rank)
        if group == 0:
            self.ranks_of_group_0.add(rank)

    @property
    def communicator_ranks(self) -> int | None:
        """Ranks of the communicator that the table is about: with a split, group 0. None where the list has gaps."""
        if not self.is_whole or not self.ranks_of_group_0 or len(self.ranks) != max(self.ranks) + 1:
            return None
        return len(self.ranks_of_group_0)


@dataclass(slots=True)
class Progress:
    """Runs that have begun and footers that have been printed: a text may hold several runs, one after the other or
    interleaved (a binary built without MPI, started by mpirun)."""

    begun: int = 0
    unfinished: int = 0
    footers: int = 0
    most_at_once: int = 0
    _bounds: int = 0

    def begin(self) -> None:
        self.begun += 1
        self.unfinished += 1
        self.most_at_once = max(self.most_at_once, self.unfinished)

    def begin_unless_running(self) -> None:
        """A row or a header was read; its run line may be missing."""
        if self.unfinished == 0:
            self.begin()

    def bounds(self) -> None:
        """The first line of a footer."""
        self._bounds += 1

    def average(self) -> None:
        """The second, which completes it."""
        if self._bounds:
            self._bounds -= 1
            self.footers += 1
            self.unfinished = max(0, self.unfinished - 1)

    @property
    def is_finished(self) -> bool:
        return self.footers > 0 and self.unfinished == 0


@dataclass(slots=True)
class Facts:
    """Everything around the table, as far as the text has been read."""

    tool: str = _NCCL_TESTS
    tool_version: str | None = None
    library_version: str | None = None
    ngpus: int | None = None
    out_of_bounds: int | None = None
    avg_busbw_gbps: float | None = None
    has_failed_bounds: bool = False
    progress: Progress = field(default_factory=Progress)
    failure: Failure | None = None
    notes: dict[NoteKind, Note] = field(default_factory=dict)
    _rank_list: RankList = field(default_factory=RankList)
    _stated: set[str] = field(default_factory=set)
    _mentioned: set[str] = field(default_factory=set)
    _current: str | None = None
    _highest_rank: int | None = None
    _has_whole_rank_lists: bool = True

    @property
    def collective(self) -> str | None:
        """The program's name, where the text states one and only one."""
        names = self._stated or self._mentioned
        return next(iter(names)) if len(names) == 1 else None

    @property
    def nranks(self) -> int | None:
        if self._highest_rank is None or not self._has_whole_rank_lists:
            return None
        return self._highest_rank + 1

    @property
    def circumstances(self) -> Circumstances:
        """What the current rows are sure to be; a name in an echoed command may belong to another run."""
        name = Collective.ALL_REDUCE if self._current == _ALL_REDUCE_BIAS else self._current
        collective = Collective(name) if name in _COLLECTIVES else None
        is_of_a_fork = name is not None and collective is None
        return Circumstances(collective, self._rank_list.communicator_ranks, is_of_a_fork)

    @property
    def error(self) -> str | None:
        """Why the run ended before its footer."""
        if self.failure is None:
            return None
        if self.failure.severity is Severity.CALLER and self.progress.is_finished:
            return None  # other ranks' way out of a run with wrong data may be printed before the footer
        return self.failure.text

    def note(self, kind: NoteKind, text: str) -> None:
        self.notes.setdefault(kind, Note(kind, text))

    def read_foreign(self, text: str) -> None:
        """A line of NCCL's own log: of interest is its version."""
        if self.library_version is None and "CCL version" in text:
            match = _LIBRARY_LINE.search(text)
            self.library_version = match[1] if match else None

    def read(self, text: str, *, is_cut: bool) -> tuple[str, ...]:
        """Take in one telling line without foreign text. Returns the host names that it shows."""
        self._read_names(text)
        self._read_footer(text, is_cut=is_cut)
        self._read_remarks(text)
        return self._read_start(text)

    def fail(self, failure: Failure) -> None:
        if failure.is_at_start or not self.progress.is_finished:
            if self.failure is None or failure.severity > self.failure.severity:
                self.failure = failure
        elif failure.severity > Severity.CALLER:
            self.note(NoteKind.ERROR_AFTER_FOOTER, f"after the footer: {failure.text}")

    def _read_start(self, text: str) -> tuple[str, ...]:
        if match := _RUN_LINE.search(text):
            self.progress.begin()
            self._rank_list = RankList()
            self.ngpus = int(match[3])
            if match[1] or match[2]:  # `nThreads: 1 nGpus: 4` was never NVIDIA's
                self.tool = _RCCL_TESTS
        if match := _VERSION.search(text):
            self.tool, self.tool_version = match[1], match[2]
        if match := _LIBRARY_CODE.search(text):
            self.library_version = library_version_of(int(match[1]))
        elif "CCL version" in text:
            self.read_foreign(text)
        if match := _RANK_LINE.search(text):
            rank = int(match[1])
            self._rank_list.add(rank, int(match[2] or 0))
            self._highest_rank = max(self._highest_rank or 0, rank)
            return (match[3],)
        if "Rank" in text and text.rstrip().endswith("..."):
            self._rank_list.is_whole = self._has_whole_rank_lists = (
                False  # 2048 bytes a process, then the list is cut
            )
        return ()

    def _read_names(self, text: str) -> None:
        if match := _PROGRAM_LINE.search(text):
            name = _PROGRAM_SUFFIX.sub("", re.split(r"[\\/]", match[1])[-1])
            _add(self._stated, name)
            if "starting:" in text:
                self._current = name
        elif match := _PROGRAM.search(text):
            _add(self._mentioned, match[1])

    def _read_footer(self, text: str, *, is_cut: bool) -> None:
        if match := _OUT_OF_BOUNDS.search(text):
            self.progress.bounds()
            self.out_of_bounds = int(match[1])
            self.has_failed_bounds |= match[2] == "FAILED"
        if match := _AVERAGE.search(text):
            self.progress.average()
            is_whole = match[1] is not None and not (is_cut and match[2] == "")
            self.avg_busbw_gbps = float(match[1]) if is_whole else None
            if match[3]:
                self.note(NoteKind.AVERAGE_TOO_LOW, "the average is below NCCL_TESTS_MIN_BW")

    def _read_remarks(self, text: str) -> None:
        if _ASTERISKS in text or "Test HIP failure" in text:
            self.tool = _RCCL_TESTS
        if match := _CLAMP.search(text):
            self.note(
                NoteKind.SIZES_REDUCED, f"sizes end at {match[1]} bytes: the GPUs have no memory for more"
            )
        if match := _REPLACED.search(text):
            self.note(NoteKind.ARGUMENT_REPLACED, match[0])
        if match := _NOT_POWER_OF_TWO.search(text):
            self.note(NoteKind.NOTHING_MEASURED, match[0])
        if match := _BITWISE.search(text):
            self.note(NoteKind.BITWISE_MISMATCH, match[0])


def _add(names: set[str], name: str) -> None:
    if len(names) < MAX_NAMES:
        names.add(name)
