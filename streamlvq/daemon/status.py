"""What the daemon says about itself on its status topic."""

from __future__ import annotations

import time
from typing import Literal

import msgspec

import streamlvq
from streamlvq.config import Config
from streamlvq.config.fleet_topics import own_name
from streamlvq.connect import Outgoing
from streamlvq.daemon.fleet_figures import FleetRecord
from streamlvq.topics import Template

State = Literal["online", "offline"]


class StatusRecord(msgspec.Struct, kw_only=True):
    """The message on the status topic."""

    state: State
    since: float  # when the daemon started, in seconds since 1970
    version: str
    devices: int = 0
    models: int = 0
    readings: int = 0  # since the start
    learnt: int = 0  # since the start
    snapshot_age: float | None = None  # seconds; None: there is none yet
    complaints: list[str] = []  # as `/healthz` has them
    fleet: FleetRecord | msgspec.UnsetType = msgspec.UNSET  # only of those in a fleet


class Status:
    """Makes the messages of the status topic, all of them retained.

    Parameters
    ----------
    config
        Names the topic.

    Examples
    --------
    >>> status = Status(Config())
    >>> status.topic
    'streamlvq/streamlvq/status'
    >>> msgspec.json.decode(status.will().payload)["state"]
    'offline'

    """

    def __init__(self, config: Config) -> None:
        self.topic = own_topic(config.status.topic, config)
        self.since = time.time()
        self._fleet = None  # who we are in a fleet, which a will must say as well
        if config.fleet is not None:
            name, role = config.fleet.name, config.fleet.role
            self._fleet = FleetRecord(name=name, node=own_name(config), role=role)

    def will(self) -> Outgoing | None:
        """What the broker says if the daemon vanishes."""
        return self.message("offline")

    def message(
        self,
        state: State,
        *,
        devices: int = 0,
        models: int = 0,
        readings: int = 0,
        learnt: int = 0,
        snapshot_age: float | None = None,
        complaints: list[str] | None = None,
        fleet: FleetRecord | None = None,
    ) -> Outgoing | None:
        """How the daemon is; None if the configuration names no topic."""
        if self.topic is None:
            return None
        fleet = self._fleet if fleet is None else fleet
        record = StatusRecord(
            state=state,
            since=self.since,
            version=streamlvq.__version__,
            devices=devices,
            models=models,
            readings=readings,
            learnt=learnt,
            snapshot_age=None if snapshot_age is None else round(snapshot_age, 1),
            complaints=complaints or [],
            fleet=msgspec.UNSET if fleet is None else fleet,
        )
        return Outgoing(self.topic, msgspec.json.encode(record), qos=1, retain=True)


def own_topic(template: str | None, config: Config) -> str | None:
    """A topic of the daemon's own, None if there is to be none."""
    if template is None:
        return None
    return Template(template, publish=True).fill({"client_id": config.broker.client_id})


__all__ = ["Status", "StatusRecord", "own_topic"]
