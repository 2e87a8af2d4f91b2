"""Resolve the pod of a service: its engine, image, GPUs, storage and command line.

`decide` calls it once, so that the plan and the status, which names fields without effect, cannot differ.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from modelyard.core import names
from modelyard.engines import ENGINES
from modelyard.engines.contract import Engine, Launch, Place
from modelyard.kinds.shared import fetch_container, fetch_report, gpu, model_cache, model_volumes
from modelyard.kinds.shared.gpu import Devices
from modelyard.kinds.shared.model_volumes import Storage

if TYPE_CHECKING:
    from modelyard.core.policy import Policy
    from modelyard.kinds.contract import Object
    from modelyard.kinds.inferenceservice.api import InferenceServiceSpec
    from modelyard.kinds.shared.model_references import Reference

Json = dict[str, Any]

_HUB_VARIABLES = ("HF_TOKEN", "HF_ENDPOINT")
_REFERENCED = re.compile(r"\$\(([^)]+)\)")


class ResolvedPod(Struct, frozen=True):
    """One pod of a service, resolved from its spec, its Models and the policy."""

    engine: Engine
    image: str
    known_image: bool
    """Whether it is a build of the image of the engine, or that of the administrator: then its user is known."""
    port: int
    devices: Devices
    storage: Storage
    """The storage of the Model, and of the draft model if there is one."""
    launch: Launch


def resolve_pod(
    service: Object[InferenceServiceSpec],
    main: Reference,
    draft: Reference | None,
    policy: Policy,
    client_names: tuple[str, ...] = (),
) -> ResolvedPod:
    """Return the resolved pod. All Models that the service names must have been read."""
    spec = service.spec
    assert main.spec, "a Model that is not known is a problem, and then nothing is resolved"
    engine = ENGINES[spec.runtime]
    devices = gpu.devices(main.spec.hardware, spec.resources.gpu or 0, policy)
    gpus = gpu.engine_gpus(main.spec.hardware, devices)
    image = spec.image or policy.images.get(engine.name) or engine.image(gpus)
    storage = _storage(service, main, policy)
    drafts = _storage(service, draft, policy, prefix=fetch_report.DRAFT) if draft else Storage()
    place = Place(
        model=storage.model,
        port=port(spec, engine),
        revision=storage.revision,
        url=storage.url,
        gpus=gpus,
        draft=drafts.model,
        draft_revision=drafts.revision,
        names=client_names,
        default_image=image == engine.image(gpus),
    )
    return ResolvedPod(
        engine=engine,
        image=image,
        known_image=not spec.image or _is_same_image(image, engine.image(gpus)),
        port=place.port,
        devices=devices,
        storage=model_volumes.merge_storage(storage, drafts),
        launch=engine.launch(msgspec.convert(spec, engine.options, from_attributes=True), place),
    )


def _is_same_image(image: str, known: str) -> bool:
    """Return whether two images have the same name, whatever their registry and tag: mirrors keep the name."""
    name = names.image_name(known)
    return bool(name) and names.image_name(image) == name


def port(spec: InferenceServiceSpec, engine: Engine) -> int:
    """Return the port that the server listens on."""
    return spec.container_port or (spec.endpoint.port if spec.endpoint else engine.port)


def _storage(service: Object[InferenceServiceSpec], model: Reference, policy: Policy, prefix: str = "") -> Storage:
    assert model.spec, "a Model that is not known is not asked for"
    spec, meta = service.spec, service.meta
    return model_volumes.storage(
        model_volumes.ModelToServe(meta.namespace, model.name, model.spec),
        ENGINES[spec.runtime].loads,
        model_cache.policy(spec, policy),
        model_cache.volume(spec, meta.name, policy),
        skip_init=bool(spec.skip_model_init),
        prefix=prefix,
        env=_hub_env(spec),
        user=_fetch_user(spec),
    )


def _hub_env(spec: InferenceServiceSpec) -> tuple[Json, ...]:
    """Return the environment variables with which the engine would reach the hub, for the downloader."""
    config = spec.vllm_config if spec.runtime == "vllm" else None
    reference = config.hf_token_secret_ref if config else None
    token = ({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": reference}},) if reference else ()
    named = [entry for entry in spec.env if entry.get("name") in _HUB_VARIABLES]
    referenced = {name for entry in named for name in _REFERENCED.findall(str(entry.get("value", "")))}
    return (*token, *(entry for entry in spec.env if entry in named or entry.get("name") in referenced))


def _fetch_user(spec: InferenceServiceSpec) -> int:
    """Return the runAsUser of the downloader: that of the pod, so that both can use one volume, but never root.

    0: the spec names none.
    """
    asked = (spec.pod_security_context or {}).get("runAsUser")
    return (asked or fetch_container.DEFAULT_USER) if isinstance(asked, int) else 0
