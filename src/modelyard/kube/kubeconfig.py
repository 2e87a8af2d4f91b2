"""Read kubeconfig files as kubectl does: several are merged, and the first that names a thing wins.

This is only what the files say; `config` makes a connection of it. What is wrong is said with its file and field.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import msgspec
import yaml
from msgspec import Struct

from modelyard.home import at_home
from modelyard.kube.credentials import Redacted
from modelyard.kube.errors import ConfigInvalid, quoted
from modelyard.kube.exec_plugin import Command  # noqa: TC001 - msgspec reads the type when it runs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LISTED: Final = 10
"""How many names are listed where one is wrong."""


class Extension(Struct, frozen=True):
    """Data that another program keeps in the file."""

    name: str
    extension: Any = None


class Cluster(Struct, frozen=True, rename="kebab"):
    """A cluster: the address of its API server, and the CA to trust."""

    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    proxy_url: str = ""
    extensions: tuple[Extension, ...] | None = None


class User(Redacted, frozen=True, rename="kebab"):
    """A user: how to authenticate."""

    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    exec: Command | None = None
    auth_provider: Any = None
    username: str = ""
    impersonate: Any = msgspec.field(default=None, name="as")


class Context(Struct, frozen=True):
    """A context: a cluster, a user and a namespace."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class NamedCluster(Struct, frozen=True):
    """An entry of `clusters`."""

    name: str
    value: Cluster = msgspec.field(name="cluster")


class NamedUser(Struct, frozen=True):
    """An entry of `users`."""

    name: str
    value: User = msgspec.field(default=User(), name="user")


class NamedContext(Struct, frozen=True):
    """An entry of `contexts`."""

    name: str
    value: Context = msgspec.field(name="context")


class Kubeconfig(Struct, frozen=True, rename="kebab"):
    """One file, as far as we read it."""

    current_context: str = ""
    clusters: tuple[NamedCluster, ...] | None = None
    users: tuple[NamedUser, ...] | None = None
    contexts: tuple[NamedContext, ...] | None = None


class Place(Struct, frozen=True):
    """Where an entry stands, so that errors can say it and relative paths can be followed."""

    file: Path
    field: str

    def path(self, text: str) -> Path:
        """Return the file that a field names: relative to the kubeconfig, not to where we were started."""
        return self.file.parent / at_home(Path(text))

    def wrong(self, field: str, what: str) -> ConfigInvalid:
        """Return the error that names a field of this entry."""
        return ConfigInvalid(str(self.file), f"{self.field}.{field}", what)


T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class _Entry(Protocol[T_co]):
    @property
    def name(self) -> str: ...

    @property
    def value(self) -> T_co: ...


class Chosen(Struct, frozen=True):
    """What one context resolves to, each part with its place in the files."""

    cluster: Cluster
    cluster_place: Place
    user: User
    user_place: Place
    namespace: str


def choose(files: Sequence[Path], context: str = "") -> Chosen:
    """Return what a context resolves to; empty: the current context."""
    read = {file: _read(file) for file in files if _exists(file)}
    listed = ", ".join(map(str, files))
    if not read:
        raise ConfigInvalid(listed, "", "does not exist")
    wanted = context or next((config.current_context for config in read.values() if config.current_context), "")
    if not wanted:
        raise ConfigInvalid(listed, "current-context", "is not set; run kubectl config use-context NAME")
    way, place = _first(read, "contexts", wanted, lambda config: config.contexts)
    cluster, cluster_place = _first(read, "clusters", way.cluster, lambda config: config.clusters)
    if not way.user:
        return Chosen(cluster, cluster_place, User(), place, way.namespace)
    user, user_place = _first(read, "users", way.user, lambda config: config.users)
    return Chosen(cluster, cluster_place, user, user_place, way.namespace)


def _first(
    read: dict[Path, Kubeconfig], section: str, name: str, entries: Callable[[Kubeconfig], Sequence[_Entry[T]] | None]
) -> tuple[T, Place]:
    for file, config in read.items():
        for index, entry in enumerate(entries(config) or ()):
            if entry.name == name:
                return entry.value, Place(file, f"{section}[{index}]")
    known = ", ".join([entry.name for config in read.values() for entry in entries(config) or ()][:_LISTED])
    there = f" (there is {known})" if known else ""
    raise ConfigInvalid(", ".join(map(str, read)), section, f"there is none named {name!r}{there}")


def _exists(file: Path) -> bool:
    try:
        return file.exists()
    except OSError as error:
        # Of a folder that this user may not enter, or a name that no file can have.
        raise ConfigInvalid(quoted(str(file)), "", f"cannot be read: {error.strerror}") from error


def _read(file: Path) -> Kubeconfig:
    try:
        content = yaml.safe_load(file.read_bytes())
        return msgspec.convert({} if content is None else content, Kubeconfig)
    except OSError as error:
        raise ConfigInvalid(str(file), "", f"cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        # The parser quotes the line that it stumbled over, and that may hold a token: so its words are not passed on.
        raise ConfigInvalid(str(file), "", f"is not YAML (line {mark.line + 1})" if mark else "is not YAML") from None
    except msgspec.ValidationError as error:
        wrong, _, field = str(error).partition(" - at ")
        raise ConfigInvalid(str(file), field.strip("`$."), wrong) from error
