"""What is remembered, what an unknown user costs, and who has to wait."""

from __future__ import annotations

import asyncio
import threading

import bcrypt
import pytest

from gpumond.exporter.web.passwords import (
    REMEMBERED_MAX,
    WAITING_MAX,
    WAITING_OF_ONE_CLIENT_MAX,
    Check,
    Passwords,
)

USERS = {"alice": bcrypt.hashpw(b"right", bcrypt.gensalt(4))}


@pytest.fixture
def passwords():
    made = Passwords()
    yield made
    made.close()


@pytest.fixture
def asked(monkeypatch):
    """What bcrypt was asked: (password, hash)."""
    found, real = [], bcrypt.checkpw

    def check(password, hashed):
        found.append((password, hashed))
        return real(password, hashed)

    monkeypatch.setattr(bcrypt, "checkpw", check)
    return found


def check(passwords, name, password, users=USERS, client="10.0.0.1"):
    return asyncio.run(passwords.check(users, name, password, client=client))


def test_right_is_remembered_and_wrong_is_not(passwords, asked):
    assert [check(passwords, "alice", b"right") for _ in range(3)] == [Check.RIGHT] * 3
    assert len(asked) == 1
    assert [check(passwords, "alice", b"wrong") for _ in range(3)] == [Check.WRONG] * 3
    assert len(asked) == 4


def test_another_hash_is_another_password(passwords):
    assert check(passwords, "alice", b"right") is Check.RIGHT
    changed = {"alice": bcrypt.hashpw(b"new", bcrypt.gensalt(4))}
    assert check(passwords, "alice", b"right", changed) is Check.WRONG
    assert check(passwords, "bob", b"right", {"bob": USERS["alice"]}) is Check.RIGHT


def test_memory_is_bounded(passwords):
    users = {str(number): USERS["alice"] for number in range(REMEMBERED_MAX + 5)}
    for name in users:
        check(passwords, name, b"right", users)
    assert len(passwords._right) == REMEMBERED_MAX
    assert not any(b"right" in mark for mark in passwords._right)


def test_an_unknown_user_is_checked_against_a_hash_of_the_same_cost(passwords, asked):
    costly = {"alice": USERS["alice"], "bob": bcrypt.hashpw(b"x", bcrypt.gensalt(5))}
    for name in map(str, range(20)):
        assert check(passwords, name, b"right", costly) is Check.WRONG
        assert check(passwords, name, b"right", costly) is Check.WRONG
    costs = [hashed[4:6] for _, hashed in asked]
    assert costs[::2] == costs[1::2]  # one name always costs the same
    assert set(costs) == {b"04", b"05"}


@pytest.mark.parametrize("length", [72, 73, 5000])
def test_bcrypt_takes_72_bytes(passwords, length):
    users = {"alice": bcrypt.hashpw(b"x" * 72, bcrypt.gensalt(4))}
    assert check(passwords, "alice", b"x" * length, users) is Check.RIGHT


def test_who_waits_and_who_is_sent_away(passwords, monkeypatch):
    go_on = threading.Event()
    monkeypatch.setattr(bcrypt, "checkpw", lambda *_: not go_on.wait(20))

    async def guess():
        one = [passwords.check(USERS, "a", b"x", client="one") for _ in range(WAITING_OF_ONE_CLIENT_MAX + 3)]
        many = [passwords.check(USERS, "a", b"x", client=str(n)) for n in range(WAITING_MAX)]
        tasks = [asyncio.ensure_future(each) for each in (*one, *many)]
        await asyncio.sleep(0.05)
        go_on.set()
        return await asyncio.gather(*tasks)

    answers = asyncio.run(guess())
    assert (
        answers[: WAITING_OF_ONE_CLIENT_MAX + 3]
        == [Check.WRONG] * WAITING_OF_ONE_CLIENT_MAX + [Check.NOT_NOW] * 3
    )
    assert answers.count(Check.WRONG) == WAITING_MAX
    assert not passwords._waiting
