"""One mapping of a document, taken key by key; what nobody took is a mistake, and no mistake hides another."""

from __future__ import annotations

from collections.abc import Mapping

from gpumond.errors import ConfigProblem
from gpumond.exporter.web.document import Entry


class Section:
    """The keys below `path`. Complaints go into `problems`, which all sections of a file share."""

    def __init__(
        self,
        file: str,
        path: str,
        entries: Mapping[str, Entry],
        problems: list[ConfigProblem],
        *,
        line: int = 0,
    ) -> None:
        self._file = file
        self._path = path
        self._entries = entries
        self._problems = problems
        self._line = line
        self._taken: set[str] = set()

    @property
    def is_empty(self) -> bool:
        return not self._entries

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._entries)

    def take(self, name: str) -> Entry | None:
        self._taken.add(name)
        return self._entries.get(name)

    def text(self, name: str) -> str | None:
        """The text of a key; None where it is missing, or where it is something else, which is said."""
        entry = self.take(name)
        if entry is None:
            return None
        if not isinstance(entry.value, str):
            self.complain(name, "must be text")
            return None
        return entry.value

    def words(self, name: str) -> tuple[str, ...]:
        """A list of text; empty where it is missing."""
        entry = self.take(name)
        if entry is None or entry.value == "":
            return ()
        if isinstance(entry.value, list):
            found = [item.value for item in entry.value]
            if all(isinstance(word, str) and word for word in found):
                return tuple(str(word) for word in found)
        self.complain(name, "must be a list of text")
        return ()

    def section(self, name: str) -> Section:
        """The mapping below a key; an empty one where it is missing."""
        entry = self.take(name)
        path = f"{self._path}.{name}" if self._path else name
        entries: Mapping[str, Entry] = {}
        if entry is not None and isinstance(entry.value, dict):
            entries = entry.value
        elif entry is not None and entry.value != "":
            self.complain(name, "must be a mapping")
        return Section(self._file, path, entries, self._problems, line=entry.line if entry else 0)

    def complain(self, name: str, message: str) -> None:
        """About a key of this section, or about the section as a whole where `name` is empty."""
        entry = self._entries.get(name)
        key = ".".join(part for part in (self._path, name) if part)
        self._problems.append(ConfigProblem(self._file, entry.line if entry else self._line, key, message))

    def refuse_rest(self) -> None:
        """Complain about every key that was not taken: a misspelt one would be a door left open."""
        for name in self._entries:
            if name not in self._taken:
                self.complain(name, "is not a key of a web configuration file")
