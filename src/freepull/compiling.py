"""Compilation to machine code: how functions are compiled, where that is kept, and when what is kept is stale."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import re
import sys
import threading
import time
import types
from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache, update_wrapper
from typing import Any, NamedTuple, TypeVar, cast

Function = TypeVar("Function", bound=Callable[..., Any])

OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
"""How everything is compiled."""

_LINE = re.compile(rf"-\d+(?=\.py{sys.version_info.major}{sys.version_info.minor})")
PATIENCE = 60.0
"""Seconds for which a process waits until another has compiled the same function."""
_MAKING = threading.RLock()
_PLAINLY = ContextVar("plainly", default=False)


def jit(function: Function) -> Function:
    """Compile to machine code without the interpreter's lock, as one piece with its caller.

    Compiled functions must not make arrays: without Numba's counting of references (``_nrt``), which would take most
    of the time in small functions, they cannot.
    """
    return cast(Function, Compiled(function, inline=True))


def jit_apart(function: Function) -> Function:
    """Compile as `jit` does, but as a piece of its own: for what is called rarely from kernels."""
    return cast(Function, Compiled(function, inline=False))


def jit_alone(function: Function) -> Function:
    """Compile as `jit` does, but keep nothing on disk: for functions of which we cannot say when they are stale."""
    return cast(Function, _numba().njit(forceinline=True, pipeline_class=_pipelines()[1], **OPTIONS)(function))


def address_of(compiled: Any, signature: Any) -> int:
    """Compile a function for some types, and return where its machine code lies; keep the function meanwhile."""
    result = getattr(compiled, "dispatcher", compiled).get_compile_result(signature)
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
    outer: Any = jit_alone(scope["outer"]) if compiled else scope["outer"]
    if outer is scope["outer"]:  # also where Numba is switched off
        return outer
    from numba.core.errors import NumbaError

    try:
        outer.compile(f"({', '.join(asks.names.values())})")
    except NumbaError as error:
        must = f"{asks.called} must be a function of numbers that Numba can compile"
        raise InvalidInput(f"{must}; it says: {' '.join(str(error).split())[:300]}.") from None
    return outer


@contextmanager
def plainly(wanted: bool = True) -> Iterator[None]:
    """Call functions whose machine code is not loaded as they are written meanwhile: for little work.

    Loading the compiler would take a second, and compiling many more.
    """
    before = _PLAINLY.set(wanted)
    try:
        yield
    finally:
        _PLAINLY.reset(before)


class Compiled:
    """A function that is compiled when it is first needed.

    Called from Python, it becomes machine code of its own, which is kept on disk. Called by another compiled function,
    it becomes a part of that one: it is neither optimised by itself, nor made callable from Python, nor kept, which is
    most of what compiling takes. Until then, Numba is not even loaded.
    """

    def __init__(self, function: Callable[..., Any], inline: bool) -> None:
        update_wrapper(self, function)
        self.py_func = function
        self._options = {**OPTIONS, "forceinline": inline}
        self._dispatcher: Any = None
        self._part: Any = None

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Call it; the first call compiles it or loads its machine code."""
        return (self.py_func if _PLAINLY.get() else self.dispatcher)(*args, **named)

    def __reduce__(self) -> str:
        return self.py_func.__qualname__

    @property
    def dispatcher(self) -> Any:
        """What Numba makes of it for Python; from now on calls go there directly."""
        with _MAKING:
            if self._dispatcher is None:
                self._dispatcher = made = _kept(self.py_func, self._options)
                self.__class__ = type("Compiled", (Compiled,), {"__call__": staticmethod(made)})
        return self._dispatcher

    @property
    def _numba_type_(self) -> Any:
        """What Numba makes of it for other compiled functions; Numba looks for it under this name."""
        with _MAKING:
            if self._part is None:
                options = {**self._options, "no_cpython_wrapper": True, "pipeline_class": _pipelines()[0]}
                self._part = _numba().njit(**options)(self.py_func)
        return self._part._numba_type_

    @property
    def stats(self) -> Any:
        """How often machine code was found, and how often it was not."""
        return self.dispatcher.stats

    @property
    def folder(self) -> str:
        """Where its machine code is kept."""
        return str(self.dispatcher.stats.cache_path)


