"""Sets of CPUs and NUMA nodes: bit masks, and lists as the kernel prints them (`0-31,64-95`). Pure."""

from __future__ import annotations

from collections.abc import Iterable

MASK_WORD_BITS = 64


def list_of_mask(words: Iterable[int]) -> str:
    """A bit mask of 64-bit words, lowest first, as a list."""
    return list_of_members(
        index * MASK_WORD_BITS + bit
        for index, word in enumerate(words)
        for bit in range(MASK_WORD_BITS)
        if word >> bit & 1
    )


def list_of_members(numbers: Iterable[int]) -> str:
    return ",".join(_span(first, last) for first, last in _runs(sorted(numbers)))


def members_of_list(text: str) -> frozenset[int]:
    """The numbers in a list. Raises ValueError where `text` is none."""
    numbers: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, dash, last = part.partition("-")
        numbers.update(range(int(first), int(last if dash else first) + 1))
    return frozenset(numbers)


def _runs(sorted_numbers: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for number in sorted_numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"
