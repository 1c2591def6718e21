"""Pages to send on: one file each, with everything in it."""

from freepull.pages.plan import plan_page

__all__ = ["plan_page"]
