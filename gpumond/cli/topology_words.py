"""The words behind `gpumond topology`: diff, accept, reject, undo, history. Only their command lines, and who runs them.

`gpumond topology` without a word stays what it is. What a word needs is imported when it runs.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from gpumond.config.load import DEFAULT_FILE
from gpumond.errors import UsageError

HISTORY_LIMIT = 20

_DIFF_EXIT_CODES = """\
exit codes:
  0  compared; with --fail-on-change: no difference
  1  with --fail-on-change: something differs
  2  usage, or a file that is no snapshot
  3  not evaluated: nothing accepted yet, no snapshot, or something that could not be read
 10  the store cannot be read        12  something is missing on this host
"""


def add_words(parser: argparse.ArgumentParser) -> None:
    words = parser.add_subparsers(dest="word", metavar="[WORD]", title="words")
    diff = words.add_parser(
        "diff",
        help="what differs from the accepted state, or between two snapshots",
        epilog=_DIFF_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    diff.add_argument(
        "files",
        nargs="*",
        metavar="FILE",
        help="two snapshots as `gpumond topology --json` prints them (default: the accepted one and this host now)",
    )
    diff.add_argument("--fail-on-change", action="store_true", help="exit with 1 if anything differs")
    _add_common(diff)
    for word, text in (
        ("accept", "make this host as it is now the state that changes are told against"),
        ("reject", "put on record that this host as it is now is not as it should be"),
        ("undo", "take back the newest accept or reject"),
    ):
        decision = words.add_parser(word, help=text, description=text)
        decision.add_argument("--reason", required=True, metavar="TEXT", help="for whoever reads the history")
        _add_config(decision)
    history = words.add_parser("history", help="what changed, what was accepted, by whom and why")
    history.add_argument("--limit", type=int, default=HISTORY_LIMIT, metavar="N", help="the newest N lines")
    _add_common(history)


def run_word(arguments: argparse.Namespace) -> int:
    """Run the chosen word. Raises UsageError where options before it contradict it."""
    if arguments.stored or arguments.live or arguments.simulate is not None or arguments.file is not None:
        raise UsageError(
            f"`topology {arguments.word}` takes no --live, --stored, --simulate or --from",
            hint="Put options behind the word.",
        )
    if arguments.word == "diff":
        from gpumond.cli import topology_diff  # noqa: PLC0415 - see above

        return topology_diff.run(arguments)
    if arguments.word == "history":
        from gpumond.cli import topology_history  # noqa: PLC0415 - see above

        return topology_history.run(arguments)
    from gpumond.cli import topology_decisions  # noqa: PLC0415 - see above

    return topology_decisions.run(arguments)


def _add_common(parser: argparse.ArgumentParser) -> None:
    # SUPPRESS: an option that stands before the word must not be overwritten by a default behind it.
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")
    _add_config(parser)


def _add_config(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        default=argparse.SUPPRESS,
        help=f"configuration file (default: {DEFAULT_FILE}, if it exists)",
    )
