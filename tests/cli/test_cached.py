"""Which weights are on which claim and what uses them, by objects alone."""

from __future__ import annotations

from typing import Any

from modelyard.cluster.cached import Users, cached, unused
from modelyard.core.objects import Stored
from modelyard.core.resources import POD, VOLUME_CLAIM, Key, Resource
from modelyard.core.source import cache_key
from modelyard.kinds.model.api import RESOURCE as MODELS
from modelyard.kinds.modeldeployment.api import RESOURCE as DEPLOYMENTS
from modelyard.weights.cache import Folder

SOURCE = "https://user:secret@example.com/a.gguf"
KEY = cache_key(SOURCE)
CLAIM = Key("team", "cache")


def stored(resource: Resource, name: str, namespace: str = "team", **parts: Any) -> Stored:
    return Stored.from_dict(resource, {"metadata": {"name": name, "namespace": namespace}, **parts})


def users(*models: Stored, deployments: tuple[Stored, ...] = (), pods: tuple[Stored, ...] = ()) -> Users:
    return Users(models, deployments, pods)


CLAIMS = [
    Stored.from_dict(
        VOLUME_CLAIM,
        {"metadata": {"name": "cache", "namespace": "team", "labels": {"app.kubernetes.io/component": "model-cache"}}},
    )
]
OWN = [stored(VOLUME_CLAIM, "mail-weights")]
MAIL = {"modelName": "mail", "modelSource": "hf://org/mail", "engine": "vllm"}
WANTED = cache_key("hf://org/mail")
MODEL = stored(MODELS, "a", spec={"source": SOURCE}, status={"cacheKey": KEY, "sourceContentLength": 2048})


def test_without_a_scan_models_say_what_is_there_and_no_password_is_shown() -> None:
    (one,) = cached(CLAIMS, users(MODEL), {}).weights
    assert (one.key, one.size, one.shown_size, one.used_by) == (KEY, 2048, "2.0 KiB", ("Model a",))
    assert "secret" not in one.source


def test_a_scan_says_what_is_really_there() -> None:
    folders = [Folder(KEY, 10, "https://example.com/a.gguf", ("a.gguf",), 1), Folder(cache_key("gone"), 5)]
    found = cached(CLAIMS, users(MODEL), {CLAIM: folders})
    assert [(one.size, one.source, one.used_by) for one in found.weights] == [
        (10, "https://example.com/a.gguf", ("Model a",)),
        (5, "not complete", ()),
    ]
    assert found.claims == ("team/cache",)


def test_a_model_of_another_namespace_uses_nothing_here() -> None:
    other = stored(MODELS, "a", "shop", spec={"source": SOURCE}, status={"cacheKey": KEY})
    assert cached(CLAIMS, users(other), {CLAIM: [Folder(KEY, 10)]}).weights[0].used_by == ()


def test_a_pod_whose_model_is_deleted_still_uses_its_folder() -> None:
    spec = {"containers": [{"args": [f"/models/{KEY}/a.gguf"]}]}
    found = cached(CLAIMS, users(pods=(stored(POD, "a-0", spec=spec),)), {CLAIM: [Folder(KEY, 10)]})
    assert found.weights[0].used_by == ("Pod a-0",)
    assert unused(found, []) == []


def test_only_what_nothing_uses_can_be_removed_even_if_it_is_named() -> None:
    gone, left = cache_key("gone"), cache_key("left")
    found = cached(CLAIMS, users(MODEL), {CLAIM: [Folder(key, 1) for key in (KEY, gone, left)]})
    assert {one.key for one in unused(found, [])} == {gone, left}
    assert [one.key for one in unused(found, [gone, KEY])] == [gone]


def test_the_claim_of_a_modeldeployment_shows_what_is_verified_there() -> None:
    told = {"weights": {"key": "1", "source": "hf://org/mail", "claim": "mail-weights"}}
    (one,) = cached(OWN, users(MODEL, deployments=(stored(DEPLOYMENTS, "mail", spec=MAIL, status=told),)), {}).weights
    assert (one.claim, one.source, one.shown_size, one.used_by) == (
        "mail-weights", "hf://org/mail", "?", ("ModelDeployment mail",)
    )  # fmt: skip


def test_a_modeldeployment_needs_what_it_wants_and_what_it_still_serves() -> None:
    mail = stored(DEPLOYMENTS, "mail", spec=MAIL, status={"servedSource": "hf://org/old"})
    folders = [Folder(key, 1) for key in (WANTED, cache_key("hf://org/old"), cache_key("hf://org/oldest"))]
    found = cached(OWN, users(deployments=(mail,)), {Key("team", "mail-weights"): folders})
    assert [one.key for one in unused(found, [])] == [cache_key("hf://org/oldest")]


def test_a_modeldeployment_that_fetches_onto_a_shared_cache_keeps_its_folder_there() -> None:
    mail = stored(DEPLOYMENTS, "mail", spec={**MAIL, "storage": {"existingClaim": "cache"}})
    found = cached(CLAIMS, users(deployments=(mail,)), {CLAIM: [Folder(WANTED, 1)]})
    assert found.weights[0].used_by == ("ModelDeployment mail",)


def test_all_folders_of_a_modeldeployment_that_does_not_decode_stay() -> None:
    broken = stored(DEPLOYMENTS, "mail", spec={**MAIL, "modelSource": "ftp://example.com/a"})
    found = cached(OWN, users(deployments=(broken,)), {Key("team", "mail-weights"): [Folder(cache_key("x"), 1)]})
    assert unused(found, []) == []


def test_what_a_deleted_modeldeployment_has_left_on_a_claim_that_is_kept_can_be_removed() -> None:
    found = cached(OWN, users(MODEL), {Key("team", "mail-weights"): [Folder(WANTED, 1)]})
    assert [one.key for one in unused(found, [])] == [WANTED]
