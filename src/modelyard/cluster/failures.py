"""Why a verb cannot answer: one class, one line and one exit code for each thing that a user can do about it.

The exit codes are an interface for scripts; docs/cli/overview.md lists them. 1 is every other refusal, 2 is a wrong
command line.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from modelyard.core.errors import ModelyardError
from modelyard.kube.errors import (
    ConfigInvalid,
    Forbidden,
    KubeError,
    NoCredentials,
    NotFound,
    Unauthorized,
    Unavailable,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from modelyard.core.resources import Key, Resource

_ABSENT: Final = "NotFound"
"""The reason of a 404 about one object. A 404 without a reason is about a path that the server does not know."""


class NothingFound(ModelyardError):
    """What the user named does not exist."""

    exit_code = 3


class NoCluster(ModelyardError):
    """No kubeconfig names a cluster, or its API server cannot be reached."""

    exit_code = 4


class NoRights(ModelyardError):
    """The cluster does not know the user, or the user may not do this."""

    exit_code = 5


class NoDefinition(ModelyardError):
    """The cluster does not serve a kind: its CustomResourceDefinition is not installed."""

    exit_code = 6


@contextmanager
def explained() -> Iterator[None]:
    """Turn errors of the kubeconfig and of the API server into one line that says what to do."""
    try:
        yield
    except ConfigInvalid as error:
        another = "choose one with --context, or" if error.field == "contexts" else "name"
        raise NoCluster(f"{error}; {another} a kubeconfig with --kubeconfig, or set KUBECONFIG") from error
    except KubeError as error:
        raise _of(error) from error


def _of(error: KubeError) -> ModelyardError:
    if isinstance(error, Forbidden) and error.by_role:
        return NoRights(may_not(error))
    if isinstance(error, Unauthorized | NoCredentials):
        return NoRights(f"the cluster does not accept your credentials ({error}); log in again")
    if isinstance(error, Unavailable) and error.status == 0:
        return NoCluster(f"{error}; check the cluster, or choose another one with --context")
    return error


def may_not(error: Forbidden) -> str:
    """Return what the user may not do. The words of the error itself are for the administrator of the operator."""
    return f"you may not {error.verb} {error.resource}; ask an administrator of the cluster for this right"


def told(error: ModelyardError) -> str:
    """Return the words of an error for the user whose own rights are in use."""
    return may_not(error) if isinstance(error, Forbidden) and error.by_role else str(error)


def is_undefined(error: NotFound) -> bool:
    """Return whether a 404 means that the API server does not serve the resource at all."""
    return error.reason != _ABSENT


def no_definition(*resources: Resource) -> NoDefinition:
    """Return the failure of a cluster that does not serve these resources."""
    listed = ", ".join(sorted(resource.label for resource in resources))
    verb = "is" if len(resources) == 1 else "are"
    return NoDefinition(f"{listed} {verb} not defined on this cluster; install Modelyard with `modelyard install`")


def no_object(resource: Resource, key: Key) -> NothingFound:
    """Return the failure of an object that does not exist."""
    where = f"there is no {resource.kind} {key.name} in the namespace {key.namespace}"
    return NothingFound(f"{where}; `modelyard get {resource.plural} -A` shows those that exist")
