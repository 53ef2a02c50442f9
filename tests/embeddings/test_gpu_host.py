"""The GPU side before it reaches a GPU: what is missing is named, launches are planned."""

from __future__ import annotations

import logging
import re
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.kernel_cases import CASES, SETTINGS, make_draws, make_tables, make_visit
from neatrec.errors import MissingDependencyError, ParameterError, ResourceError
from neatrec.models.embeddings.kernels import gpu
from neatrec.models.embeddings.kernels.arguments import KernelInput
from neatrec.models.embeddings.kernels.dispatch import chosen_device
from neatrec.models.embeddings.kernels.gpu import LaunchConfig

ATTRIBUTES = (
    "MultiProcessorCount",
    "MaxSharedMemoryPerMultiprocessor",
    "MaxSharedMemoryPerBlockOptin",
)
H200 = dict(zip(ATTRIBUTES, (132, 233_472, 232_448), strict=True))
T4 = dict(zip(ATTRIBUTES, (40, 65_536, 65_536), strict=True))


def fake_cupy(free: int = 10**9, fault: Exception | None = None, card: Any = H200) -> Any:
    """As much of CuPy as runs before a kernel; `fault` is raised by the compiler."""

    def compile_source() -> None:
        if fault is not None:
            raise fault

    module = SimpleNamespace(compile=compile_source, get_function=lambda name: SimpleNamespace())
    cuda = SimpleNamespace(
        runtime=SimpleNamespace(getDeviceCount=lambda: 1, memGetInfo=lambda: (free, 2 * free)),
        Device=lambda: SimpleNamespace(attributes=card),
    )
    return SimpleNamespace(
        cuda=cuda,
        RawModule=lambda code, options: module,
        get_default_memory_pool=lambda: SimpleNamespace(free_bytes=lambda: 0),
        asarray=lambda array: array,
    )


@pytest.fixture(autouse=True)
def _forget_modules() -> Any:
    caches = (gpu.compiled_module, gpu.gpu_attributes)
    for function in caches:
        function.cache_clear()
    yield
    for function in caches:
        function.cache_clear()


def test_too_little_memory_is_refused_with_the_size_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    visit = make_visit([4, 2], 50)
    data = KernelInput(make_tables(CASES["neat"], 50, 10), visit, make_draws(visit), SETTINGS)
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(free=10**6))
    there = gpu.GpuDevice().put(data)
    np.testing.assert_array_equal(there.tables[0], data.tables[0])
    np.testing.assert_array_equal(there.draws.alias, data.draws.alias)
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(free=10**3))
    message = r"training needs \d\.\d KiB of GPU memory, 1000 B are free"
    with pytest.raises(ResourceError, match=message):
        gpu.GpuDevice().put(data)


@pytest.mark.parametrize(
    ("cupy", "changes", "message"),
    [
        ({}, {"adagrad": False}, "`optimizer` must be adagrad on device gpu, got 'sgd'"),
        ({}, {"window": 17}, "`window` must be at most 16 on device gpu, got 17"),
        ({}, {"negatives": 33}, "`negatives` must be at most 32 on device gpu, got 33"),
        ({}, {"reproducible": True}, "`reproducible` must be false on device gpu"),
        (
            {"card": T4},
            {"dim": 512, "window": 10},
            r"`window` must be smaller at dim 512 on device gpu \(.* of 65,536 bytes per warp\)",
        ),
        ({"fault": ImportError("libnvrtc.so.13")}, {}, r"CUDA's compiler \(NVRTC\), .*libnvrtc"),
    ],
)
def test_auto_falls_back_where_a_gpu_by_name_is_an_error(
    cupy: dict[str, Any],
    changes: dict[str, Any],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(**cupy))
    reproducible = changes.get("reproducible", False)
    numbers = {name: value for name, value in changes.items() if name != "reproducible"}
    asked = SETTINGS._replace(**numbers), reproducible
    with pytest.raises((ParameterError, MissingDependencyError), match=message):
        chosen_device("item2vec", "gpu", *asked)
    assert chosen_device("item2vec", "cpu", *asked) == "cpu"
    with caplog.at_level(logging.INFO, logger="neatrec"):
        assert chosen_device("item2vec", "auto", *asked) == "cpu"
        assert re.search(f"training on the CPU: .*{message}", caplog.text)
        if not reproducible:
            monkeypatch.setitem(sys.modules, "cupy", fake_cupy())
            assert chosen_device("item2vec", "auto", SETTINGS, reproducible=False) == "gpu"
            assert "training on the GPU" in caplog.text


@pytest.mark.parametrize("name", list(gpu.SOURCES))
@pytest.mark.parametrize("card", [H200, T4], ids=["H200", "T4"])
@given(st.integers(1, 512), st.integers(1, 16))
def test_a_launch_fits_into_shared_memory(
    name: str, card: dict[str, int], dim: int, window: int
) -> None:
    settings = SETTINGS._replace(dim=dim, window=window)
    if gpu.workspace_bytes(name, settings) > card["MaxSharedMemoryPerBlockOptin"]:
        with pytest.raises(ParameterError, match=f"`window` must be smaller at dim {dim}"):
            gpu.launch_config(name, settings, card)
        return
    config = gpu.launch_config(name, settings, card)
    memory = config.warps * config.workspace
    assert config.warps >= 1
    assert config.blocks >= 1
    assert memory <= card["MaxSharedMemoryPerBlockOptin"]
    room = card["MaxSharedMemoryPerMultiprocessor"]
    assert config.blocks == 1 or config.blocks * (memory + gpu.RESERVED) <= room
    assert config.workspace % 16 == 0


def test_python_and_cuda_agree_on_constants_and_the_argument() -> None:
    options = LaunchConfig(8, 2, 1024).options("neat_bpr", SETTINGS._replace(shared=False))
    wanted = {"DIM=10", "WINDOW=3", "NEGATIVES=5", "GROUPS=6", "RANKING=1", "WORKSPACE_BYTES=1024"}
    assert {f"-D{option}" for option in wanted} <= set(options)
    text = gpu.source_of("common")
    body = text[text.index("struct Call {") : text.index("struct Vector {")]
    names = re.findall(r"(\w+)(?:\[3\])?[;,]", re.sub(r"//.*", "", body))
    tables = ["table_0", "table_1", "table_2"]
    assert [*tables, *names[1:]] == list(gpu.CALL.names or ())
