"""Where the API key of a server is found, and what a user is told who may not read it."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from modelyard.cluster.answer import NotAnswering
from modelyard.cluster.api_key import NamedKey, key_command, key_of, named_key
from modelyard.cluster.ask import Question, ask
from modelyard.cluster.conversation import Ways
from modelyard.cluster.failures import NoRights
from modelyard.cluster.session import Session
from tests.kube.scripted import answer, client_of, serving, status, text
from tests.page.objects import stored

Json = dict[str, Any]

SECRET = {"name": "keys", "key": "chat"}


def variable(name: str, **source: Any) -> Json:
    return {"name": name, "valueFrom": {"secretKeyRef": {**SECRET, **source}}}


LLAMA = stored("InferenceService", "chat", {"env": [variable("LLAMA_API_KEY")]})


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("InferenceService", {"env": [variable("LLAMA_API_KEY")]}),
        ("InferenceService", {"runtime": "vllm", "env": [variable("VLLM_API_KEY")]}),
        ("InferenceService", {"runtime": "tgi", "env": [variable("API_KEY")]}),
        ("InferenceService", {"extraArgs": ["--api-key", "$(KEY)"], "env": [variable("KEY")]}),
        ("InferenceService", {"runtime": "generic", "args": ["--api-key=$(KEY)"], "env": [variable("KEY")]}),
        ("ModelDeployment", {"env": [variable("VLLM_API_KEY")]}),
        ("ModelDeployment", {"engine": "llamacpp", "args": ["--api-key", "$(K)"], "env": [variable("K")]}),
        # The last of one name counts, as in a container.
        ("ModelDeployment", {"env": [{"name": "VLLM_API_KEY", "value": "old"}, variable("VLLM_API_KEY")]}),
    ],
)
def test_the_entry_of_a_secret_is_found_as_the_engine_finds_it(kind: str, spec: Json) -> None:
    found = named_key(stored(kind, "chat", spec))
    assert found is not None
    assert (found.secret, found.entry, found.value) == ("keys", "chat", "")


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("InferenceService", {}),
        ("InferenceService", {"env": [variable("VLLM_API_KEY")]}),
        ("InferenceService", {"runtime": "generic", "env": [variable("API_KEY")]}),
        ("InferenceService", {"extraArgs": ["--api-key", "$(ABSENT)"]}),
        ("InferenceService", {"env": [{"name": "LLAMA_API_KEY", "valueFrom": {"configMapKeyRef": SECRET}}]}),
        ("Gateway", {"env": [variable("LLAMA_API_KEY")]}),
    ],
)
def test_an_object_that_names_no_key_has_none(kind: str, spec: Json) -> None:
    item = stored(kind, "chat", spec)
    assert (named_key(item), key_command(item)) == (None, "")


async def test_a_key_in_the_spec_itself_needs_no_secret() -> None:
    item = stored("InferenceService", "chat", {"extraArgs": ["--api-key", "first,second"]})
    async with serving(status(500, "", "")) as api, client_of(api) as client:
        assert await key_of(client, item) == "first"
    assert api.asked == []
    assert "first" not in f"{named_key(item)!r} {key_command(item)}"


async def test_a_secret_is_read_with_the_rights_of_the_user() -> None:
    data = {"chat": base64.b64encode(b"sesame\n").decode()}
    async with serving(answer({"metadata": {"name": "keys"}, "data": data})) as api, client_of(api) as client:
        assert await key_of(client, LLAMA) == "sesame"
    assert [asked.path for asked in api.asked] == ["/api/v1/namespaces/default/secrets/keys"]


async def test_a_user_who_may_not_read_the_secret_is_told_the_right() -> None:
    refused = status(403, "Forbidden", 'User "ann" cannot get resource "secrets"')
    async with serving(refused) as api, client_of(api) as client:
        with pytest.raises(NoRights, match="which you may not read; ask for the right to get Secrets of the namespace"):
            await key_of(client, LLAMA)


@pytest.mark.parametrize(
    ("reply", "lacks"),
    [
        (answer({"metadata": {"name": "keys"}, "data": {"other": "YQ=="}}), "which has no entry chat; add it"),
        (status(404, "NotFound", 'secrets "keys" not found'), "which does not exist; create it"),
    ],
)
async def test_a_secret_without_the_key_is_named_unless_it_is_optional(reply: Any, lacks: str) -> None:
    optional = stored("InferenceService", "chat", {"env": [variable("LLAMA_API_KEY", optional=True)]})
    async with serving(reply, reply) as api, client_of(api) as client:
        with pytest.raises(NotAnswering, match=f"its API key is in the Secret keys, {lacks}"):
            await key_of(client, LLAMA)
        assert await key_of(client, optional) == ""


def test_the_command_reads_the_secret_and_shows_no_key() -> None:
    assert key_command(LLAMA) == (
        """API_KEY=$(kubectl -n default get secret keys -o go-template='{{index .data "chat" | base64decode}}')"""
    )
    assert key_command(LLAMA, " --context=prod").endswith("' --context=prod)")
    assert named_key(LLAMA) == NamedKey("keys", "chat")


async def test_a_question_shows_the_key_that_the_object_names() -> None:
    endpoint = "http://chat.default.svc.cluster.local:8080/v1/chat/completions"
    item = stored("InferenceService", "chat", {**LLAMA.spec, "modelRef": "tiny"}, {"endpoint": endpoint})
    secret = {"metadata": {"name": "keys"}, "data": {"chat": base64.b64encode(b"sesame").decode()}}
    said = b'data: {"choices": [{"delta": {"content": "open"}}]}\n\n'
    async with (
        serving(answer(item.to_dict()), answer(secret)) as api,
        serving(text(said)) as model,
        client_of(api) as client,
    ):
        session, ways = Session(client, "default", client.transport), Ways(lambda *_: model.url.removeprefix("http://"))
        found = await ask(session, "isvc/chat", Question("Hello!"), ways, lambda _: None)
    assert found.answer == "open"
    assert [asked.headers["Authorization"] for asked in model.asked] == ["Bearer sesame"]
