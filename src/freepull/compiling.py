"""Compilation to machine code: how functions are compiled, where that is kept, and when what is kept is stale."""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import sys
import time
import types
from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

OFF = False
"""Whether nothing is compiled, because a command that does not simulate need not load the compiler, half a second of
work. To be set before anything else of freepull is imported, as `freepull plan --quick` does."""
OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False}
"""How everything is compiled."""

_LINE = re.compile(rf"-\d+(?=\.py{sys.version_info.major}{sys.version_info.minor})")
PATIENCE = 60.0
"""Seconds for which a process waits until another has compiled the same function."""


def jit(function: Function) -> Function:
    """Compile to machine code without the interpreter's lock, as one piece with its caller, cached on disk.

    Compiled functions must not make arrays: without Numba's counting of references (``_nrt``), which would take most
    of the time in small functions, they cannot.
    """
    return _compiled(function, forceinline=True)


def jit_apart(function: Function) -> Function:
    """Compile as `jit` does, but as a piece of its own: for what is called rarely from kernels."""
    return _compiled(function, forceinline=False)


def jit_alone(function: Function) -> Function:
    """Compile as `jit` does, but keep nothing on disk: for functions of which we cannot say when they are stale."""
    if OFF:
        return function
    import numba

    return cast(Function, numba.njit(forceinline=True, **OPTIONS)(function))


def address_of(compiled: Any, signature: Any) -> int:
    """Compile a function for some types, and return where its machine code lies; keep the function meanwhile."""
    result = compiled.get_compile_result(signature)
    return int(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))


class Asks(NamedTuple):
    """What a function of a user's own may ask for, by the names of its arguments, and how it is called in sentences."""

    names: dict[str, str]
    """With their types."""
    called: str

    def check(self, function: Callable[..., Any]) -> list[str]:
        """Return what it asks for, or raise a sentence."""
        from freepull.errors import InvalidInput

        asked = list(inspect.signature(getattr(function, "py_func", function)).parameters)
        for name in asked:
            if name not in self.names:
                allowed = ", ".join(self.names)
                raise InvalidInput(f"{self.called} must take arguments named among {allowed}, got {name!r}.")
        return asked


def adapted(function: Callable[..., Any], asks: Asks, fields: Sequence[str], compiled: bool = True) -> Any:
    """Return a function of all that may be asked for, which hands on what ``function`` asks for.

    The last argument is an array, of which ``function`` sees a named tuple, ``params``, with these
    fields.

    >>> import numpy as np
    >>> asks = Asks({"pulls": "f8", "t": "i8", "params": "f8[::1]"}, "index")
    >>> adapted(lambda t, params: t * params.slope, asks, ["slope"])(7.0, 2, np.array([0.5]))
    1.0
    """
    from freepull.errors import InvalidInput

    asked = asks.check(function)
    given = [name for name in asks.names if name != "params"]
    handed = ", ".join(f"Params({', '.join(f'numbers[{i}]' for i in range(len(fields)))})" if name == "params" else name
                       for name in asked)  # fmt: skip
    plain = getattr(function, "py_func", function)
    scope: dict[str, Any] = {
        "inner": jit_alone(plain) if compiled else plain,
        "Params": namedtuple("Params", list(fields)),
        "__name__": __name__,
    }
    exec(f"def outer({', '.join(given)}, numbers):\n    return inner({handed})\n", scope)
    if OFF or not compiled:
        return scope["outer"]
    outer: Any = jit_alone(scope["outer"])
    from numba.core.errors import NumbaError

    try:
        outer.compile(f"({', '.join(asks.names.values())})")
    except NumbaError as error:
        must = f"{asks.called} must be a function of numbers that Numba can compile"
        raise InvalidInput(f"{must}; it says: {' '.join(str(error).split())[:300]}.") from None
    return outer


def _compiled(function: Function, forceinline: bool) -> Function:
    if OFF:
        return function
    import numba

    options = {**OPTIONS, "forceinline": forceinline}
    try:
        compiled: Any = _reading(function, options) if _read_only() else numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no folder to keep it in
        compiled = _reading(function, options)
    kept = compiled._cache._cache_file
    for name in ("_index_name", "_index_path", "_data_name_pattern"):  # Numba's have the number of the first line
        setattr(kept, name, _LINE.sub("", getattr(kept, name)))
    kept.function = function
    kept.__class__ = _stamped(type(kept))
    compiled._cache._index_key = _key
    compiled.compile = _once(compiled)
    return cast(Function, compiled)


