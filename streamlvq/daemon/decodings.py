"""How the messages of the journal are to be understood: as on the day when they came."""

from __future__ import annotations

from pathlib import Path

import msgspec

from streamlvq.config import Config, LabelsSection, ReadingsSection, ShardSection
from streamlvq.daemon.journal import JournalError
from streamlvq.daemon.lock import FILE_MODE
from streamlvq.snapshot import write_atomically

NAME = "decoding.json"


class Understanding(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """What of a configuration decides what messages mean, from a position of the journal on."""

    since: int
    readings: ReadingsSection
    labels: LabelsSection | None
    shard: ShardSection
    per: str
    max_features: int
    max_payload_bytes: int

    @classmethod
    def of(cls, config: Config, since: int) -> Understanding:
        return cls(
            since=since,
            readings=config.readings,
            labels=config.labels,
            shard=config.shard,
            per=config.model.per,
            max_features=config.model.max_features,
            max_payload_bytes=config.broker.max_payload_bytes,
        )

    def within(self, config: Config) -> Config:
        """A configuration that understands messages like this, and is like `config` otherwise."""
        if self == Understanding.of(config, self.since):
            return config
        replace = msgspec.structs.replace
        return replace(
            config,
            readings=self.readings,
            labels=self.labels,
            shard=self.shard,
            model=replace(config.model, per=self.per, max_features=self.max_features),
            broker=replace(config.broker, max_payload_bytes=self.max_payload_bytes),
        )


class Decodings:
    """A small file beside the journal that says how to decode it, from which position on.

    The configuration may change between two starts while acknowledged messages wait in the journal;
    decoded with the new one they would be refused, and lost.

    Parameters
    ----------
    folder
        Where the journal is.

    Examples
    --------
    >>> import tempfile
    >>> decodings = Decodings(Path(tempfile.mkdtemp()))
    >>> old, new = (Config(readings=ReadingsSection(topic=t)) for t in ("a/{device}", "b/{device}"))
    >>> decodings.note(old, 0)
    >>> decodings.note(new, 100)
    >>> [decodings.at(at, new).readings.topic for at in (0, 99, 100)]
    ['a/{device}', 'a/{device}', 'b/{device}']

    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self._entries = self._read()

    def at(self, position: int, config: Config) -> Config:
        """The configuration to decode a batch with; `config` where nothing is known."""
        known = [each for each in self._entries if each.since <= position] or self._entries[:1]
        return known[-1].within(config) if known else config

    def end(self, position: int) -> int | None:
        """The position after this one from which on something else may hold."""
        return next((each.since for each in self._entries if each.since > position), None)

    def note(self, config: Config, position: int, oldest: int = 0) -> None:
        """Batches from `position` on are understood like this; those before `oldest` are gone."""
        new = Understanding.of(config, position)
        kept = [each for each in self._entries if each.since < position]
        if not kept or kept[-1] != msgspec.structs.replace(new, since=kept[-1].since):
            kept.append(new)
        while len(kept) > 1 and kept[1].since <= oldest:
            del kept[0]
        if kept != self._entries:
            write_atomically(self.path, msgspec.json.encode(kept), FILE_MODE)
            self._entries = kept

    def _read(self) -> list[Understanding]:
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=list[Understanding])
        except FileNotFoundError:
            return []
        except (OSError, msgspec.DecodeError) as error:
            raise JournalError(
                f"expected {self.path} to say how the journal is to be decoded, got: {error}; put "
                "back a copy, or delete it if the configuration has not changed since"
            ) from error


__all__ = ["Decodings"]
