"""Where in a shared library's file a function begins."""

import mmap
import struct
from collections.abc import Iterator
from pathlib import Path

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, least significant byte first
_DYNAMIC_SYMBOLS = 11
_LOADED = 1

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")


class NoSuchFunction(Exception):
    """The file is no library that can be read, or it exports no such function."""


def file_offset(library: Path, function: str) -> int:
    """Bytes from the beginning of the file to the first instruction of an exported function.

    Raises:
        NoSuchFunction: see there.
    """
    try:
        with library.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _find(data, function.encode())
    except (OSError, ValueError, struct.error) as error:
        raise NoSuchFunction(f"{library} cannot be read: {error}") from error
    except LookupError:
        raise NoSuchFunction(f"{library} exports no {function}") from None


def _find(data: mmap.mmap, function: bytes) -> int:
    if data[: len(_MAGIC)] != _MAGIC:
        raise ValueError("it is no ELF file of 64 bits")
    header = _HEADER.unpack_from(data)
    address = _address(data, _table(data, _SECTION, header[6], header[12]), function)
    for kind, _, offset, start, _, length, _, _ in _table(data, _SEGMENT, header[5], header[10]):
        if kind == _LOADED and start <= address < start + length:
            return int(address - start + offset)
    raise LookupError(function)


def _address(data: mmap.mmap, sections: list[tuple[int, ...]], function: bytes) -> int:
    for _, kind, _, _, offset, length, link, *_ in sections:
        if kind != _DYNAMIC_SYMBOLS:
            continue
        names = sections[link][4]
        for symbol in _symbols(data, offset, length):
            name, _, _, section, address, _ = symbol
            start = names + name
            if section and data[start : start + len(function) + 1] == function + b"\0":
                return address
    raise LookupError(function)


def _symbols(data: mmap.mmap, offset: int, length: int) -> Iterator[tuple[int, ...]]:
    return _SYMBOL.iter_unpack(data[offset : offset + length])


def _table(data: mmap.mmap, row: struct.Struct, offset: int, rows: int) -> list[tuple[int, ...]]:
    return [row.unpack_from(data, offset + index * row.size) for index in range(rows)]
