"""The plain values of a pickle: dicts, lists, tuples, texts, numbers. Nothing of the file is run.

A pickle is a program for a small machine, and `pickle.load` lets that program import and call what it likes. This
reader knows the opcodes that put plain containers together, and refuses every other one by its name and place. What a
file can ask of it is bounded: each length by what is left of the file, the number of values by a limit; it does not
recurse, and takes only texts and whole numbers as keys (to hash tuples in tuples takes time and depth).
"""

from __future__ import annotations

import pickletools
from struct import unpack_from
from typing import Any

from weftrace.errors import UNUSABLE_INPUT, WeftraceError

#: Values that a file may hold: of a real snapshot some 30 per recorded event.
_MOST_VALUES = 100_000_000
#: Of these, dicts, lists and tuples, which take most memory.
_MOST_CONTAINERS = 20_000_000
_MOST_INT_BYTES = 9  # an unsigned number of 64 bits
_NEWEST = 5

_NAMES = {ord(code): op.name for code, op in pickletools.code2op.items()}  # type: ignore[attr-defined]
_CODES = {name: code for code, name in _NAMES.items()}
#: Opcode -> format of its length in bytes, and whether what follows is a text.
_SIZED: dict[int, tuple[str, bool]] = {
    _CODES[name]: (form, is_text)
    for name, form, is_text in (
        ("SHORT_BINUNICODE", "<B", True), ("BINUNICODE", "<I", True), ("BINUNICODE8", "<Q", True),
        ("SHORT_BINBYTES", "<B", False), ("BINBYTES", "<I", False), ("BINBYTES8", "<Q", False),
    )
}  # fmt: skip
#: Opcode -> format of the number that follows.
_NUMBERS = {
    _CODES[name]: form for name, form in (("BININT", "<i"), ("BININT1", "<B"), ("BININT2", "<H"), ("BINFLOAT", ">d"))
}
_CONSTANTS = {_CODES["NONE"]: None, _CODES["NEWTRUE"]: True, _CODES["NEWFALSE"]: False}
_TUPLES = {_CODES["TUPLE1"]: 1, _CODES["TUPLE2"]: 2, _CODES["TUPLE3"]: 3}
_GETS = {_CODES[name]: form for name, form in (("BINGET", "<B"), ("LONG_BINGET", "<I"))}
_PUTS = {_CODES[name]: form for name, form in (("BINPUT", "<B"), ("LONG_BINPUT", "<I"))}
_BYTES = {"<B": 1, "<H": 2, "<i": 4, "<I": 4, "<Q": 8, ">d": 8}
_LONG1, _LONG4, _PROTO, _FRAME, _MARK, _STOP, _MEMOIZE = (
    _CODES[name] for name in ("LONG1", "LONG4", "PROTO", "FRAME", "MARK", "STOP", "MEMOIZE")
)
_EMPTY_DICT, _EMPTY_LIST, _EMPTY_TUPLE, _TUPLE, _DICT, _LIST = (
    _CODES[name] for name in ("EMPTY_DICT", "EMPTY_LIST", "EMPTY_TUPLE", "TUPLE", "DICT", "LIST")
)
_SETITEM, _SETITEMS, _APPEND, _APPENDS = (_CODES[name] for name in ("SETITEM", "SETITEMS", "APPEND", "APPENDS"))


class PickleError(WeftraceError):
    """A pickle that is damaged, or asks for more than plain values. Its text begins with the file's name."""

    exit_code = UNUSABLE_INPUT


def is_pickle(head: bytes) -> bool:
    """Whether a file that begins so is a pickle of protocol 2 or newer."""
    return len(head) > 1 and head[0] == _PROTO and 2 <= head[1] <= _NEWEST


def plain_value(data: bytes, path: str) -> Any:
    """The value that a pickle holds. path: what errors name the file. Raises `PickleError`."""
    try:
        return _read(data, path)
    except (LookupError, ValueError) as error:  # a stack, a memo or the file ends early
        raise PickleError(f"{path}: is a damaged pickle: it ends early, or its values do not fit together.") from error


