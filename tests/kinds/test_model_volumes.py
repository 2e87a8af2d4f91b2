"""How weights get into a pod, for every kind of source and every way in which engines load."""

from __future__ import annotations

from typing import Any

import pytest

from modelyard.core.policy import AccessMode, CacheMode, Policy
from modelyard.core.reasons import Reason
from modelyard.core.resources import VOLUME_CLAIM
from modelyard.core.source import cache_key
from modelyard.engines.contract import Loads
from modelyard.kinds.model.api import Format, ModelSpec, SourceSecret
from modelyard.kinds.model.sizes import size_text
from modelyard.kinds.shared.fetch_container import cache
from modelyard.kinds.shared.model_volumes import ModelToServe, Storage, engine_mismatch, merge_storage, storage

Json = dict[str, Any]

WEB = "https://example.com/tiny.gguf"
FILE = "hf://org/repo@v1/tiny.gguf"
PART = "hf://org/repo/big-00001-of-00002.gguf"
LOCAL = "file:///data/my%20models/tiny:1.gguf"
USUAL = Policy()
NO_CACHE = Policy(cache_path="")
PER_SERVICE = Policy(cache_mode=CacheMode.PER_SERVICE, cache_access=AccessMode.MANY_NODES)


def stored(source: str, loads: Loads = Loads.FILE, policy: Policy = USUAL, **how: Any) -> Storage:
    spec = ModelSpec(source=source, format=how.pop("format", Format.GGUF))
    return storage(ModelToServe("team", "tiny", spec), loads, policy, cache(policy, "chat"), **how)


def folder(source: str) -> str:
    return f"/models/{cache_key(source)}"


@pytest.mark.parametrize(
    ("source", "loads", "policy", "path"),
    [
        (WEB, Loads.FILE, Policy(), f"{folder(WEB)}/tiny.gguf"),
        (WEB, Loads.FOLDER, Policy(), f"{folder(WEB)}/tiny.gguf"),
        (FILE, Loads.FOLDER, Policy(), f"{folder(FILE)}/tiny.gguf"),
        ("org/repo", Loads.FILE, Policy(), f"{folder('org/repo')}/tiny.gguf"),
        ("org/repo", Loads.FOLDER, Policy(), folder("org/repo")),
        ("s3://bucket/all/", Loads.FOLDER, Policy(), folder("s3://bucket/all/")),
        (PART, Loads.FILE, Policy(), f"{folder(PART)}/big-00001-of-00002.gguf"),
        (WEB, Loads.FILE, Policy(cache_path="/cache"), f"/cache/{cache_key(WEB)}/tiny.gguf"),
        (WEB, Loads.FILE, NO_CACHE, "/models/team-tiny.gguf"),
        ("org/repo", Loads.FOLDER, NO_CACHE, "/models/team-tiny"),
        (PART, Loads.FILE, NO_CACHE, "/models/big-00001-of-00002.gguf"),
        ("pvc://disk/a/tiny.gguf", Loads.FILE, Policy(), "/model-source/a/tiny.gguf"),
        ("pvc://disk/a", Loads.ITSELF, Policy(), "/model-source/a"),
        ("pvc://disk/a", Loads.NOTHING, Policy(), "/model-source/a"),
        ("org/repo", Loads.ITSELF, Policy(), "org/repo"),
        ("org/repo", Loads.NOTHING, Policy(), ""),
        (LOCAL, Loads.FILE, Policy(), f"{folder(LOCAL)}/tiny.gguf"),
    ],
)
def test_the_engine_is_told_where_the_weights_are(source: str, loads: Loads, policy: Policy, path: str) -> None:
    assert stored(source, loads, policy).model == path


def test_weights_of_a_folder_format_are_served_by_their_folder() -> None:
    found = stored("https://example.com/a.safetensors", Loads.FOLDER, format=Format.SAFETENSORS)
    assert found.model == folder("https://example.com/a.safetensors")
    assert "--link" not in found.init[0]["args"]


@pytest.mark.parametrize("loads", [Loads.ITSELF, Loads.NOTHING])
def test_engines_that_load_by_themselves_get_no_downloader(loads: Loads) -> None:
    found = stored("org/repo@v2", loads)
    assert (found.init, found.volumes, found.claims) == ((), (), ())


def test_an_engine_that_downloads_by_itself_is_told_what() -> None:
    assert stored("org/repo@v2", Loads.FOLDER, skip_init=True) == Storage("org/repo", "v2")
    assert stored("org/repo", Loads.FOLDER, skip_init=True) == Storage("org/repo")
    url = "https://huggingface.co/org/repo/resolve/v1/tiny.gguf"
    assert stored(FILE, skip_init=True) == Storage("org/repo", "v1", url)
    assert stored(WEB, skip_init=True) == Storage(url=WEB)


def test_a_claim_is_mounted_read_only_even_without_a_downloader() -> None:
    found = stored("pvc://disk/tiny.gguf", skip_init=True)
    assert found.volumes == (
        {"name": "model-source", "persistentVolumeClaim": {"claimName": "disk", "readOnly": True}},
    )
    assert found.mounts == ({"name": "model-source", "mountPath": "/model-source", "readOnly": True},)
    assert found.init == ()


