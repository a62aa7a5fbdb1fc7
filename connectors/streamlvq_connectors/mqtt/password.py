"""The password of the user at the broker."""

from __future__ import annotations

import os
from pathlib import Path

from streamlvq.config import Broker


def password(broker: Broker) -> str | None:
    """From the environment or from a file, as the configuration says; it is never shown."""
    if broker.password_env is not None:
        value = os.environ.get(broker.password_env)
        if value is None:
            raise ValueError(
                f"expected the password in the environment variable {broker.password_env}, which"
                " broker.password_env names; it is not set"
            )
        return value
    if broker.password_file is not None:
        return Path(broker.password_file).read_text(encoding="utf-8").rstrip("\r\n")
    return None
