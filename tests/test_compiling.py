"""Machine code is stale when what it is made of has changed, and only then."""

from __future__ import annotations

import ast
import math
import os
import subprocess
import sys
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba.core import types
from numba.core.caching import IndexDataCacheFile

import freepull
from freepull import numerics
from freepull.compiling import _key, _stamped, digest
from freepull.principal.rules.certified import evaluation

SOURCE = '''
"""A module."""
import math
import numpy as np
from typing import Any, NamedTuple
FACTOR = 2.0
class Books(NamedTuple):
    pulls: Any
def inner(x: float) -> float:
    """Some words."""
    return FACTOR * math.sqrt(x)
def outer(x: float) -> float:
    return inner(x) + 1.0
def other(x: float) -> float:
    return x
'''


def outer_of(source: str, module: str = "made_up") -> Callable[..., Any]:
    scope: dict[str, Any] = {"__name__": module}
    exec(compile(source, "made_up.py", "exec"), scope)
    function: Callable[..., Any] = scope["outer"]
    return function


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("FACTOR = 2.0", "FACTOR = 3.0"),
        ("FACTOR = 2.0", "FACTOR = np.full(1, 2.0)"),
        ("math.sqrt(x)", "math.log(x)"),
        ("+ 1.0", "+ 2.0"),
        ("inner(x) +", "x +"),
        ("outer(x: float)", "outer(x: float = 1.0)"),
    ],
)
def test_what_a_function_is_made_of_changes_its_digest(old: str, new: str) -> None:
    assert old in SOURCE
    assert digest(outer_of(SOURCE)) != digest(outer_of(SOURCE.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new"),
    [("Some words.", "Other words."), ("return x\n", "return 2 * x\n"), ('"""A module."""', '"""A\n\nmodule."""')],
)
def test_nothing_else_changes_it(old: str, new: str) -> None:
    assert old in SOURCE
    assert digest(outer_of(SOURCE)) == digest(outer_of(SOURCE.replace(old, new)))


def test_the_functions_of_a_closure_are_part_of_it() -> None:
    def around(inner: Callable[[float], float], factor: float) -> Callable[[float], float]:
        def outer(x: float) -> float:
            return factor * inner(x)

        return outer

    assert digest(around(math.sqrt, 2.0)) == digest(around(math.sqrt, 2.0))
    assert len({digest(around(f, factor)) for f in (math.sqrt, math.log, lambda x: x) for factor in (2.0, 3.0)}) == 6


def test_an_array_is_read_to_its_last_bit() -> None:
    numbers = np.linspace(0.0, 1.0, 5_000)

    def outer(i: int) -> float:
        return float(numbers[i])

    before = digest(outer)
    assert digest(outer) == before
    numbers[2_500] += 1e-15
    assert digest(outer) != before


def test_a_module_that_is_called_otherwise_changes_it() -> None:
    assert digest(outer_of(SOURCE)) != digest(outer_of(SOURCE, "package.made_up"))


def test_a_change_far_below_a_kernel_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from freepull.simulation.compiled import certified

    kernel: Any = certified.step
    before = digest(kernel.py_func)
    monkeypatch.setattr(evaluation, "NEGLIGIBLE", 1e-11)
    after = digest(kernel.py_func)
    monkeypatch.setattr(numerics, "_M1", numerics._M2)
    assert len({before, after, digest(kernel.py_func)}) == 3


@pytest.mark.slow
def test_the_digest_is_the_same_in_every_process() -> None:
    code = "from freepull.compiling import digest; from freepull import numerics; print(digest(numerics.mix.py_func))"
    said = {
        subprocess.run(
            [sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True
        ).stdout
        for seed in ("1", "2")
    }
    mix: Any = numerics.mix
    assert said == {digest(mix.py_func) + "\n"}


PLAIN = "@jit\ndef f(x):\n    return x + 1.5\n"
CLOSURE = (
    "@jit\ndef g(x):\n    return x + 1.5\n"
    "def around(g):\n    def f(x):\n        return g(x)\n    return jit(f)\n"
    "f = around(g)\n"
)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [PLAIN, CLOSURE])
def test_machine_code_is_kept_over_changes_of_time_and_of_other_lines(kernel: str, tmp_path: Path) -> None:
    file = tmp_path / "kernel.py"
    told = "f(2.0)\nprint(len(f.stats.cache_hits), len(f.stats.cache_misses))\n"
    file.write_text(f"from freepull.compiling import jit\n{kernel}{told}")

    def run() -> str:
        return subprocess.run([sys.executable, file], capture_output=True, text=True, check=True).stdout.strip()

    first = run()
    file.write_text(f"# what stands above has nothing to do with it\n{file.read_text()}")
    os.utime(file, (1, 1))
    again = run()
    file.write_text(file.read_text().replace("1.5", "2.5"))
    assert [first, again, run()] == ["0 1", "1 0", "0 1"]


READ_ONLY = """\
import os, sys
from numba.core import caching
def refuse(*_, **__):
    raise OSError(30, "Read-only file system")
if sys.argv[1:] == ["read only"]:
    caching.tempfile.TemporaryFile = caching.IndexDataCacheFile._open_for_write = refuse
    os.access = lambda *_: False
"""


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [PLAIN, CLOSURE])
def test_machine_code_that_was_kept_is_read_where_nothing_can_be_written(kernel: str, tmp_path: Path) -> None:
    """As in an image: by itself, Numba does not look into a folder that it cannot write to."""
    (tmp_path / "kernel.py").write_text(
        f"{READ_ONLY}from freepull.compiling import jit\n{kernel}"
        "f(2.0)\nprint(len(f.stats.cache_hits), len(f.stats.cache_misses))\nprint(f(2))\n"
    )
    kept = tmp_path / "kept"
    kept.mkdir()

    def run(*words: str) -> str:
        command = [sys.executable, str(tmp_path / "kernel.py"), *words]
        environment = os.environ | {"NUMBA_CACHE_DIR": str(kept)}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.split("\n")[0]

    assert run("read only") == "0 1"  # nothing is there yet, and it is not kept
    assert run() == "0 1"
    before = sorted(kept.rglob("*"))
    assert run("read only") == "1 0"
    assert sorted(kept.rglob("*")) == before


