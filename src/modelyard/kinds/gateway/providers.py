"""The providers of a gateway: which ones its image knows, and the variables that each of them gets.

Pure. Each provider is configured by `<ID>_API_URL` and `<ID>_API_KEY`. A provider that names an object of the cluster
gets both from us; what the user writes in `env` wins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from modelyard.core.conditions import Problem
from modelyard.kinds.gateway.config import has_value
from modelyard.kinds.shared.service_refs import resolve_service

if TYPE_CHECKING:
    from collections.abc import Iterable

    from modelyard.kinds.contract import Seen
    from modelyard.kinds.gateway.blocks import Provider

Json = dict[str, Any]

KNOWN: Final = frozenset(
    {
        "anthropic", "cloudflare", "cohere", "deepseek", "google", "groq", "llamacpp", "minimax", "mistral", "moonshot",
        "nvidia", "ollama", "ollama_cloud", "openai", "zai",
    }
)  # fmt: skip
"""The providers that the image knows, by the ids in its variables and in the names of models."""
KEYLESS: Final = frozenset({"llamacpp", "ollama"})
"""Those whose servers need no key."""
SELECTED: Final = "llamacpp"
"""The provider that stands for the services which `spec.serviceSelector` matches."""

_NO_KEY: Final = "none"
"""Sent in place of a key that no server checks: the image leaves out a provider whose key is empty."""


class ResolvedProvider(Struct, frozen=True):
    """An enabled provider, with everything that the container is told of it."""

    name: str
    """As the user spells it."""
    id: str
    env: tuple[Json, ...]
    configured: bool
    """Whether the image knows it and it has the key that it needs."""
    problem: Problem | None = None
    """Why the object that it names does not answer (yet); None: it does, or the provider names none."""
    has_url: bool = True
    """Whether its URL is known, if it names an object."""

    @property
    def known(self) -> bool:
        """Whether the image knows the provider. Its variables are passed on in any case."""
        return self.id in KNOWN


def resolve_providers(providers: Iterable[Provider], seen: Seen) -> tuple[ResolvedProvider, ...]:
    """Return the enabled providers, in the order of the spec."""
    return tuple(_resolved(one, seen) for one in providers if one.enabled)


def selected_provider(url: str) -> ResolvedProvider:
    """Return the provider whose models are all services that the selector matches."""
    return ResolvedProvider(SELECTED, SELECTED, _variables(SELECTED, url), configured=True)


def _resolved(provider: Provider, seen: Seen) -> ResolvedProvider:
    known = provider.name.lower()
    found = resolve_service(provider.service_ref, "spec.providers", seen) if provider.service_ref else None
    url = found.served.url if found and found.served else ""
    own = _variables(known, url) if found or known == SELECTED else ()
    given = {str(entry.get("name")): entry for entry in (*own, *provider.env)}
    key = given.get(f"{known.upper()}_API_KEY")
    return ResolvedProvider(
        name=provider.name,
        id=known,
        env=tuple(given.values()),
        configured=known in KNOWN and (known in KEYLESS or (key is not None and has_value(key, seen))),
        problem=found.problem if found else None,
        has_url=found is None or bool(url),
    )


def _variables(known: str, url: str) -> tuple[Json, ...]:
    """Return the variables of a provider whose server is ours; an empty URL leaves that of the image."""
    prefix = known.upper()
    told = ({"name": f"{prefix}_API_URL", "value": url},) if url else ()
    return (*told, {"name": f"{prefix}_API_KEY", "value": _NO_KEY})