def _read(data: bytes, path: str) -> Any:
    if not is_pickle(data):
        raise PickleError(f"{path}: is no pickle of protocol 2 to {_NEWEST}, as torch writes them.")
    stack: list[Any] = []
    outer: list[list[Any]] = []  # stacks below each mark
    memo: dict[int, Any] = {}
    at, num_containers = 0, 0
    for _ in range(_MOST_VALUES):
        start, code = at, data[at]
        at += 1
        if code in _GETS:
            form = _GETS[code]
            stack.append(memo[_number(data, at, form, start, path)])
            at += _BYTES[form]
        elif code == _MEMOIZE:
            memo[len(memo)] = stack[-1]
        elif code in _SIZED:
            form, is_text = _SIZED[code]
            length = _number(data, at, form, start, path)
            at += _BYTES[form]
            raw = _taken(data, at, length, start, path)
            stack.append(raw.decode("utf-8", "surrogatepass") if is_text else raw)
            at += length
        elif code in _NUMBERS:
            form = _NUMBERS[code]
            stack.append(_number(data, at, form, start, path))
            at += _BYTES[form]
        elif code in (_SETITEMS, _SETITEM):
            items = stack if code == _SETITEMS else [stack.pop(-2), stack.pop()]
            stack = outer.pop() if code == _SETITEMS else stack
            _set_items(stack[-1], items, start, path)
        elif code in (_APPENDS, _APPEND):
            items = stack if code == _APPENDS else [stack.pop()]
            stack = outer.pop() if code == _APPENDS else stack
            if type(stack[-1]) is not list:
                raise _refused(code, start, path, "puts values into something that is no list")
            stack[-1].extend(items)
        elif code in _PUTS:
            form = _PUTS[code]
            memo[_number(data, at, form, start, path)] = stack[-1]
            at += _BYTES[form]
        elif code in _CONSTANTS:
            stack.append(_CONSTANTS[code])
        elif code in (_LONG1, _LONG4):
            form = "<B" if code == _LONG1 else "<I"
            length = _number(data, at, form, start, path)
            if length > _MOST_INT_BYTES:
                raise _refused(code, start, path, f"holds a whole number of {length:,} bytes")
            at += _BYTES[form]
            stack.append(int.from_bytes(_taken(data, at, length, start, path), "little", signed=True))
            at += length
        elif code == _STOP:
            if outer or len(stack) != 1:
                raise _refused(code, start, path, "ends with values that belong to nothing")
            return stack[0]
        elif code == _PROTO:
            at += 1
        elif code == _FRAME:
            _taken(data, at + 8, _number(data, at, "<Q", start, path), start, path, copy=False)
            at += 8
        else:  # a container or a mark
            num_containers += 1
            if num_containers > _MOST_CONTAINERS:
                break
            if code == _MARK:
                outer.append(stack)
                stack = []
            elif code == _EMPTY_DICT:
                stack.append({})
            elif code == _EMPTY_LIST:
                stack.append([])
            elif code == _EMPTY_TUPLE:
                stack.append(())
            elif code in _TUPLES:
                number = _TUPLES[code]
                if len(stack) < number:
                    raise IndexError
                stack[-number:] = [tuple(stack[-number:])]
            elif code in (_TUPLE, _LIST, _DICT):
                items, stack = stack, outer.pop()
                made: Any = {} if code == _DICT else tuple(items) if code == _TUPLE else items
                if code == _DICT:
                    _set_items(made, items, start, path)
                stack.append(made)
            else:
                raise _refused(code, start, path, "is not one that plain containers need, and might run code")
    raise PickleError(
        f"{path}: holds more than {_MOST_VALUES:,} values or {_MOST_CONTAINERS:,} containers. Record a shorter "
        "history: torch.cuda.memory._record_memory_history(max_entries=100_000)."
    )


def _set_items(target: Any, items: list[Any], start: int, path: str) -> None:
    if type(target) is not dict or len(items) % 2:
        raise _refused(_SETITEMS, start, path, "puts values into something that is no dict")
    keys = items[::2]
    for key in keys:
        if type(key) is not str and type(key) is not int:
            raise _refused(_SETITEMS, start, path, f"has a {type(key).__name__} as a key")
    target.update(zip(keys, items[1::2], strict=True))


def _number(data: bytes, at: int, form: str, start: int, path: str) -> Any:
    if at + _BYTES[form] > len(data):
        raise _cut(data, start, path)
    return unpack_from(form, data, at)[0]


def _taken(data: bytes, at: int, length: int, start: int, path: str, *, copy: bool = True) -> bytes:
    if length > len(data) - at:
        raise PickleError(
            f"{path}: {_NAMES[data[start]]} at byte {start:,} declares {length:,} bytes; {len(data) - at:,} are left."
        )
    return data[at : at + length] if copy else b""


def _cut(data: bytes, start: int, path: str) -> PickleError:
    return PickleError(f"{path}: ends within {_NAMES[data[start]]} at byte {start:,}.")


def _refused(code: int, start: int, path: str, why: str) -> PickleError:
    name = _NAMES.get(code, f"opcode {code:#04x}")
    return PickleError(f"{path}: {name} at byte {start:,} {why}. Nothing of the file was run.")
