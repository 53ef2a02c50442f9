"""The limits of a GPU for rows of a table that fits its second cache: gathers and scatter-adds per second."""

from __future__ import annotations

from typing import Any

import numpy as np

SOURCE = r"""
extern "C" __global__ void gather(const float4* table, const int* rows, int count, float* out) {
    const int lane = threadIdx.x & 31, warps = gridDim.x * blockDim.x >> 5;
    float sum = 0;
    for (int n = (blockIdx.x * blockDim.x + threadIdx.x) >> 5; n < count; n += warps)
        if (lane < 25) {
            const float4 v = __ldcg(table + (long long)rows[n] * 28 + lane);
            sum += v.x + v.y + v.z + v.w;
        }
    if (sum == 12345.678f) *out = sum;
}
extern "C" __global__ void scatter(float4* table, const int* rows, int count, float* out) {
    const int lane = threadIdx.x & 31, warps = gridDim.x * blockDim.x >> 5;
    for (int n = (blockIdx.x * blockDim.x + threadIdx.x) >> 5; n < count; n += warps)
        if (lane < 25)
            asm volatile("red.global.add.v4.f32 [%0], {%1, %1, %1, %1};" ::"l"(table + (long long)rows[n] * 28 + lane),
                         "f"(1e-6f) : "memory");
}
"""
ROWS = 2**26


def measure_roofs(cp: Any, weights: np.ndarray) -> dict[str, float]:
    """Billions of rows of 100 floats a second. `weights`: how often each item is bought."""
    module = cp.RawModule(code=SOURCE, options=("-std=c++17",))
    table, out = cp.zeros((len(weights), 112), dtype=np.float32), cp.zeros(1, dtype=np.float32)
    found = {}
    for name, function, power in (
        ("gather, by popularity", "gather", 1.0),
        ("scatter-add, uniform", "scatter", 0.0),
        ("scatter-add, by popularity", "scatter", 1.0),
        ("scatter-add, by popularity^.75", "scatter", 0.75),
    ):
        shares = np.cumsum(weights.astype(np.float64) ** power)
        drawn = cp.searchsorted(cp.asarray(shares / shares[-1]), cp.random.random(ROWS)).astype(np.int32)
        found[name] = ROWS / _seconds(cp, module.get_function(function), (table, drawn, np.int32(ROWS), out)) / 1e9
    return found


def _seconds(cp: Any, function: Any, arguments: tuple[Any, ...]) -> float:
    times = []
    for _ in range(5):
        start, end = cp.cuda.Event(), cp.cuda.Event()
        start.record()
        function((132 * 8,), (256,), arguments)
        end.record()
        end.synchronize()
        times.append(cp.cuda.get_elapsed_time(start, end) / 1e3)
    return float(np.median(times))
