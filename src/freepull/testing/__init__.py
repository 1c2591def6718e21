"""Conformance kits that users run on their own parts."""

from freepull.testing.parts import AGENT_CHECKS, RULE_CHECKS, check_agent, check_rule
from freepull.testing.stores import STORE_CHECKS, check_store

__all__ = ["AGENT_CHECKS", "RULE_CHECKS", "STORE_CHECKS", "check_agent", "check_rule", "check_store"]