@pytest.mark.slow
def test_processes_that_need_the_same_machine_code_at_once_compile_it_once(tmp_path: Path) -> None:
    """Without a lock each of them compiles all of it, and one may load what the other made for other types."""
    (tmp_path / "kernel.py").write_text(
        "import sys\nfrom freepull.compiling import jit\n@jit\ndef g(x):\n    return x * 2\n@jit\ndef f(x):\n"
        "    return g(x) + g(x + 1)\n"
        "print(f(float(sys.argv[1])), f(int(sys.argv[1])), sum(len(it.stats.cache_misses) for it in (f, g)))\n"
    )
    command = [sys.executable, str(tmp_path / "kernel.py")]
    running = [subprocess.Popen([*command, str(i)], stdout=subprocess.PIPE, text=True) for i in range(4)]
    said = [process.communicate()[0].split() for process in running]
    assert [words[:2] for words in said] == [[f"{4.0 * i + 2}", f"{4 * i + 2}"] for i in range(4)]
    assert sum(int(words[2]) for words in said) == 2, "f, for floats and for whole numbers; g is a part of it"
    assert not list(tmp_path.rglob("*kernel.g*")), "parts are not kept"


@pytest.mark.slow
def test_the_compiler_is_loaded_at_the_first_call_and_not_for_little_work() -> None:
    code = (
        "import pickle, sys\n"
        "from freepull.compiling import plainly\n"
        "from freepull.numerics import exploration, kl_budget\n"
        "with plainly():\n"
        "    before = kl_budget(1.0, 100)\n"
        "print('numba' in sys.modules)\n"
        "print(kl_budget(1.0, 100) == before, 'numba' in sys.modules)\n"
        "print(pickle.loads(pickle.dumps(kl_budget)) is kl_budget)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True", "True"]


def test_a_change_of_vector_instructions_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    from freepull.simulation.compiled import few, lanes, playing

    kernel: Any = playing.observe
    for module, name, other in ((lanes, "divide", print), (few, "toss", print), (few, "_step_3", few._step_2)):
        before = digest(kernel.py_func)
        monkeypatch.setattr(module, name, other)
        assert digest(kernel.py_func) != before, name


@pytest.mark.slow
def test_machine_code_for_classes_that_have_moved_is_made_anew(tmp_path: Path) -> None:
    kernel = "from freepull.compiling import jit\n@jit\ndef f(books):\n    return books.pulls + 1\n"
    (tmp_path / "kernel.py").write_text(kernel)
    for module in ("early", "late"):
        lines = "from typing import NamedTuple\nclass Books(NamedTuple):\n    pulls: int\n"
        (tmp_path / f"{module}.py").write_text(lines)
        code = f"import kernel, {module}; print(kernel.f({module}.Books(4)))"
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert (done.stdout, done.stderr) == ("5\n", "")
        (tmp_path / f"{module}.py").unlink()
    assert list(tmp_path.rglob("*.nbi")), "it was kept"


def test_special_numbers_are_told_apart() -> None:
    infinite, large = (outer_of(SOURCE.replace("2.0", text)) for text in ("math.inf", "1e308"))
    assert digest(infinite) != digest(large)
    assert math.isinf(infinite.__globals__["FACTOR"])


def cache_file(folder: Path, function: Callable[..., Any]) -> Any:
    kept = _stamped(IndexDataCacheFile)(str(folder), "f", None)
    kept.function = function
    return kept


def test_a_process_that_is_killed_while_it_keeps_machine_code_leaves_none_for_other_types(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = (cache_file(tmp_path, outer_of(SOURCE.replace("2.0", factor))) for factor in ("2.0", "3.0"))
    old.save("for floats", "old code")
    assert old.load("for floats") == "old code"

    def kill(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(new), "_save_data", kill)
        with pytest.raises(KeyboardInterrupt):
            new.save("for arrays", "new code")
    assert new._load_index() == {"for arrays": new._data_name(1)}, "the list has it, but the file is the old one"
    assert new.load("for arrays") is None
    new.save("for arrays", "new code")
    assert new.load("for arrays") == "new code"


def test_the_order_of_fields_is_part_of_what_machine_code_is_kept_under() -> None:
    class Codegen:
        def magic_tuple(self) -> str:
            return "this machine"

    keys = []
    for names in ("a b", "b a"):
        made = namedtuple("Books", names)  # type: ignore[misc]
        kinds: Any = types
        inner = kinds.NamedUniTuple(types.int64, 2, made)
        keys.append(_key((types.float64, kinds.Tuple((inner, types.int64))), Codegen())[1:])
    assert keys[0] != keys[1]


def test_no_kernel_takes_more_than_ten_arguments() -> None:
    """What belongs together comes in a named tuple."""
    root = Path(freepull.__file__).parent
    long = [
        f"{path.relative_to(root)}: {it.name}"
        for path in root.rglob("*.py")
        for it in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(it, ast.FunctionDef)
        and any(isinstance(how, ast.Name) and how.id in ("jit", "jit_apart") for how in it.decorator_list)
        and len(it.args.args) > 10
    ]
    assert long == []
