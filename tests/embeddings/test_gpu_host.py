"""The GPU side before it reaches a GPU: what is missing is said, launches are planned, settings are refused."""

from __future__ import annotations

import logging
import re
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.kernel_cases import SETTINGS
from neatrec.errors import MissingDependencyError, NeatrecError, ParameterError, ResourceError
from neatrec.models import Run, make_model
from neatrec.models.embeddings.kernels import gpu, gpu_call, gpu_launch
from neatrec.models.embeddings.kernels.dispatch import chosen_device, kernel
from neatrec.models.embeddings.kernels.gpu_call import CALL, POINTERS, REAL, WHOLE
from neatrec.models.embeddings.kernels.gpu_launch import (
    SOURCES,
    GpuProperties,
    LaunchConfig,
    launch_config,
    launches,
    max_warps,
    workspace_bytes,
)

H200 = GpuProperties(132, 233_472, 232_448)
T4 = GpuProperties(40, 65_536, 65_536)


class CompileError(RuntimeError):
    """Stands for CuPy's CompileException."""


class FullError(MemoryError):
    """Stands for CuPy's OutOfMemoryError."""


class FakeModule:
    """Stands for a compiled module; `fault` is what compiling it raises."""

    def __init__(self, fault: Exception | None) -> None:
        self.fault = fault

    def compile(self) -> None:
        if self.fault is not None:
            raise self.fault

    def get_function(self, name: str) -> Any:
        return SimpleNamespace()


def fake_cupy(
    count: Any = 1, free: int = 10**9, fault: Exception | None = None, card: GpuProperties = H200
) -> Any:
    """As much of CuPy as is asked before a kernel runs; `count` may be an exception that asking raises."""

    def device_count() -> int:
        if isinstance(count, Exception):
            raise count
        return int(count)

    runtime = SimpleNamespace(getDeviceCount=device_count, memGetInfo=lambda: (free, 2 * free))
    compiler = SimpleNamespace(CompileException=CompileError)
    names = (
        "MultiProcessorCount",
        "MaxSharedMemoryPerMultiprocessor",
        "MaxSharedMemoryPerBlockOptin",
    )
    device = SimpleNamespace(attributes=dict(zip(names, card, strict=True)))
    return SimpleNamespace(
        cuda=SimpleNamespace(
            runtime=runtime,
            compiler=compiler,
            memory=SimpleNamespace(OutOfMemoryError=FullError),
            Device=lambda: device,
        ),
        RawModule=lambda code, options: FakeModule(fault),
        get_default_memory_pool=lambda: SimpleNamespace(free_bytes=lambda: 0),
    )


@pytest.fixture(autouse=True)
def _forget_modules() -> Any:
    kept = (gpu.compiled_module, gpu_call.gpu_properties, gpu_call._function)
    for function in kept:
        function.cache_clear()
    yield
    for function in kept:
        function.cache_clear()


@pytest.fixture
def no_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", None)


# ---- what is missing


@pytest.mark.parametrize(
    ("cupy", "message"),
    [
        (None, r"needs CuPy.*Install neatrec\[gpu\]"),
        (
            fake_cupy(RuntimeError("cudaErrorInsufficientDriver")),
            r"needs a GPU and its driver \(.*\)\. Install or update",
        ),
        (
            fake_cupy(OSError("libcuda.so.1")),
            r"needs a GPU and its driver \(.*\)\. Install or update the NVIDIA driver",
        ),
        (fake_cupy(0), "needs a GPU, and there is none"),
    ],
)
def test_what_a_gpu_lacks_is_said(cupy: Any, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    with pytest.raises(MissingDependencyError, match=message):
        kernel("neat", "gpu")


def test_a_missing_compiler_and_a_source_that_does_not_compile_are_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(fault=ImportError("libnvrtc.so.13")))
    with pytest.raises(MissingDependencyError, match=r"needs CUDA's compiler \(NVRTC\).*libnvrtc"):
        gpu.compiled_module(("visits",), ())
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(fault=CompileError("expected a ;")))
    with pytest.raises(NeatrecError, match="the GPU kernels visits do not compile: expected a ;"):
        gpu.compiled_module(("visits",), ())


