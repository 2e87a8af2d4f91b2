"""List objects of many kinds, with what could not be listed as values: one kind must not hide the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from modelyard.cluster.failures import NoRights, may_not, no_definition
from modelyard.cluster.session import for_each
from modelyard.core.objects import Stored
from modelyard.core.resources import Resource
from modelyard.kube.errors import Forbidden, NotFound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from modelyard.cluster.session import Session
    from modelyard.core.errors import ModelyardError


class Listed(Struct, frozen=True):
    """The objects of some resources, and one line for each resource of which none could be listed."""

    items: tuple[Stored, ...]
    missing: tuple[str, ...] = ()


class _List(Struct, frozen=True):
    resource: Resource
    items: tuple[Stored, ...] = ()
    forbidden: Forbidden | None = None
    is_defined: bool = True


async def list_objects(
    session: Session, resources: Sequence[Resource], namespace: str = "", selector: str = ""
) -> Listed:
    """Return all objects of these resources, in one namespace or (empty) in all.

    NoDefinition, NoRights: not one of the resources could be listed.
    """

    async def listed(resource: Resource) -> _List:
        try:
            return _List(resource, tuple(await session.client.list_all(resource, namespace, selector)))
        except NotFound:
            return _List(resource, is_defined=False)
        except Forbidden as error:
            return _List(resource, forbidden=error)

    found = await for_each(listed, resources)
    failures = _failures(found)
    if failures and not any(each.is_defined and not each.forbidden for each in found):
        raise failures[0]
    items = tuple(item for each in found for item in each.items)
    return Listed(items, tuple(str(failure) for failure in failures))


def _failures(found: list[_List]) -> list[ModelyardError]:
    failures: list[ModelyardError] = [NoRights(may_not(each.forbidden)) for each in found if each.forbidden]
    if undefined := [each.resource for each in found if not each.is_defined]:
        failures.append(no_definition(*undefined))
    return failures
