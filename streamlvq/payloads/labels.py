"""Labels that come by themselves."""

from __future__ import annotations

from streamlvq.config import Config, Fields
from streamlvq.events import DedupWindow, LateLabel
from streamlvq.paths import ABSENT, pick
from streamlvq.payloads.identity import DEVICE, Identity
from streamlvq.payloads.keys import message_keys, stable_hash
from streamlvq.payloads.reader import Reader
from streamlvq.payloads.routes import Route, group_of
from streamlvq.payloads.values import (
    RefusedError,
    shorten,
    to_device,
    to_label,
    to_sequence,
    wrong,
)
from streamlvq.registry import FORMATS


class LabelReader:
    """Reads the messages of the labels' topic.

    Parameters
    ----------
    config
        Must have a section `labels`.
    identity
        Of the devices of readings, which labels are for.

    """

    def __init__(self, config: Config, identity: Identity) -> None:
        section = config.labels
        assert section is not None
        fields = Fields(
            format=section.format,
            label=section.label,
            time=section.time,
            time_unit=section.time_unit,
            sequence=section.sequence,
            device=section.device,
        )
        self._reader: Reader = FORMATS[section.format](fields)
        self._identity = identity
        self._group_of = group_of(config)

    def read(self, payload: bytes, route: Route, source: int) -> LateLabel:
        """The label in a payload; raises `RefusedError`."""
        value = self._reader.parse(payload)
        layout = self._reader.layout
        assert layout.label is not None
        found = pick(value, layout.label.path)
        label = to_label(layout.label.name, found)
        if label is None:
            raise wrong(layout.label.name, "a label", found)
        t = sequence = None
        if layout.sequence is not None:
            sequence = to_sequence(layout.sequence.name, pick(value, layout.sequence.path))
        if layout.time is not None:
            t = self._reader.seconds(layout.time.name, pick(value, layout.time.path))
        if sequence is None and t is None:
            names = [f.name for f in (layout.sequence, layout.time) if f is not None]
            text = f"expected {' or '.join(names) or 'a sequence number or a time'} to say which "
            text += f"reading the label is for, got {shorten(value)}"
            raise RefusedError("field", text, "which reading")
        device = self._device(value, route)
        return LateLabel(
            device,
            self._group_of(device, route.placeholders),
            label,
            t,
            sequence,
            source,
            message_keys([stable_hash(f"{route.hash} {device}")], [payload], [sequence], [t])[0],
            DedupWindow.RECENT,  # as it says which reading it is for
        )

    def _device(self, value: object, route: Route) -> str:
        field = self._reader.layout.device
        found = ABSENT if field is None else pick(value, field.path)
        if field is not None and found is not None and found is not ABSENT:
            return self._identity.join({**route.placeholders, DEVICE: to_device(field.name, found)})
        if not route.device:
            name = "the topic" if field is None else field.name
            text = f"{name}: expected a device's name, got nothing"
            raise RefusedError("device", text, "label")
        return route.device
