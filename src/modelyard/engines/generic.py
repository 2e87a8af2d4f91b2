"""Any server: the user names the image and the arguments, and they are passed on as they are."""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from modelyard.engines.contract import Engine, Launch, Loads, Place


class GenericOptions(Struct, frozen=True):
    """The fields of a spec that only this engine honours."""

    args: tuple[str, ...] = ()


def launch(options: GenericOptions, _: Place) -> Launch:
    """Return the command, arguments and environment of the container for these options."""
    return Launch(args=options.args)


ENGINE: Final = Engine(
    name="generic",
    container="inference-server",
    port=8080,
    loads=Loads.NOTHING,
    options=GenericOptions,
    launch=launch,
    image=lambda _: "",
)
