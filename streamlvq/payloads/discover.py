"""Payloads whose features are not named beforehand: every number that is nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

from streamlvq.paths import Path, join_path
from streamlvq.payloads.plans import MOST_FIELDS, KnownShape, Plans
from streamlvq.payloads.reader import Read, Reader, Table
from streamlvq.payloads.values import RefusedError

DEEPEST = 32  # levels of nested objects
IGNORED = str | bool | None


class DiscoveringReader(Reader):
    """Finds the features of each payload.

    Nested objects and arrays are flattened, with names like `motor.vib.x` and `spectrum.0`. Text,
    true, false and null are left out. The features are in the order of their names, so that it
    does not matter in which order a device sends them.

    A shape of payload that was seen twice gets a fast way of its own, see `Plans`. Payloads of
    different shapes that come together are sorted by shape first.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._others = {field.path for field in self.layout.designated}
        self._plans = Plans(self)

    def fast(self, payloads: Sequence[bytes]) -> Table | None:
        """All of them as one table, if they have the shape of the last one."""
        last = self._plans.last
        table = None if last is None else last.plan.table(payloads)
        if last is not None and table is not None:
            self._plans.touch(last)
        return table

    def _read(self, payloads: Sequence[bytes], start: int, read: Read) -> None:
        table = self.fast(payloads) if payloads else None
        if table is not None:
            table.sources = range(start, start + len(payloads))
            read.tables.append(table)
            return
        sorted_out: dict[KnownShape, tuple[list[int], list[Any]]] = {}
        for i, payload in enumerate(payloads, start):
            found = self._plans.match(payload, self.decode)
            if found is None:
                self._each([payload], i, read)
                continue
            known, instance = found
            places, instances = sorted_out.setdefault(known, ([], []))
            places.append(i)
            instances.append(instance)
        for known, (places, instances) in sorted_out.items():
            self._plans.touch(known)
            self._finish(known, places, instances, payloads, start, read)

    def _finish(
        self,
        known: KnownShape,
        places: list[int],
        instances: list[Any],
        payloads: Sequence[bytes],
        start: int,
        read: Read,
    ) -> None:
        """The table of payloads of one shape; halved while something is wrong among them."""
        table = known.plan.finish(instances)
        if table is not None:
            table.sources = places
            read.tables.append(table)
        elif len(places) > 1:
            middle = len(places) // 2
            for part in (slice(0, middle), slice(middle, None)):
                self._finish(known, places[part], instances[part], payloads, start, read)
        else:
            self._each([payloads[places[0] - start]], places[0], read)

    def find_features(self, value: Any) -> list[tuple[str, Any]]:
        """Names and values, in the order of the names."""
        leaves = list(_leaves(value, ()))
        numbers = [
            (path, number)
            for path, number in leaves
            if type(number) in (int, float) and path not in self._others
        ]
        if len(numbers) > self.most_features:
            text = f"expected at most {self.most_features} features (model.max_features)"
            raise RefusedError("model", f"{text}, got {len(numbers)}", "features")
        self._remember(leaves)
        found = [(join_path(path), number) for path, number in numbers]
        return sorted(found, key=itemgetter(0))

    def _remember(self, leaves: list[tuple[Path, Any]]) -> None:
        if len(leaves) > MOST_FIELDS:
            return
        kinds: dict[Path, Any] = {}
        for path, value in leaves:
            if path in self._others:
                continue
            if isinstance(value, list):
                return  # positions in arrays have no fast way
            kinds[path] = float if type(value) in (int, float) else IGNORED
        self._plans.see(kinds)


def _leaves(value: Any, above: Path) -> Iterator[tuple[Path, Any]]:
    """All that is neither object nor array; also each array, as something that is there."""
    if len(above) > DEEPEST:
        text = f"expected at most {DEEPEST} levels of nesting, got more"
        raise RefusedError("payload", text, "nesting")
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(key, str):  # MessagePack allows others
                yield from _leaves(inner, (*above, key))
    elif isinstance(value, list):
        yield above, value
        for i, inner in enumerate(value):
            yield from _leaves(inner, (*above, str(i)))
    else:
        yield above, value
