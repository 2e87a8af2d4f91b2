"""The body of a Kubernetes Event (events.k8s.io). `runtime/events.py` and the one-machine node write them."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from modelyard.core import names
from modelyard.core.resources import EVENT
from modelyard.core.times import micro_timestamp

if TYPE_CHECKING:
    from datetime import datetime

    from modelyard.core.objects import Json, Stored

_LONGEST_NAME: Final = 253
_LONGEST_NOTE: Final = 1024
_LONGEST_INSTANCE: Final = 128
_SERIAL: Final = 16


class Reporter(Struct, frozen=True):
    """The controller and the instance that report an event, and what they were doing."""

    controller: str
    instance: str
    action: str


def event(about: Stored, reporter: Reporter, reason: str, note: str, moment: datetime, *, warning: bool) -> Json:
    """Return the Event about one object. Its name is unique, because an Event of the same name would be refused."""
    meta, at = about.meta, micro_timestamp(moment)
    serial = hashlib.sha256(f"{meta.uid}{reason}{note}{at}".encode()).hexdigest()[:_SERIAL]
    name = f"{names.short(meta.name, _LONGEST_NAME - _SERIAL - 1)}.{serial}"
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.kind,
        "metadata": {"name": name, "namespace": meta.namespace or "default"},
        "eventTime": at,
        "reportingController": reporter.controller,
        "reportingInstance": reporter.instance[:_LONGEST_INSTANCE],
        "action": reporter.action,
        "type": "Warning" if warning else "Normal",
        "reason": reason,
        "note": note[:_LONGEST_NOTE],
        "regarding": {
            "apiVersion": about.resource.api_version,
            "kind": about.resource.kind,
            "namespace": meta.namespace,
            "name": meta.name,
            "uid": meta.uid,
        },
    }
