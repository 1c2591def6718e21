"""Every night: pay what campaigns owe. From cron, `python nightly_payout.py http://127.0.0.1:8000 slots payouts`.

The token of a payer is in FREEPULL_TOKEN. Killed at any moment, it goes on the next night where it was.
"""

import os
import sys
from pathlib import Path

import freepull as fp


def main(url: str, campaign: str, folder: Path) -> fp.Payout:
    """Write a file for accounting, and say what became of those that accounting has answered."""
    with fp.Client(url, os.environ["FREEPULL_TOKEN"]) as client:
        slots = client.campaign(campaign)
        done = folder / "done.csv"  # accounting puts it there: a line for each entry, with settled or failed
        if done.exists():
            lines = [line.split(",") for line in done.read_text().splitlines()[1:]]
            slots.settle([fp.Move(int(entry), state, note) for entry, state, note in lines])
        found = fp.payout(slots, fp.FilePayer(folder))
        print(found)
        return found


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1], sys.argv[2], Path(sys.argv[3])).complete else 1)
