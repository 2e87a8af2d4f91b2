"""What is true of all engines."""

from __future__ import annotations

from typing import Any, get_args, get_origin

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from modelyard.engines import ENGINES, honoured, peculiar
from modelyard.engines.contract import Engine, Gpus, Loads, Place

EVERY = [pytest.param(engine, id=name) for name, engine in ENGINES.items()]
_WORDS = st.text(st.characters(codec="utf-8"), max_size=12)
_GPUS = st.builds(
    Gpus,
    count=st.integers(0, 8),
    vendor=st.sampled_from(["nvidia", "amd", "intel", "other"]),
    layers=st.integers(-1, 99),
    strategy=st.sampled_from(["layer", "tensor", "row", "pipeline", "none"]),
    layer_split=st.lists(_WORDS | st.from_regex(r"\d{1,2}-\d{1,2}", fullmatch=True), max_size=8).map(tuple),
)
_PLACES = st.builds(
    Place,
    model=_WORDS,
    port=st.integers(1, 65535),
    revision=_WORDS,
    url=_WORDS,
    gpus=_GPUS,
    draft=_WORDS,
    default_image=st.booleans(),
)


def _values(field: msgspec.structs.FieldInfo) -> st.SearchStrategy[Any]:
    """Return values of a field, whether or not its bounds would let them through."""
    if field.name == "hf_token_secret_ref":
        return st.sampled_from([None, {"name": "hub", "key": "token"}])
    if get_origin(field.type) is tuple:
        return st.lists(_WORDS, max_size=3).map(tuple)
    struct = next((part for part in get_args(field.type) if isinstance(part, type) and issubclass(part, Struct)), None)
    return st.none() | _structs(struct) if struct else st.from_type(field.type)


def _structs(struct: type[Struct]) -> st.SearchStrategy[Any]:
    return st.builds(struct, **{field.name: _values(field) for field in msgspec.structs.fields(struct)})


@st.composite
def _starts(draw: st.DrawFn) -> tuple[Engine, Any, Place]:
    engine = draw(st.sampled_from(list(ENGINES.values())))
    return engine, draw(_structs(engine.options)), draw(_PLACES)


def _own_words(options: Any) -> tuple[str, ...]:
    return getattr(options, "extra_args", ()) or getattr(options, "args", ())


@given(_starts())
def test_no_argument_is_empty_unless_the_user_wrote_it_so(start: tuple[Engine, Any, Place]):
    engine, options, place = start
    args = engine.launch(options, place).args
    assert all(args[: len(args) - len(_own_words(options))])


@given(_starts())
def test_what_the_user_adds_comes_last_and_unchanged(start: tuple[Engine, Any, Place]):
    engine, options, place = start
    args = engine.launch(options, place).args
    assert args[len(args) - len(_own_words(options)) :] == _own_words(options)


@given(_starts())
def test_warnings_name_a_way_out(start: tuple[Engine, Any, Place]):
    engine, options, place = start
    assert all(warning.remedy for warning in engine.launch(options, place).warnings)


def test_the_engines_are_those_of_the_api():
    assert set(ENGINES) == {"llamacpp", "vllm", "tgi", "personaplex", "generic", "zerfoo"}


@pytest.mark.parametrize("engine", EVERY)
def test_an_engine_is_found_under_its_own_name(engine: Engine):
    assert ENGINES[engine.name] is engine


@pytest.mark.parametrize("engine", EVERY)
def test_an_engine_listens_where_users_other_than_root_may(engine: Engine):
    assert engine.port > 1024


@pytest.mark.parametrize("engine", EVERY)
def test_an_image_that_we_choose_comes_with_a_user_that_is_not_root(engine: Engine):
    assert not engine.image(Gpus()) or (engine.user or 0) > 0


@pytest.mark.parametrize("engine", EVERY)
def test_an_engine_starts_without_any_options(engine: Engine):
    launch = engine.launch(engine.options(), Place(model="/models/m", port=engine.port))
    assert launch.warnings == ()


@pytest.mark.parametrize("engine", EVERY)
def test_a_default_image_names_its_version_or_its_flavour(engine: Engine):
    assert not engine.image(Gpus(count=1)).endswith(":latest")


@pytest.mark.parametrize(
    ("name", "container", "port", "health", "metric", "loads"),
    [
        ("llamacpp", "llama-server", 8080, "/health", "llamacpp:requests_processing", Loads.FILE),
        ("vllm", "vllm", 8000, "/health", "vllm:num_requests_running", Loads.FOLDER),
        ("tgi", "tgi", 8080, "/health", "tgi:queue_size", Loads.ITSELF),
        ("personaplex", "personaplex", 8998, "", "", Loads.NOTHING),
        ("generic", "inference-server", 8080, "", "", Loads.NOTHING),
    ],
)
def test_an_engine_has_the_documented_traits(
    name: str, container: str, port: int, health: str, metric: str, loads: Loads
):
    engine = ENGINES[name]
    assert (engine.container, engine.port, engine.health, engine.metric, engine.loads) == (
        container, port, health, metric, loads,
    )  # fmt: skip


def test_only_vllm_cannot_live_with_the_variables_of_services():
    assert [engine.name for engine in ENGINES.values() if not engine.service_links] == ["vllm"]


def test_engines_with_a_process_for_each_gpu_need_shared_memory():
    assert [engine.name for engine in ENGINES.values() if engine.shared_memory] == ["vllm", "tgi"]


def test_an_unknown_vendor_gets_the_image_for_the_cpu():
    assert ENGINES["llamacpp"].image(Gpus(count=1, vendor="other")) == "ghcr.io/ggml-org/llama.cpp:server"


def test_what_an_engine_honours_are_the_fields_of_its_options():
    assert honoured(ENGINES["vllm"]) == {"vllm_config", "parallel_slots", "extra_args"}


def test_peculiar_fields_name_the_engines_that_honour_them():
    fields = peculiar()
    assert fields["parallel_slots"] == {"llamacpp", "vllm"}
    assert fields["extra_args"] == {"llamacpp", "vllm", "tgi"}
    assert fields["args"] == {"generic"}
    assert fields["context_size"] == {"llamacpp"}


def test_fields_that_every_engine_honours_are_not_peculiar(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("modelyard.engines.ENGINES", {"vllm": ENGINES["vllm"]})
    assert peculiar.__wrapped__() == {}