def test_too_little_memory_says_the_size_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(free=10**9))
    with gpu.memory_for(10**9, "training"):
        pass
    with (
        pytest.raises(
            ResourceError, match=r"training needs 2\.0 GB of GPU memory, 1\.0 GB are free"
        ),
        gpu.memory_for(2 * 10**9, "training"),
    ):
        pytest.fail("it began")


# ---- which device


@pytest.mark.usefixtures("no_cupy")
def test_auto_without_a_gpu_takes_the_cpu_and_says_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG, logger="neatrec"):
        assert chosen_device("neat", "auto", SETTINGS, reproducible=False) == "cpu"
    assert caplog.text == ""


def test_auto_takes_a_gpu_that_answers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy())
    with caplog.at_level(logging.INFO, logger="neatrec"):
        assert chosen_device("neat", "auto", SETTINGS, reproducible=False) == "gpu"
    assert "training on the GPU" in caplog.text


def test_where_a_model_would_learn_is_found_without_a_word(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    neat, odds, counts = (make_model(name) for name in ("neat", "odds", "lift"))
    runs = [Run(device=device) for device in ("cpu", "auto", "gpu")]
    reproducible = Run(device="auto", reproducible=True)
    with caplog.at_level(logging.INFO, logger="neatrec"):
        monkeypatch.setitem(sys.modules, "cupy", fake_cupy())
        assert [neat.fit_device(run) for run in (*runs, reproducible)] == [
            "cpu",
            "gpu",
            "gpu",
            "cpu",
        ]
        assert [odds.fit_device(run) for run in runs] == ["cpu", "cpu", "cpu"]
        assert [counts.fit_device(run) for run in runs] == ["cpu", "cpu", "cpu"]
        monkeypatch.setitem(sys.modules, "cupy", None)
        assert [neat.fit_device(run) for run in runs] == ["cpu", "cpu", "gpu"]
    assert not caplog.messages


REFUSED: list[tuple[str, dict[str, Any], bool, str]] = [
    ("neat", {}, True, "`reproducible` must be false on device gpu"),
    ("neat", {"adagrad": False}, False, "`optimizer` must be adagrad on device gpu"),
    ("item2vec", {"window": 17}, False, "`window` must be at most 16 on device gpu, got 17"),
    (
        "triple2vec",
        {"negatives": 33},
        False,
        "`negatives` must be at most 32 on device gpu, got 33",
    ),
]


@pytest.mark.parametrize(("name", "changes", "reproducible", "message"), REFUSED)
def test_what_a_gpu_cannot_do_is_refused_by_name_and_left_to_the_cpu_by_auto(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    changes: dict[str, Any],
    reproducible: bool,
    message: str,
) -> None:
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy())
    settings = SETTINGS._replace(**changes)
    with pytest.raises(ParameterError, match=message):
        chosen_device(name, "gpu", settings, reproducible)
    assert chosen_device(name, "auto", settings, reproducible) == "cpu"
    assert chosen_device(name, "cpu", settings, reproducible) == "cpu"


FALLS_BACK: dict[str, tuple[Any, dict[str, Any], type[Exception], str]] = {
    "a small card": (
        {"card": T4},
        {"dim": 512, "window": 10},
        ParameterError,
        r"`window` must be smaller at dim 512 on device gpu \(.* of 65,536 bytes per warp\), got 10",
    ),
    "no compiler": (
        {"fault": ImportError("libnvrtc.so.13")},
        {},
        MissingDependencyError,
        r"needs CUDA's compiler \(NVRTC\), which does not answer \(libnvrtc",
    ),
}