def _once(compiled: Any) -> Callable[[Any], Any]:
    """Return how a function is compiled: by one process at a time, so that the others find what it has kept.

    Numba by itself lets each of them compile the same, and numbers what two of them keep alike, so that one may load
    machine code that was made for the other's types. Locks are taken in the order of calls, which has no cycles.
    """
    from numba.core.compiler_lock import global_compiler_lock

    compile_or_load = compiled.compile

    def compile_alone(signature: Any) -> Any:
        with global_compiler_lock, _alone(f"{compiled._cache._cache_file._index_path}.lock"):
            return compile_or_load(signature)

    return compile_alone


@contextmanager
def _alone(path: str) -> Iterator[None]:
    """Hold a lock among processes; go on without it where there is no such thing, or after `PATIENCE`."""
    try:
        import fcntl

        os.makedirs(os.path.dirname(path), exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except (ImportError, OSError):
        yield
        return
    try:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                time.sleep(0.02)
            else:
                break
        yield
    finally:
        os.close(handle)


def _read_only() -> bool:
    """Say whether machine code was kept in a folder to which this process cannot add any, as in an image."""
    from numba.core import config

    folder: str = getattr(config, "CACHE_DIR", "")
    return bool(folder) and os.path.isdir(folder) and not os.access(folder, os.W_OK)


def _reading(function: Function, options: dict[str, Any]) -> Any:
    """Compile with what is kept, though nothing can be added: what is not there is compiled anew in every process.

    Numba by itself takes no notice of a folder that it cannot write to.
    """
    import numba
    from numba.core import caching

    locator: Any = caching._CacheLocator
    ensure, locator.ensure_cache_path = locator.ensure_cache_path, lambda _: None
    try:
        compiled: Any = numba.njit(cache=True, **options)(function)
    finally:
        locator.ensure_cache_path = ensure
    compiled._cache.save_overload = lambda *_: None
    return compiled


def _stamped(kind: type[Any]) -> type[Any]:
    """Return a kind of cache file whose stamp is the content of what the function is made of.

    Numba's own is the time and size of the function's file: stale after a change that does not matter, and blind to
    changes of what the function calls from other files.
    """

    class Stamped(kind):  # type: ignore[misc]
        @property
        def _source_stamp(self) -> str:
            return digest(self.function)

        @_source_stamp.setter
        def _source_stamp(self, stamp: Any) -> None:
            """Numba's own stamp is not used."""

        def _load_index(self) -> Any:
            try:
                return super()._load_index()
            except (ImportError, AttributeError):  # a class in a signature has moved since
                return {}

    return Stamped


def _key(signature: Any, codegen: Any) -> Any:
    """Return where a signature's code lies in a cache file; Numba's own key is another in every process for closures.

    What the function is made of need not be part of it: that is the file's stamp.
    """
    return signature, codegen.magic_tuple()


def digest(function: Callable[..., Any]) -> str:
    """Return a digest of a function's code and module, of the constants it reads, and of all functions that it calls.

    >>> digest(digest) == digest(digest)
    True
    """
    found: dict[int, Callable[..., Any]] = {}
    new = [function]
    hashed = hashlib.sha256(repr(OPTIONS).encode())
    while new:
        at = new.pop()
        if id(at) not in found:
            found[id(at)] = at
            hashed.update(f"{at.__module__}\0".encode())  # machine code that is kept names it
            for part in _content(at.__code__, at.__doc__):
                hashed.update(part.encode() + b"\0")
            for name, value in _globals(at):
                code = getattr(value, "py_func", value)
                if isinstance(code, types.FunctionType):
                    hashed.update(f"{name} calls {code.__qualname__}\0".encode())
                    new.append(code)
                else:
                    hashed.update(f"{name} is {_shown(value)}\0".encode())
    return hashed.hexdigest()


def _content(code: types.CodeType, doc: str | None) -> Iterator[str]:
    """Return what a code object does, without the numbers of its lines and without its docstring."""
    yield code.co_code.hex()
    yield repr((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _content(constant, None)
        elif constant != doc or doc is None:
            yield repr(constant)


def _globals(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Return what a function reads of the function around it, of its module and, where that is one of ours, of that."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents
    scopes = [function.__globals__]
    for name in function.__code__.co_names:
        for scope in list(scopes):
            if name in scope:
                value = scope[name]
                yield name, value
                if isinstance(value, types.ModuleType) and value.__name__.startswith(f"{__package__}."):
                    scopes.append(vars(value))


def _shown(value: Any) -> str:
    """Return a constant as text that is the same in every process."""
    if isinstance(value, types.ModuleType | type):
        return f"{value.__name__} {getattr(value, '_fields', '')}"
    return f"{type(value).__name__} {value!r}"