@cache
def _numba() -> Any:
    """Load Numba, but not scipy.linalg, which takes as long: Numba only wants to know whether it is there."""
    import numba
    from numba.np import linalg

    ours: Any = linalg
    ensure_blas, ours.ensure_blas = ours.ensure_blas, lambda: None
    try:
        theirs: Any = importlib.import_module("numba.np.arraymath")
    finally:
        ours.ensure_blas = ensure_blas
    theirs.ensure_blas = ensure_blas
    return numba


@cache
def _pipelines() -> tuple[type[Any], type[Any]]:
    """Return how parts are compiled, and how the whole that they become parts of is."""
    from numba.core.codegen import JITCodeLibrary
    from numba.core.compiler import Compiler

    library: Any = JITCodeLibrary
    compiler: Any = Compiler

    class Part(library):  # type: ignore[misc]
        """Code that waits, as it was written, to be linked into a whole."""

        def finalize(self) -> None:
            self._finalized = True

        def get_pointer_to_function(self, name: str) -> int:
            return 0

        @property
        def codegen(self) -> Any:
            """Nobody calls it from Python, so it needs no environment."""
            return self

        def set_env(self, name: str, env: Any) -> None:
            """See `codegen`."""

    class Whole(library):  # type: ignore[misc]
        """Code with all parts that it calls, and that these call."""

        def finalize(self) -> None:
            found: dict[int, Any] = {}

            def visit(library: Any) -> None:
                if id(library) not in found:
                    for called in library._linking_libraries if isinstance(library, Part) else ():
                        visit(called)
                    found[id(library)] = library

            libraries: list[Any] = self._linking_libraries
            for library in libraries:
                visit(library)
            libraries[:] = reversed(found.values())  # callers first: what nothing calls yet would be left out
            super().finalize()

        def _verify_declare_only_symbols(self) -> None:
            super()._verify_declare_only_symbols()
            for function in self._final_module.functions:
                assert not (function.is_declaration and function.name.startswith("_ZN")), function.name

    def pipeline(kind: type[Any]) -> type[Any]:
        class Pipeline(compiler):  # type: ignore[misc]
            def __init__(self, *args: Any) -> None:
                super().__init__(*args)
                self.state.library = kind(self.state.targetctx.codegen(), kind.__name__)
                self.state.library.enable_object_caching()

        return Pipeline

    return pipeline(Part), pipeline(Whole)


