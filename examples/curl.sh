#!/bin/sh
# One token for a backend, with nothing but curl. URL is where the service is, ADMIN an admin's token.
set -eu
post() { curl --silent --show-error --fail-with-body -H "Authorization: Bearer $1" -H "Content-Type: application/json" -d "$3" "$URL/v1$2"; }
field() { sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }

# an admin makes a campaign that offers bonuses from the start, and a token for the backend
post "$ADMIN" /campaigns '{"name": "slots", "arms": ["A", "B"], "agents": ["user-17", "user-18"], "price": "0.50 EUR",
  "principal": {"rule": {"part": "Certified", "delta": 0.05}, "observe": {"part": "Steps", "n": 0}}}' > /dev/null
post "$ADMIN" /campaigns/slots/start '' > /dev/null
GATEWAY=$(post "$ADMIN" /tokens '{"scope": "gateway", "campaign": "slots"}' | field token)

# before user-17 chooses, the backend asks whether there is an offer, and shows it
ARM=$(post "$GATEWAY" /campaigns/slots/agents/user-17/offer '' | field arm)
echo "user-17 is offered a bonus for $ARM"

# the user takes it; told twice, it counts once
for again in 1 2; do
  post "$GATEWAY" /campaigns/slots/agents/user-17/observations "{\"arm\": \"$ARM\", \"reward\": 0.8, \"event\": \"visit-4711\"}" > /dev/null
done

# what is owed, each with the key that a payer needs
curl --silent --fail-with-body -H "Authorization: Bearer $ADMIN" "$URL/v1/campaigns/slots/ledger?settlement=unsettled"