@pytest.mark.parametrize("case", FALLS_BACK)
def test_auto_falls_back_where_a_gpu_by_name_is_an_error(
    case: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cupy, changes, error, message = FALLS_BACK[case]
    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(**cupy))
    settings = SETTINGS._replace(**changes)
    with pytest.raises(error, match=message):
        chosen_device("item2vec", "gpu", settings, reproducible=False)
    with caplog.at_level(logging.INFO, logger="neatrec"):
        assert chosen_device("item2vec", "auto", settings, reproducible=False) == "cpu"
    assert re.search(f"training on the CPU: .*{message}", caplog.text)


def test_unknown_kernels_and_devices_are_refused() -> None:
    with pytest.raises(ParameterError, match="`kernel` must be one of"):
        kernel("neet")
    with pytest.raises(
        ParameterError, match="`device` must be one of cpu, gpu, reference, got 'tpu'"
    ):
        kernel("neat", "tpu")


# ---- launches


@given(st.integers(0, 10**6), st.integers(0, 10**7), st.integers(0, 10**7), st.integers(1, 10**4))
def test_launches_cover_the_span_once_with_warps_that_grow(
    first: int, size: int, done: int, most: int
) -> None:
    parts = list(launches(first, first + size, done, most))
    ends = [first, *(end for _, end, _ in parts)]
    assert [start for start, _, _ in parts] == ends[:-1]
    assert ends[-1] == first + size
    warps = [count for _, _, count in parts]
    assert warps == sorted(warps)
    assert all(1 <= count <= most for count in warps)
    assert len(parts) <= 25


@pytest.mark.parametrize(
    ("items", "warps"),
    [(1, 1), (22, 1), (32, 2), (1_000, 62), (49_688, 132 * 3 * 6), (10**7, 132 * 3 * 6)],
)
def test_a_small_shop_has_few_warps_at_once(items: int, warps: int) -> None:
    assert max_warps(H200, LaunchConfig(6, 3, 1024), items) == warps


def test_a_fit_that_is_under_way_is_one_launch() -> None:
    assert list(launches(0, 10**6, 10**6, 2376)) == [(0, 10**6, 2376)]


@pytest.mark.parametrize("name", list(SOURCES))
@pytest.mark.parametrize("card", [H200, T4], ids=["H200", "T4"])
@given(st.integers(1, 512), st.integers(1, 16))
def test_a_shape_fits_into_shared_memory_and_registers(
    name: str, card: GpuProperties, dim: int, window: int
) -> None:
    settings = SETTINGS._replace(dim=dim, window=window)
    if workspace_bytes(name, settings) > card.shared_memory_of_block:
        with pytest.raises(
            ParameterError, match=f"`window` must be smaller at dim {dim} on device gpu"
        ):
            launch_config(name, settings, card)
        return
    shape = launch_config(name, settings, card)
    assert shape.warps >= 1
    assert shape.blocks >= 1
    assert shape.shared_memory <= card.shared_memory_of_block
    assert (
        shape.blocks == 1
        or shape.blocks * (shape.shared_memory + gpu_launch.RESERVED) <= card.shared_memory
    )
    assert shape.workspace % 16 == 0


def test_constants_of_the_compiled_code() -> None:
    options = LaunchConfig(8, 2, 1024).options("neat_bpr", SETTINGS._replace(shared=False))
    assert {
        "-DDIM=10",
        "-DWINDOW=3",
        "-DNEGATIVES=5",
        "-DGROUPS=6",
        "-DRANKING=1",
        "-DWORKSPACE_BYTES=1024",
    } <= set(options)


def test_the_argument_is_laid_out_as_the_cuda_struct() -> None:
    text = gpu.source_of("common")
    body = text[text.index("struct Call {") : text.index("struct Vector {")]
    assert CALL.itemsize == 8 * (len(POINTERS) + len(WHOLE)) + 4 * len(REAL)
    assert CALL.itemsize % 8 == 0
    places = [
        body.index(f"{name};") if f"{name};" in body else body.index(f"{name},")
        for name in (*WHOLE, *REAL)
    ]
    assert places == sorted(places)