def _kept(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Compile for Python, with what is kept on disk."""
    numba = _numba()
    options = {**options, "pipeline_class": _pipelines()[1]}
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
    return compiled


def _once(compiled: Any) -> Callable[[Any], Any]:
    """Return how a function is compiled: by one process at a time, so that the others find what it has kept.

    Numba by itself lets each of them compile the same, and numbers what two of them keep alike, so that one may load
    machine code that was made for the other's types. Only what is called from Python takes a lock, and one at a time.
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


def _reading(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """Compile with what is kept, though nothing can be added: what is not there is compiled anew in every process.

    Numba by itself takes no notice of a folder that it cannot write to.
    """
    from numba.core import caching

    locator: Any = caching._CacheLocator
    ensure, locator.ensure_cache_path = locator.ensure_cache_path, lambda _: None
    try:
        compiled: Any = _numba().njit(cache=True, **options)(function)
    finally:
        locator.ensure_cache_path = ensure
    compiled._cache.save_overload = lambda *_: None
    return compiled


def _stamped(kind: type[Any]) -> type[Any]:
    """Return a kind of cache file whose stamp is the content of what the function is made of.

    Numba's own is the time and size of the function's file: stale after a change that does not matter, and blind to
    changes of what the function calls from other files. Machine code itself says what it was made of and for, too:
    Numba writes the list of what there is first, so that after a kill, or beside another process, a name in it may
    belong to an older file of that name, and code for other types would write anywhere in memory.
    """

    class Stamped(kind):  # type: ignore[misc]
        def save(self, key: Any, data: Any) -> None:
            super().save(key, (self._source_stamp, key, data))

        def load(self, key: Any) -> Any:
            found = super().load(key)
            return found[2] if found is not None and found[:2] == (self._source_stamp, key) else None

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

    What the function is made of need not be part of it: that is the file's stamp. The names of fields must be, because
    machine code finds a field of a named tuple by its place.
    """
    return signature, tuple(_fields(getattr(signature, "args", signature))), codegen.magic_tuple()


def _fields(kinds: Any) -> Iterator[tuple[str, ...]]:
    """Return the names of the fields of all named tuples among some types, and within these."""
    for kind in kinds:
        if hasattr(kind, "fields") and hasattr(kind, "instance_class"):
            yield tuple(kind.fields)
        if hasattr(kind, "types"):
            yield from _fields(kind.types)


def digest(function: Callable[..., Any]) -> str:
    """Return a digest of a function's code and module, of the constants it reads, and of all functions that it calls.

    >>> digest(digest) == digest(digest)
    True
    """
    found: dict[int, Any] = {}
    new: list[Any] = [function]
    hashed = hashlib.sha256(repr(OPTIONS).encode() + _content(_pipelines.__wrapped__.__code__, None))
    while new:
        at = new.pop()
        if id(at) not in found:
            found[id(at)] = at
            hashed.update(f"{at.__module__}\0".encode())  # machine code that is kept names it
            hashed.update(_content(at.__code__, at.__doc__))
            hashed.update(f"{at.__defaults__} {at.__kwdefaults__}\0".encode())
            for name, value in _globals(at):
                code = getattr(value, "py_func", getattr(value, "_defn", value))  # the latter of Numba's intrinsics
                if isinstance(code, types.FunctionType):
                    hashed.update(f"{name} calls {code.__qualname__}\0".encode())
                    new.append(code)
                else:
                    hashed.update(f"{name} is {_shown(value)}\0".encode())
    return hashed.hexdigest()


@cache
def _content(code: types.CodeType, doc: str | None) -> bytes:
    """Return what a code object does, without the numbers of its lines and without its docstring."""
    parts = [code.co_code.hex(), repr((code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars))]
    within = b""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            within += _content(constant, None)
        elif constant != doc or doc is None:
            parts.append(repr(constant))
    return "\0".join(parts).encode() + b"\0" + within


def _globals(function: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """Return what a function reads of the function around it, of its module and, where that is one of ours, of that."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield name, cell.cell_contents
    scopes = [function.__globals__]
    for name in _names(function.__code__):
        for scope in list(scopes):
            if name in scope:
                value = scope[name]
                yield name, value
                if isinstance(value, types.ModuleType) and value.__name__.startswith(f"{__package__}."):
                    scopes.append(vars(value))


@cache
def _names(code: types.CodeType) -> tuple[str, ...]:
    """Return the names that a code object and those within it look up."""
    within = (name for inner in code.co_consts if isinstance(inner, types.CodeType) for name in _names(inner))
    return tuple(dict.fromkeys((*code.co_names, *within)))


def _shown(value: Any) -> str:
    """Return a constant as text that is the same in every process."""
    if isinstance(value, types.ModuleType | type):
        return f"{value.__name__} {getattr(value, '_fields', '')}"
    if hasattr(value, "tobytes") and hasattr(value, "dtype"):  # as text, an array is rounded
        return f"{value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    return f"{type(value).__name__} {value!r}"
