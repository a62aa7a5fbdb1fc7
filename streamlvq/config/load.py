"""Load a configuration, check it, and report every line that is wrong.

The checks are those that types cannot express. Each names the keys that it looks at and is skipped
if one of them could not be read: it would complain about a default that nobody chose.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import msgspec

from streamlvq.config import check_broker, check_fleet, check_privacy
from streamlvq.config.build import build_classifier, build_model, build_transform
from streamlvq.config.errors import ConfigError, KeyPath, Problem
from streamlvq.config.reader import CONFIG_MAX_BYTES, YamlReader, compose
from streamlvq.config.schema import Config, Fields
from streamlvq.config.topics import check_topics
from streamlvq.paths import FieldsError, parse_path
from streamlvq.text import suggestion
from streamlvq.topics import Template, TemplateError

_Check = Callable[[Config], Iterable[Problem]]
_BY_COLUMN = ("json_array", "float32")  # formats whose values have no names of their own
_BY_NAME = ("json",)  # whose values have; what is neither may be an array or an object
_PRIVATE = ("model", "private")


class _Rule(NamedTuple):
    check: _Check
    keys: tuple[str, ...]

    def is_about(self, path: KeyPath) -> bool:
        """Return True if the check looks at a path, at something inside it or around it."""
        places = [tuple(key.split(".")) for key in self.keys]
        return any(p[: len(path)] == path or path[: len(p)] == p for p in places)


def problems(config: Config, unreliable: Collection[KeyPath] = ()) -> list[Problem]:
    """Return all problems of a configuration, except at paths that could not be read."""
    rules = (rule for rule in _RULES if not any(rule.is_about(path) for path in unreliable))
    return [problem for rule in rules for problem in rule.check(config)]


def check(config: Config) -> Config:
    """Return the configuration if it makes sense; raise `ConfigError` otherwise.

    Examples
    --------

    >>> from streamlvq.config import Config, ConfigError, ShardSection, check

    >>> try:
    ...     check(Config(shard=ShardSection(index=4, count=4)))
    ... except ConfigError as error:
    ...     print(error)
    shard.index: expected less than shard.count (4), got 4; the first shard is 0

    """
    found = problems(config)
    if found:
        raise ConfigError(found)
    return config


# --- payloads ------------------------------------------------------------------------------------


def _readings(config: Config) -> Iterator[Problem]:
    fields = config.readings
    yield from _columns(fields)
    yield from _names("features", fields.features)
    for name in ("label", "time", "sequence", "device"):
        value = getattr(fields, name)
        if value is None:
            continue
        yield from _nested(("readings", name), value)
        if fields.features and value in fields.features:
            yield Problem(
                ("readings", "features"),
                f"expected features only, got {value!r}, which is the {name}",
            )
        if name != "label" and value == fields.label:
            yield Problem(
                ("readings", name), f"expected another field than the label's, got {value!r}"
            )
    if fields.format == "float32" and fields.time_unit == "iso":
        yield _wrong("readings.time_unit", "a number as time, for payloads of float32", "iso")
    if fields.format == "float32" and fields.device is not None:
        yield Problem(
            ("readings", "device"),
            "expected the device in the topic, for payloads of float32, which hold no names",
        )


def _columns(fields: Fields) -> Iterator[Problem]:
    columns = fields.columns
    if fields.format not in _BY_COLUMN and columns is None:
        return
    if fields.format in _BY_NAME:
        yield Problem(
            ("readings", "columns"),
            f"expected no columns with format: {fields.format}, whose values have names; "
            f"to choose some of them use features",
        )
        return
    if not columns:
        yield Problem(
            ("readings", "columns"),
            f"expected the names of the values, in their order, for format: {fields.format}",
        )
        return
    yield from _names("columns", columns)
    for name in ("label", "time", "sequence", "device"):
        yield from _among_columns(name, getattr(fields, name), columns)
    for feature in fields.features or ():
        yield from _among_columns("features", feature, columns)


def _among_columns(key: str, name: str | None, columns: list[str]) -> Iterator[Problem]:
    if name is not None and name not in columns:
        yield Problem(
            ("readings", key),
            f"expected one of readings.columns, got {name!r}{suggestion(name, columns)}",
        )


def _names(key: str, names: list[str] | None) -> Iterator[Problem]:
    """Check that names are distinct and not empty, and that there is at least one."""
    if names is None:
        return
    if not names:
        yield Problem(("readings", key), "expected at least one name, got an empty list")
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            yield Problem(("readings", key), f"expected each name once, got {name!r} twice")
        yield from _nested(("readings", key), name)


def _nested(path: tuple[str, ...], name: str) -> Iterator[Problem]:
    try:
        parse_path(name)
    except FieldsError as error:
        yield Problem(path, str(error))


def _labels(config: Config) -> Iterator[Problem]:
    labels = config.labels
    if labels is None:
        return
    if labels.sequence is None and labels.time is None:
        yield Problem(
            ("labels",),
            "expected labels.sequence or labels.time, to know which reading a label is for",
        )
    if labels.sequence is not None and labels.time is not None:
        yield Problem(
            ("labels", "time"),
            "expected one of labels.sequence and labels.time, to know which reading a label is "
            "for, got both",
        )
    for name in ("label", "time", "sequence", "device"):
        value = getattr(labels, name)
        if value is not None:
            yield from _nested(("labels", name), value)
    for name in ("sequence", "time"):
        given, other = getattr(labels, name), getattr(config.readings, name)
        if given is not None and other is None:
            yield Problem(
                ("labels", name),
                f"expected readings.{name} too: labels find their reading by its {name}",
            )


# --- models --------------------------------------------------------------------------------------


def _model(config: Config) -> Iterator[Problem]:
    try:
        build_model(config.model, privacy=config.privacy)
    except ConfigError as error:
        yield from error.problems


def _private(config: Config) -> Iterator[Problem]:
    if config.model.private is None:
        return
    try:
        wrapped = build_transform(config.model, build_model(config.model))
    except ConfigError as error:
        yield from (problem for problem in error.problems if problem.path[:2] == _PRIVATE)
        return
    known = config.readings.features
    missing = [] if known is None else [s for s in wrapped.private_features if s not in known]
    if missing:
        yield Problem(
            _PRIVATE,
            f"expected private features that are read, got {missing[0]!r}, which is not among "
            "readings.features: without it nothing can be removed, and everything would be missing",
        )


def _wrappers(config: Config) -> Iterator[Problem]:
    try:
        build_classifier(config)
    except ConfigError as error:
        elsewhere = ("model", "privacy")
        yield from (problem for problem in error.problems if problem.path[0] not in elsewhere)


def _groups(config: Config) -> Iterator[Problem]:
    try:
        placeholders = Template(config.readings.topic).placeholders
    except TemplateError:
        return  # reported elsewhere
    known = ["all", "device", *(name for name in placeholders if name != "device")]
    if config.model.per not in known:
        yield Problem(
            ("model", "per"),
            f"expected all, device or a placeholder of readings.topic ({', '.join(known)}), "
            f"got {config.model.per!r}{suggestion(config.model.per, known)}",
        )


def _width(config: Config) -> Iterator[Problem]:
    features = config.readings.features
    if features is not None and len(features) > config.model.max_features:
        yield Problem(
            ("model", "max_features"),
            f"expected at least as many as readings.features ({len(features)}), "
            f"got {config.model.max_features}",
        )


def _when(config: Config) -> Iterator[Problem]:
    if config.decisions.when == "rejection" and config.rejector is None:
        yield Problem(
            ("decisions", "when"),
            "expected a section 'rejector:' too: without one nothing is ever rejected",
        )


# --- running -------------------------------------------------------------------------------------


def _shard(config: Config) -> Iterator[Problem]:
    index, count = config.shard.index, config.shard.count
    if index >= count:
        yield Problem(
            ("shard", "index"),
            f"expected less than shard.count ({count}), got {index}; the first shard is 0",
        )


def _duplicates(config: Config) -> Iterator[Problem]:
    if config.readings.qos:
        why = "after a crash the broker sends so many again"
        yield from _at_least_the_window(config, ("state", "duplicates"), why)


def _outgoing(config: Config) -> Iterator[Problem]:
    if config.decisions.qos:
        why = "with decisions of QoS 1, those on so many readings may be on their way"
        yield from _at_least_the_window(config, ("broker", "outgoing_limit"), why)


def _at_least_the_window(config: Config, path: KeyPath, why: str) -> Iterator[Problem]:
    window, kept = config.broker.receive_maximum, attrgetter(".".join(path))(config)
    if kept < window:
        expected = f"expected at least broker.receive_maximum ({window})"
        yield Problem(path, f"{expected}, got {kept}: {why}")


def _ages(config: Config) -> Iterator[Problem]:
    every, limit = config.state.snapshot_seconds, config.health.snapshot_age_seconds
    if config.health.port is not None and limit <= every:
        yield Problem(
            ("health", "snapshot_age_seconds"),
            f"expected more than state.snapshot_seconds ({every:g}), got {limit:g}: health would "
            f"be bad between two snapshots",
        )


def _places(config: Config) -> Iterator[Problem]:
    if not config.state.folder:
        yield _wrong("state.folder", "the name of a folder", "")
    if not config.health.host:
        yield _wrong("health.host", "an address to listen on, such as 127.0.0.1", "")
    if config.decisions.file is not None and not config.decisions.file:
        yield _wrong("decisions.file", "the name of a file", "")


def _wrong(path: str, expected: str, got: object) -> Problem:
    return Problem(tuple(path.split(".")), f"expected {expected}, got {got!r}")


_RULES = (
    _Rule(check_broker.url, ("broker.url",)),
    _Rule(check_broker.client, ("broker.client_id",)),
    _Rule(
        check_broker.credentials,
        ("broker.username", "broker.password_env", "broker.password_file", "broker.protocol"),
    ),
    _Rule(check_broker.tls, ("broker.tls", "broker.url")),
    _Rule(
        _readings,
        tuple(f"readings.{key}" for key in Fields.__struct_fields__),
    ),
    _Rule(_labels, ("labels", "readings.sequence", "readings.time")),
    _Rule(_model, ("model.type", "model.parameters", "privacy")),
    _Rule(
        _private,
        ("model.private", "model.transform", "model.parameters", "readings.features"),
    ),
    _Rule(_wrappers, ("model.type", "model.parameters", "privacy", "integrator", "rejector")),
    _Rule(check_privacy.model, ("privacy", "model")),
    _Rule(check_privacy.names, ("privacy", "readings", "model.max_classes")),
    _Rule(check_privacy.duplicates, ("privacy", "readings.sequence", "readings.time")),
    _Rule(check_privacy.wrappers, ("privacy", "integrator", "rejector")),
    _Rule(check_privacy.state, ("privacy", "readings.qos", "labels", "state")),
    _Rule(check_privacy.fleet, ("privacy", "fleet")),
    _Rule(_groups, ("model.per", "readings.topic")),
    _Rule(_width, ("model.max_features", "readings.features")),
    _Rule(_when, ("decisions.when", "rejector")),
    _Rule(
        check_topics,
        (
            *("readings.topic", "readings.device", "labels", "decisions.topic"),
            *("decisions.retain", "status"),
        ),
    ),
    _Rule(_shard, ("shard",)),
    _Rule(check_fleet.names, ("fleet", "broker.client_id")),
    _Rule(check_fleet.trust, ("fleet",)),
    _Rule(check_fleet.model, ("fleet", "model.type", "model.parameters", "model.per")),
    _Rule(check_fleet.times, ("fleet",)),
    _Rule(
        check_fleet.topics,
        ("fleet", "readings.topic", "labels", "decisions.topic", "status"),
    ),
    _Rule(_duplicates, ("broker.receive_maximum", "readings.qos", "state.duplicates")),
    _Rule(_outgoing, ("broker.receive_maximum", "broker.outgoing_limit", "decisions.qos")),
    _Rule(_ages, ("health.port", "health.snapshot_age_seconds", "state.snapshot_seconds")),
    _Rule(_places, ("state.folder", "health.host", "decisions.file")),
)


def load(path: Path | str) -> Config:
    """Load a configuration from a YAML file; raise `ConfigError` with all problems.

    Parameters
    ----------
    path
        The file.

    """
    path = Path(path)
    try:
        with path.open("rb") as file:
            data = file.read(CONFIG_MAX_BYTES + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        message = f"expected a file to read, got: {reason}"
        raise ConfigError([Problem((), message)], str(path)) from error
    if len(data) > CONFIG_MAX_BYTES:
        message = "expected a configuration of at most 1 MiB, got a larger file"
        raise ConfigError([Problem((), message)], str(path))
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"expected UTF-8 text, got the byte {data[error.start]:#04x}"
        raise ConfigError([Problem((), message, line)], str(path)) from error
    return loads(text, str(path))


def loads(text: str, name: str = "<string>") -> Config:
    """Load a configuration from YAML text; raise `ConfigError` with all problems.

    Parameters
    ----------
    text
        YAML. An empty text is a configuration of defaults.
    name
        Name of the text in messages.

    Examples
    --------

    >>> from streamlvq.config import ConfigError, loads

    >>> config = loads("broker: {url: 'mqtt://10.0.0.5'}")
    >>> config.broker.url, config.model.type
    ('mqtt://10.0.0.5', 'LGMLVQ')

    >>> try:
    ...     loads("readings:\\n  topc: a/{device}\\n  qos: 7", name="plant.yaml")
    ... except ConfigError as error:
    ...     print(error)
    plant.yaml:2: readings.topc: unknown key; did you mean 'topic'?
    plant.yaml:3: readings.qos: expected 0 or 1, got 7

    """
    reader = YamlReader(compose(text, name))
    try:
        config = msgspec.convert(reader.values, Config)
    except msgspec.ValidationError as error:  # the reader should have found it
        raise ConfigError([*reader.problems, Problem((), str(error))], name) from error
    further = problems(config, reader.unreliable_paths())
    found = reader.problems + [p._replace(line=reader.line(p.path)) for p in further]
    if found:
        raise ConfigError(sorted(found, key=lambda problem: problem.line or 0), name)
    return config
