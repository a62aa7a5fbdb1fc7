"""MQTT 5 and 3.1.1: the link to a broker, without threads, with a fast way to receive."""

from __future__ import annotations

from streamlvq_connectors.mqtt.link import MqttLink

__all__ = ["MqttLink"]
