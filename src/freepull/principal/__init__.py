"""The principal: settings (`Principal`), the running state (`Trial`), and the parts she is made of."""

from freepull.principal import protocols, rules, schedules
from freepull.principal.principal import OFFERS, Principal
from freepull.principal.trial import Offer, Trial
from freepull.principal.verdict import Verdict

__all__ = ["OFFERS", "Offer", "Principal", "Trial", "Verdict", "protocols", "rules", "schedules"]
