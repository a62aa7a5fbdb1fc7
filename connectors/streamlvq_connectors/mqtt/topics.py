"""Topics that a broker takes: others make it close the connection, and so lose more than one."""

from __future__ import annotations

from functools import lru_cache

from streamlvq_connectors.mqtt.options import LARGEST_TOPIC


@lru_cache(65_536)
def sendable(topic: str) -> bool:
    """Whether a topic may be published to.

    Examples
    --------
    >>> sendable("plant/press 7/decision")
    True
    >>> [sendable(topic) for topic in ("", "plant/+", "plant/#", "a\\x00b", "$SYS/broker")]
    [False, False, False, False, False]
    """
    if not topic or topic[0] == "$" or "+" in topic or "#" in topic or "\0" in topic:
        return False
    try:
        return len(topic.encode()) <= LARGEST_TOPIC
    except UnicodeEncodeError:  # half of a pair of surrogates, as JSON may hold
        return False
