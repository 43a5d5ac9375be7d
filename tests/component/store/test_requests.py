"""The request table: how the command line speaks to a daemon, under races and deaths."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from gpumond.store.records import RequestState
from gpumond.store.sqlite import Store


def test_requests_are_claimed_in_order_and_once(store):
    first = store.add_request("pause", {}, by="alice")
    second = store.add_request("sweep", {"name": "nightly"}, by="bob")
    claimed = store.next_request()
    assert (claimed.id, claimed.kind, claimed.by) == (first, "pause", "alice")
    assert claimed.state is RequestState.CLAIMED
    assert store.next_request().id == second
    assert store.next_request() is None


def test_of_several_claimers_one_gets_each_request(directory, clock, store):
    numbers = [store.add_request("sweep", {}, by="alice") for _ in range(60)]

    def claim(_):
        with Store.open(directory, clock=clock) as claimer:
            got = []
            while (request := claimer.next_request()) is not None:
                got.append(request.id)
            return got

    with ThreadPoolExecutor(4) as pool:
        claimed = [number for got in pool.map(claim, range(4)) for number in got]
    assert sorted(claimed) == numbers


def test_an_answer_reaches_whoever_asked(directory, clock, store):
    with Store.open(directory, clock=clock) as command_line:
        number = command_line.add_request("accept", {}, by="alice")
        store.next_request()
        clock.step(seconds=2)
        store.finish_request(number, state=RequestState.FAILED, answer="a sweep is running")
        answered = command_line.request(number)
    assert (answered.state, answered.answer) == (RequestState.FAILED, "a sweep is running")
    assert answered.finished_at == clock.now()


@pytest.mark.parametrize("state", [RequestState.WAITING, RequestState.CLAIMED])
def test_a_request_ends_as_done_or_failed_only(store, state):
    number = store.add_request("pause", {}, by="alice")
    store.next_request()
    with pytest.raises(ValueError, match="does not end as"):
        store.finish_request(number, state=state, answer="")


def test_only_what_is_claimed_is_answered(store):
    number = store.add_request("pause", {}, by="alice")
    with pytest.raises(ValueError, match="not claimed"):
        store.finish_request(number, state=RequestState.DONE, answer="")
    store.next_request()
    store.finish_request(number, state=RequestState.DONE, answer="")
    with pytest.raises(ValueError, match="not claimed"):
        store.finish_request(number, state=RequestState.DONE, answer="again")
    assert store.request(number).answer == ""


def test_a_request_is_withdrawn_until_it_is_claimed(store):
    first, second = (store.add_request("sweep", {}, by="alice") for _ in range(2))
    assert store.withdraw_request(first) is True
    assert store.withdraw_request(first) is False
    assert store.next_request().id == second
    assert store.withdraw_request(second) is False
    assert store.request(first).state is RequestState.FAILED
    assert store.request(second).state is RequestState.CLAIMED


def test_a_new_daemon_ends_what_a_dead_one_left(store, clock):
    claimed = store.add_request("sweep", {}, by="alice")
    store.next_request()
    old = store.add_request("sweep", {}, by="alice")
    clock.step(seconds=61)
    young = store.add_request("sweep", {}, by="alice")
    clock.step(seconds=59)
    assert store.fail_abandoned_requests() == 2
    assert "the daemon stopped" in store.request(claimed).answer
    assert "no daemon took this" in store.request(old).answer
    assert store.request(old).finished_at == clock.now()
    assert store.next_request().id == young


def test_numbers_are_never_used_again(store, clock):
    """Whoever waits for request 1 must not get the answer to another one."""
    number = store.add_request("sweep", {}, by="alice")
    with store._database.writing() as session:
        session.execute("DELETE FROM request")
    assert store.add_request("sweep", {}, by="bob") > number
