"""What a command wants of a running daemon is a row in the store; the answer comes back the same way (DESIGN rule 2)."""

from __future__ import annotations

import getpass
from collections.abc import Mapping

from gpumond.clock import Clock
from gpumond.errors import HostError, NotEvaluatedError
from gpumond.store.records import RequestState
from gpumond.store.sqlite import Store

ANSWER_SECONDS_MAX = 10.0
"""A daemon obeys within 2 s; one that starts a probe first needs a little longer."""

POLL_SECONDS = 0.2


def ask_daemon(
    store: Store,
    kind: str,
    arguments: Mapping[str, str],
    *,
    clock: Clock,
    seconds_max: float = ANSWER_SECONDS_MAX,
) -> str:
    """The daemon's answer. Raises NotEvaluatedError where it refuses, HostError where it is silent."""
    number = store.add_request(kind, arguments, by=getpass.getuser())
    give_up = clock.monotonic() + seconds_max
    while True:
        request = store.request(number)
        if request is not None and request.state is RequestState.DONE:
            return request.answer
        if request is not None and request.state is RequestState.FAILED:
            raise NotEvaluatedError(f"the daemon refused: {request.answer}")
        if clock.monotonic() > give_up and store.withdraw_request(number):
            raise HostError("the daemon did not answer", hint="See its log: `journalctl -u gpumond`.")
        clock.sleep(POLL_SECONDS)
