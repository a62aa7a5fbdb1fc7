"""Load a configuration and report every line that is wrong."""

from __future__ import annotations

from pathlib import Path

import msgspec

from streamlvq.config.checks import problems
from streamlvq.config.errors import ConfigError, Problem
from streamlvq.config.reader import CONFIG_MAX_BYTES, YamlReader, compose
from streamlvq.config.schema import Config


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
