"""The principal without a simulator: ask before everybody acts, tell what they did, end the step, read the verdict."""

import random

import freepull as fp


def main(horizon: int = 2_000, seed: int = 1) -> fp.Verdict:
    """Three users who like option B best together, though none of them would find out alone."""
    likes = [[0.9, 0.8, 0.1], [0.1, 0.8, 0.9], [0.5, 0.9, 0.1]]
    chance = random.Random(seed)
    principal = fp.Principal(fp.rules.Paper(delta=0.05, bound="finite_time"), offers="each", budget=1_500)
    trial = principal.start(arms=3, agents=3, horizon=horizon)
    for _ in range(horizon):
        for user in range(3):
            offer = trial.ask(user)  # the bonus is announced before the user acts; None while she only watches
            favourite = likes[user].index(max(likes[user]))
            option = offer.arm if offer is not None else chance.choice([favourite, favourite, 0, 1, 2])
            liked = float(chance.random() < likes[user][option])
            trial.tell(user, option, liked)  # pays the offer, or notes a refusal
        trial.end_step()  # bans, eliminations and the next offers happen here and nowhere else
        if trial.phase == "decided":
            break
    return trial.verdict()


if __name__ == "__main__":
    verdict = main()
    print(verdict)
    print("paid per user and option:", verdict.paid.tolist())