def test_the_engine_may_only_read_the_cache_and_the_downloader_may_write_it() -> None:
    found = stored(WEB)
    assert found.mounts == ({"name": "model-cache", "mountPath": "/models", "readOnly": True},)
    assert {"name": "model-cache", "mountPath": "/models"} in found.init[0]["volumeMounts"]


def test_the_shared_claim_belongs_to_nobody() -> None:
    (claim,) = stored(WEB).claims
    assert (claim.resource, claim.name, claim.shared) == (VOLUME_CLAIM, "llmkube-model-cache", True)


def test_a_claim_of_its_own_belongs_to_the_service_and_to_one_node() -> None:
    (claim,) = stored(WEB, policy=PER_SERVICE).claims
    assert (claim.name, claim.shared) == ("chat-model-cache", False)
    assert claim.body["spec"]["accessModes"] == ["ReadWriteOnce"]


def test_without_a_cache_there_is_no_claim() -> None:
    found = stored(WEB, policy=NO_CACHE)
    assert found.claims == ()
    assert {"name": "model-storage", "emptyDir": {}} in found.volumes


def test_a_file_of_the_node_is_seen_by_the_downloader_only() -> None:
    found = stored(LOCAL)
    assert {"name": "host-model", "hostPath": {"path": "/data/my models/tiny:1.gguf", "type": "File"}} in found.volumes
    (init,) = found.init
    assert init["args"][:4] == ["fetch", "/host-model/tiny-1.gguf", "--allow-root", "/host-model/tiny-1.gguf"]
    assert {"name": "host-model", "mountPath": "/host-model/tiny-1.gguf", "readOnly": True} in init["volumeMounts"]
    assert "host-model" not in {mount["name"] for mount in found.mounts}


def test_the_token_of_an_engine_reaches_the_downloader() -> None:
    token = {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hub", "key": "token"}}}
    (init,) = stored("org/repo", env=(token,), user=4711).init
    assert token in init["env"]
    assert init["securityContext"]["runAsUser"] == 4711


def test_a_secret_is_given_only_to_a_downloader_that_uses_the_network() -> None:
    for source, expected in ((WEB, [{"secretRef": {"name": "s"}}]), (LOCAL, None)):
        spec = ModelSpec(source=source, source_secret_ref=SourceSecret("s"))
        found = storage(ModelToServe("team", "tiny", spec), Loads.FILE, USUAL, cache(USUAL, "chat"))
        assert found.init[0].get("envFrom") == expected


@pytest.mark.parametrize("policy", [Policy(), NO_CACHE])
def test_two_models_of_one_pod_do_not_meet(policy: Policy) -> None:
    both = merge_storage(stored(WEB, policy=policy), stored("org/draft", policy=policy, prefix="draft"))
    assert both.model == stored(WEB, policy=policy).model
    assert [init["name"] for init in both.init] == ["model-downloader", "draft-model-downloader"]
    targets = [init["args"][init["args"].index("--to") + 1] for init in both.init]
    assert len(set(targets)) == 2
    names = [volume["name"] for volume in both.volumes]
    assert len(names) == len(set(names))
    assert len(both.mounts) == 1
    assert len(both.claims) == len(stored(WEB, policy=policy).claims)


def test_two_claims_of_one_pod_are_mounted_apart() -> None:
    both = merge_storage(stored("pvc://disk/a.gguf"), stored("pvc://other/b.gguf", prefix="draft"))
    assert [mount["mountPath"] for mount in both.mounts] == ["/model-source", "/draft/model-source"]
    assert [volume["name"] for volume in both.volumes] == ["model-source", "draft-model-source"]


@pytest.mark.parametrize(
    ("source", "loads", "skip", "fits"),
    [
        (WEB, Loads.FILE, False, True),
        (WEB, Loads.FILE, True, True),
        (WEB, Loads.FOLDER, True, False),
        (WEB, Loads.ITSELF, False, False),
        (WEB, Loads.NOTHING, True, True),
        ("s3://bucket/key", Loads.FILE, True, False),
        ("s3://bucket/key", Loads.FILE, False, True),
        (LOCAL, Loads.FILE, True, False),
        ("org/repo", Loads.ITSELF, False, True),
        ("org/repo", Loads.FILE, True, True),
        ("pvc://disk/a", Loads.ITSELF, True, True),
        ("no source at all", Loads.FILE, True, True),
    ],
)
def test_an_engine_that_cannot_get_a_model_says_so(source: str, loads: Loads, skip: bool, fits: bool) -> None:
    problem = engine_mismatch(ModelSpec(source=source), loads, skip_init=skip)
    assert (problem is None) == fits
    assert problem is None or (problem.reason is Reason.SOURCE_UNFIT and problem.remedy)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (5 * 2**30, "5.0 GiB"),
        (2**40, "1.0 TiB"),
        (2**63, "8192.0 PiB"),
    ],
)
def test_sizes_are_written_for_people(size: int, text: str) -> None:
    assert size_text(size) == text
