"""Zerfoo's own server: it fetches the model that it is told by itself, and keeps it in its cache folder."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from modelyard.engines.contract import Engine, Launch, Loads, Place

IMAGE: Final = "ghcr.io/zerfoo/zerfoo"
CACHE: Final = "/var/cache/zerfoo"


class ZerfooOptions(Struct, frozen=True):
    """The fields of a spec that only this engine honours: none."""


def launch(_: ZerfooOptions, place: Place) -> Launch:
    """Return the command, arguments and environment of the container. The model is a reference of Zerfoo's own."""
    told = {"ZERFOO_MODEL": place.model, "ZERFOO_PORT": str(place.port), "ZERFOO_CACHE_DIR": CACHE}
    return Launch(
        args=("serve", "--port", str(place.port), *filter(None, (place.model,))),
        env=tuple({"name": name, "value": value} for name, value in told.items()),
    )


ENGINE: Final = Engine(
    name="zerfoo",
    container="zerfoo",
    port=8080,
    loads=Loads.NOTHING,
    options=ZerfooOptions,
    launch=launch,
    image=lambda _: IMAGE,
    health="/readyz",
    user=1000,
    folders=(CACHE,),
)
