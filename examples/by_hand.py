"""The principal without a simulator: ask before everybody acts, tell what they did, end the step, read the verdict."""

import random

import freepull as fp


def main(horizon: int = 2_000, seed: int = 1) -> fp.Verdict:
    """Three users who like option B best together, though none of them would find out alone."""
    likes = [[0.9, 0.7, 0.1], [0.1, 0.7, 0.9], [0.6, 0.8, 0.5]]
    chance = random.Random(seed)
    principal = fp.Principal(fp.rules.Certified(delta=0.05), fp.observe.Steps(100), offers="each", budget=1_500)
    trial = principal.start(arms=3, agents=3, horizon=horizon)
    for _ in range(horizon):
        for user in range(3):
            offer = trial.ask(user)  # the bonus is announced before the user acts; None while she only watches
            favourite = likes[user].index(max(likes[user]))
            option = offer.arm if offer is not None else chance.choice([favourite] * 9 + [0, 1, 2])
            liked = float(chance.random() < likes[user][option])
            trial.tell(user, option, liked)  # pays the offer, or notes a refusal
        trial.end_step()  # bans, eliminations and the next offers happen here and nowhere else
        if trial.steps % 50 == 0 or trial.phase == "decided":
            evidence = ", ".join(
                f"{label} {against:.2g}" for label, against in zip("ABC", trial.rule.bounds(), strict=True)
            )
            print(f"step {trial.steps}: evidence against {evidence} (an option goes at 20); {trial.spent:g} spent")
        if trial.phase == "decided":
            break
    return trial.verdict()


if __name__ == "__main__":
    verdict = main()
    print(verdict)
    print(verdict.rests_on)
    print("paid per user and option:", verdict.paid.tolist())
