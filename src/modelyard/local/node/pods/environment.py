"""The environment variables of a container, and `$(NAME)` in its variables, command and arguments.

`launch` calls it at every start. The rules are the kubelet's: a later variable wins, `$(NAME)` knows the variables
before it, `$$` is a dollar, and a reference that does not resolve stays as it is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from modelyard.local.node.pods.config_sources import ConfigMissing
from modelyard.local.node.pods.downward_api import read_field, read_resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from modelyard.local.node.pods.config_sources import ConfigSources, Content
    from modelyard.local.node.pods.downward_api import PodContext
    from modelyard.local.node.podspec import Container, EnvFrom, KeyRef, ValueFrom

Env = dict[str, str]

_REFERENCE: Final = re.compile(r"\$\$|\$\(([^)]*)\)")
# Processes need these from the machine. All others, tokens of the user above all, stay out of pods.
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
_NO_PROXY: Final = ("NO_PROXY", "no_proxy")
_FROM_MACHINE: Final = (
    *("PATH", "HOME", "USER", "LANG", "LC_ALL", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
    *(*_PROXIES, *_NO_PROXY),
)
_LOOPBACK: Final = ("localhost", "127.0.0.1")


def from_machine(environ: Mapping[str, str]) -> Env:
    """Return the variables of this machine that every process of a pod gets."""
    return {name: environ[name] for name in _FROM_MACHINE if name in environ}


def past_proxies(env: Mapping[str, str], hosts: Iterable[str]) -> Env:
    """Return the `NO_PROXY` variables that keep these loopback hosts away from an HTTP proxy; empty: there is none."""
    if not any(env.get(name) for name in _PROXIES):
        return {}
    given = [host.strip() for name in _NO_PROXY for host in env.get(name, "").split(",")]
    # One by one: most programs do not understand a CIDR range here.
    return dict.fromkeys(_NO_PROXY, ",".join(dict.fromkeys(filter(None, (*given, *_LOOPBACK, *sorted(hosts))))))


def expand(text: str, env: Mapping[str, str]) -> str:
    """Return the text with each `$(NAME)` replaced by the value of that variable."""
    return _REFERENCE.sub(lambda match: "$" if match[0] == "$$" else env.get(match[1], match[0]), text)


async def environment(container: Container, pod: PodContext, sources: ConfigSources, given: Env) -> Env:
    """Return the variables of a container, which may refer to those `given`; ConfigMissing when a source is missing."""
    env: Env = {}
    for group in container.env_from:
        env |= await _group(group, pod, sources)
    for variable in container.env:
        if variable.value_from is None:
            env[variable.name] = expand(variable.value, {**given, **env})
            continue
        value = await _value(variable.value_from, container, pod, sources)
        if value is not None:
            env[variable.name] = value
    return env


async def _group(group: EnvFrom, pod: PodContext, sources: ConfigSources) -> Env:
    ref = group.secret_ref or group.config_map_ref
    if ref is None:
        return {}
    kind = "Secret" if group.secret_ref else "ConfigMap"
    content = await (sources.secret(ref.name) if group.secret_ref else sources.config_map_text(ref.name))
    if content is None:
        if ref.optional:
            return {}
        raise _missing(kind, pod, ref.name)
    return {f"{group.prefix}{key}": _text(value, kind, ref.name, key) for key, value in content.items()}


async def _value(source: ValueFrom, container: Container, pod: PodContext, sources: ConfigSources) -> str | None:
    if source.field_ref is not None:
        return read_field(pod, source.field_ref.field_path)
    if source.resource_field_ref is not None:
        return read_resource(pod, container, source.resource_field_ref)
    if source.secret_key_ref is not None:
        ref = source.secret_key_ref
        return _key("Secret", ref, pod, await sources.secret(ref.name))
    if source.config_map_key_ref is not None:
        ref = source.config_map_key_ref
        return _key("ConfigMap", ref, pod, await sources.config_map_text(ref.name))
    return None


def _key(kind: str, ref: KeyRef, pod: PodContext, content: Content | None) -> str | None:
    if content is not None and ref.key in content:
        return _text(content[ref.key], kind, ref.name, ref.key)
    if ref.optional:
        return None
    if content is None:
        raise _missing(kind, pod, ref.name)
    where = f"{kind} {pod.meta.namespace}/{ref.name}"
    raise ConfigMissing(f"{where} has no key {ref.key}; add the key, or correct the reference")


def _missing(kind: str, pod: PodContext, name: str) -> ConfigMissing:
    return ConfigMissing(f"{kind} {pod.meta.namespace}/{name} does not exist; create it, or correct the reference")


def _text(value: bytes, kind: str, name: str, key: str) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        raise ConfigMissing(f"key {key} of {kind} {name} is not text; mount it as a file instead") from None
    if "\0" in text:
        raise ConfigMissing(f"key {key} of {kind} {name} holds a zero byte; mount it as a file instead")
    return text
