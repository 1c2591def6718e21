"""Every route of the service, with a body that it takes; {c} stands for the path of a campaign."""

from __future__ import annotations

from typing import Any

from .running import NEW

ADMIN_ROUTES: list[tuple[str, str, Any]] = [
    ("GET", "/campaigns", None),
    ("GET", "/overview", None),
    ("GET", "/webhooks", None),
    ("POST", "/webhooks/shop/test", None),
    ("POST", "{c}/webhooks/shop/replay", {"after": 0}),
    ("POST", "/campaigns", NEW | {"name": "mine"}),
    ("GET", "{c}", None),
    *(("POST", f"{{c}}/{verb}", None) for verb in ("start", "pause", "resume")),
    ("POST", "{c}/stop", {"why": ""}),
    ("PATCH", "{c}/budget", {"budget": None}),
    ("POST", "{c}/agents", {"agents": ["eve"]}),
    *(
        ("GET", f"{{c}}/{table}", None)
        for table in (
            "arms",
            "agents",
            "offers",
            "ledger",
            "bans",
            "audit",
            "verdict",
            "history",
            "pulls",
            "stream",
        )
    ),
    ("POST", "{c}/imports", None),
    ("GET", "{c}/exports/ledger.csv", None),
    ("GET", "/exports/backup.db", None),
    ("POST", "{c}/agents/bob/unban", None),
    ("POST", "{c}/agents/bob/leave", None),
    ("POST", "{c}/agents/bob/pass-over", {}),
    ("POST", "{c}/agents/bob/offer", None),
    ("POST", "{c}/agents/bob/observations", {"arm": "A", "reward": 0.5}),
    ("GET", "{c}/agents/bob", None),
    ("POST", "{c}/ledger/settle", {"moves": []}),
    ("POST", "{c}/agents/bob/accept", {}),
    ("POST", "{c}/agents/bob/decline", {}),
    ("POST", "{c}/agents/bob/acts", {"arm": "A", "event": "a1"}),
    ("POST", "{c}/agents/bob/outcomes", {"event": "a1", "reward": 0.5}),
    ("POST", "{c}/agents/bob/arms/A/unavailable", {"lasts": "1 hour"}),
    ("POST", "{c}/agents/bob/arms/A/available", None),
    ("POST", "{c}/agents/bob/revoke", None),
    ("DELETE", "{c}/agents/bob/name", None),
    ("DELETE", "{c}/names", None),
    ("POST", "{c}/snapshot", None),
    ("GET", "/token", None),
    ("POST", "{c}/arms/A/withdraw", None),
    ("POST", "{c}/tokens", {"agents": ["bob"]}),
    ("GET", "/tokens", None),
    ("GET", "/tokens/audit", None),
    ("POST", "/tokens", {"scope": "admin"}),
    ("DELETE", "/tokens/abc", None),
    ("POST", "{c}/observations:batch", {"observations": [{"agent": "bob", "arm": "A", "reward": 0.5}]}),
]
AGENT_ROUTES: list[tuple[str, str, Any]] = [
    ("POST", "{c}/me/offer", None),
    ("POST", "{c}/me/observations", {"arm": "A", "reward": 0.5}),
    ("POST", "{c}/me/pass-over", {}),
    ("POST", "{c}/me/accept", {}),
    ("POST", "{c}/me/decline", {}),
    ("POST", "{c}/me/acts", {"arm": "A", "event": "a1"}),
    ("POST", "{c}/me/outcomes", {"event": "a1", "reward": 0.5}),
    ("GET", "{c}/me", None),
]
