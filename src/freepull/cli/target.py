"""Files that commands write: whether that can be done is found out before the work."""

from __future__ import annotations

from pathlib import Path

from freepull.errors import InvalidInput


def check_target(option: str, target: Path, suffix: str) -> None:
    """Refuse a target that cannot be written, in one sentence."""
    if target.suffix != suffix or target.is_dir():
        raise InvalidInput(f"{option} must be a file that ends in {suffix}, got {str(target)!r}.")
    if not target.parent.is_dir():
        raise InvalidInput(
            f"{option} cannot be written to {target}, because there is no folder {target.parent}; make it first."
        )
    there = target.exists()
    try:
        target.open("a").close()
        if not there:
            target.unlink()
    except OSError as error:
        raise InvalidInput(
            f"{option} cannot be written to {target}, because you may not write there ({error.strerror}); choose "
            "another place."
        ) from None
