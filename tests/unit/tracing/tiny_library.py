"""A shared library of one function, written byte by byte: no compiler is needed, and it is the same everywhere."""

import platform
import struct
from pathlib import Path

PAGE = 0x10000  # the largest of any machine
CODE = {"x86_64": b"\x31\xc0\xc3", "aarch64": b"\x00\x00\x80\x52\xc0\x03\x5f\xd6"}
"""Returns 0."""

_MACHINE = {"x86_64": 62, "aarch64": 183}
_HEADER_BYTES, _SEGMENT_BYTES = 64, 56
# Neither address is its place in the file, as in real libraries.
_CODE_AT, _CODE_ADDRESS, _DYNAMIC_AT, _DYNAMIC_ADDRESS = PAGE, 2 * PAGE, 2 * PAGE, 4 * PAGE


def write_library(path: Path, function: str) -> Path:
    """Write a library that exports ``function`` and nothing else."""
    machine = platform.machine()
    code, names = CODE[machine], b"\0" + function.encode() + b"\0"
    symbols_at = _HEADER_BYTES + 5 * _SEGMENT_BYTES
    symbols = bytes(24) + struct.pack("<IBBHQQ", 1, 0x12, 0, 1, _CODE_ADDRESS, len(code))
    names_at = symbols_at + len(symbols)
    hash_at = -(-(names_at + len(names)) // 8) * 8
    table = struct.pack("<6I", 1, 2, 1, 0, 0, 0)
    sections_at = hash_at + len(table)
    sections = (
        bytes(64)
        + struct.pack("<IIQQQQIIQQ", 0, 11, 2, symbols_at, symbols_at, len(symbols), 2, 1, 8, 24)
        + struct.pack("<IIQQQQIIQQ", 0, 3, 2, names_at, names_at, len(names), 0, 0, 1, 0)
    )
    dynamic = struct.pack("<12Q", 4, hash_at, 5, names_at, 6, symbols_at, 10, len(names), 11, 24, 0, 0)
    segments = (
        _segment(1, 4, 0, 0, sections_at + len(sections))
        + _segment(1, 5, _CODE_AT, _CODE_ADDRESS, len(code))
        + _segment(1, 6, _DYNAMIC_AT, _DYNAMIC_ADDRESS, len(dynamic))
        + _segment(2, 6, _DYNAMIC_AT, _DYNAMIC_ADDRESS, len(dynamic))
    )
    segments += _segment(0x6474E551, 6, 0, 0, 0)  # the stack holds no code
    header = struct.pack(
        "<16sHHIQQQIHHHHHH",
        *(b"\x7fELF\x02\x01\x01", 3, _MACHINE[machine], 1, 0, _HEADER_BYTES, sections_at, 0),
        *(_HEADER_BYTES, _SEGMENT_BYTES, 5, 64, 3, 0),
    )
    data = bytearray(_DYNAMIC_AT + len(dynamic))
    parts = {
        0: header + segments,
        symbols_at: symbols,
        names_at: names,
        hash_at: table,
        sections_at: sections,
        _CODE_AT: code,
        _DYNAMIC_AT: dynamic,
    }
    for at, part in parts.items():
        data[at : at + len(part)] = part
    path.write_bytes(data)
    return path


def _segment(kind: int, flags: int, offset: int, address: int, length: int) -> bytes:
    return struct.pack("<IIQQQQQQ", kind, flags, offset, address, address, length, length, PAGE)
