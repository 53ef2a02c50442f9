"""MD5 (RFC 1321) of a line's name, for all lines of all baskets at once.

The shuffle null orders lines by md5("seed|round|basket|position"): any engine can compute it, so all shuffle alike.
It serves as a fixed way to mix, not as protection.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from neatrec.compiled import compiled

Keys = npt.NDArray[np.uint64]

# K[i] = floor(2^32 |sin(i + 1)|)
SINES = np.floor(np.abs(np.sin(np.arange(1, 65))) * 2.0**32).astype(np.uint32)
# the rotations of the four rounds, four to a round
ROTATIONS = np.array([7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21], dtype=np.uint32)
START = np.array([0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476], dtype=np.uint32)
MOST_DIGITS = 20


def line_keys(prefix: str, basket_ids: pa.LargeStringArray, offsets: npt.NDArray[np.int64]) -> tuple[Keys, Keys]:
    """md5(prefix + basket id + "|" + position) of each line, as two numbers: its first and its last eight bytes.

    Comparing the first, then the second, is comparing the digests as bytes or in hexadecimal. Positions count from 1.
    """
    ids = pa.concat_arrays([basket_ids])
    limits = np.frombuffer(ids.buffers()[1], np.int64)[ids.offset : ids.offset + len(ids) + 1]
    data = ids.buffers()[2]
    text = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    longest = int(np.diff(limits).max(initial=0))
    head = np.frombuffer(prefix.encode(), np.uint8)
    # room for the separator, the digits, and what MD5 adds: a byte, zeros up to a whole block, eight bytes of length
    buffer = np.zeros(len(head) + longest + 1 + MOST_DIGITS + 72, np.uint8)
    high, low = np.empty(int(offsets[-1]), np.uint64), np.empty(int(offsets[-1]), np.uint64)
    _line_keys(head, text, limits, offsets, buffer, high, low)
    return high, low


@compiled
def _line_keys(head, text, limits, offsets, message, high, low):
    """Fill high and low, shape (lines,); `message` is scratch, its first bytes are those of `head` throughout."""
    state, block = np.empty(4, np.uint32), np.empty(4, np.uint32)
    begin = len(head)
    _copy(head, 0, begin, message, 0)
    for b in range(len(offsets) - 1):
        end = begin + limits[b + 1] - limits[b]
        _copy(text, limits[b], end - begin, message, begin)
        message[end] = 124  # |
        # whole blocks before the digits are the same for all lines of the basket
        whole = (end + 1) // 64
        _copy(START, 0, 4, state, 0)
        for i in range(whole):
            _add_block(state, message, 64 * i)
        for line in range(offsets[b], offsets[b + 1]):
            length = _write_number(message, end + 1, line - offsets[b] + 1)
            _copy(state, 0, 4, block, 0)
            for i in range(whole, _pad(message, length)):
                _add_block(block, message, 64 * i)
            high[line] = (np.uint64(_swap(block[0])) << np.uint64(32)) | np.uint64(_swap(block[1]))
            low[line] = (np.uint64(_swap(block[2])) << np.uint64(32)) | np.uint64(_swap(block[3]))


@compiled
def _copy(source, start, count, target, at):
    """A loop: it compiles several times faster than an assignment of slices."""
    for i in range(count):
        target[at + i] = source[start + i]


@compiled
def _write_number(message, at, number):
    """Write `number` in decimal digits at `at`; give back where they end."""
    digits = 1
    rest = number // 10
    while rest > 0:
        digits += 1
        rest //= 10
    for i in range(digits - 1, -1, -1):
        message[at + i] = 48 + number % 10
        number //= 10
    return at + digits


@compiled
def _pad(message, length):
    """Append a one bit, zeros and the length in bits; give back the number of blocks."""
    blocks = (length + 8) // 64 + 1
    message[length] = 128
    for i in range(length + 1, 64 * blocks - 8):
        message[i] = 0
    bits = 8 * length
    for i in range(8):
        message[64 * blocks - 8 + i] = (bits >> (8 * i)) & 255
    return blocks


@compiled
def _add_block(state, message, at):
    """MD5's compression of the 64 bytes at `at` into the four words of `state`."""
    words = np.empty(16, np.uint32)
    for i in range(16):
        j = at + 4 * i
        words[i] = message[j] | message[j + 1] << 8 | message[j + 2] << 16 | message[j + 3] << 24
    a, b, c, d = state[0], state[1], state[2], state[3]
    for i in range(16):
        a, b, c, d = _step(a, b, c, d, (b & c) | (~b & d), words[i], i)
    for i in range(16, 32):
        a, b, c, d = _step(a, b, c, d, (d & b) | (~d & c), words[(5 * i + 1) & 15], i)
    for i in range(32, 48):
        a, b, c, d = _step(a, b, c, d, b ^ c ^ d, words[(3 * i + 5) & 15], i)
    for i in range(48, 64):
        a, b, c, d = _step(a, b, c, d, c ^ (b | ~d), words[(7 * i) & 15], i)
    state[0] += a
    state[1] += b
    state[2] += c
    state[3] += d


@compiled
def _step(a, b, c, d, mixed, word, i):
    """One of the 64 steps: the new (a, b, c, d)."""
    total = np.uint32(a + mixed + SINES[i] + word)
    turn = ROTATIONS[(i >> 4) * 4 + (i & 3)]
    turned = np.uint32((total << turn) | (total >> (np.uint32(32) - turn)))
    return d, np.uint32(b + turned), b, c


@compiled
def _swap(word):
    """The four bytes of a word in the other order."""
    w = np.uint32(word)
    return np.uint32((w << 24) | ((w & 0xFF00) << 8) | ((w >> 8) & 0xFF00) | (w >> 24))
