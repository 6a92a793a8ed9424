r"""Five short texts of different kinds, written for this project, for a first comparison.

The kinds are those of nanochat's tok_eval, but the texts differ: the numbers of tokens can be
compared among tokenizers, but not with nanochat's published numbers, and change with the texts.
"""

from collections.abc import Mapping
from typing import Final

_NEWS = """\
HARROW BAY, March 14 - The town council voted 6-3 on Tuesday night to close the old swing bridge \
to cars for at least 18 months, ending a dispute that had split shopkeepers on both sides of the \
river since last autumn.

Engineers told the meeting that rust had eaten through two of the four main bearings, and that \
the span, opened in 1911, could no longer be trusted with anything heavier than a bicycle. "It \
isn't a question of whether it gets stuck, but of who's standing on it when it does," said Marta \
Oyelaran, who led the inspection. Repairs are expected to cost $4.7 million, about a third of \
the town's yearly budget; the state has promised to pay 40% of it.

Owners of the fish market on the eastern bank weren't convinced. They say the detour over the \
highway adds 25 minutes to every delivery, and that they'd been assured in January that one lane \
would stay open. "Nobody came to count our trucks," said Piet Lindqvist, whose family has run a \
stall there for 52 years. "They counted cars on a Sunday, in the rain."

A free ferry will run every 20 minutes between 6 a.m. and 9 p.m., starting on April 1. The \
mayor, who voted against the closure, asked residents to be patient, and announced that she \
would seek bids from at least three companies before the end of the month. The next public \
hearing has been set for Thursday, March 30, at 7:30 p.m. in the library's reading room.
"""

_KOREAN = """\
우리 동네 뒷산에는 오래된 약수터가 하나 있다. 할머니는 매일 새벽 다섯 시 반이면 작은 물통 두 개를 \
들고 그곳까지 걸어가신다. 처음에는 무릎이 아프다고 하시더니, 요즘은 오히려 나보다 걸음이 빠르시다.

지난 토요일에는 나도 따라나섰다. 길가에는 진달래가 막 피기 시작했고, 안개 사이로 새소리가 들렸다. \
약수터에 도착하자 먼저 온 이웃들이 반갑게 인사를 건넸다. "오늘은 손자까지 데리고 오셨네요!" \
할머니는 웃으면서 내 등을 가볍게 두드리셨다.

물맛은 솔직히 잘 모르겠다. 하지만 내려오는 길에 할머니가 들려주신 이야기는 오래 기억에 남을 것 \
같다. 1960년대에는 이 산에 나무가 거의 없었는데, 마을 사람들이 해마다 봄이면 함께 나무를 심었다고 \
한다. 지금 우리가 걷는 숲길은 그때 심은 소나무들이 자란 것이다.
"""

_CODE = '''\
from __future__ import annotations

import heapq
from dataclasses import dataclass, field


@dataclass(order=True)
class Job:
    due: float
    name: str = field(compare=False)
    retries: int = field(default=0, compare=False)


class Scheduler:
    """Runs jobs when they are due; a job that fails is tried again, later each time."""

    MAX_RETRIES = 5

    def __init__(self, clock, *, base_delay: float = 0.25):
        self._queue: list[Job] = []
        self._clock = clock
        self._base_delay = base_delay

    def add(self, name: str, *, after: float = 0.0) -> None:
        heapq.heappush(self._queue, Job(self._clock() + after, name))

    def run_due(self, handlers: dict[str, object]) -> int:
        done = 0
        while self._queue and self._queue[0].due <= self._clock():
            job = heapq.heappop(self._queue)
            try:
                handlers[job.name]()
            except KeyError:
                raise LookupError(f"no handler for {job.name!r}") from None
            except OSError as error:
                if job.retries >= self.MAX_RETRIES:
                    print(f"giving up on {job.name}: {error}")
                    continue
                job.retries += 1
                job.due += self._base_delay * 2 ** job.retries
                heapq.heappush(self._queue, job)
            else:
                done += 1
        return done
'''

_MATH = r"""
\begin{lemma}\label{lem:tele}
For every integer $n \ge 1$,
\[
  \sum_{k=1}^{n} \frac{1}{k(k+1)} = \frac{n}{n+1},
  \qquad\text{and therefore}\qquad
  \sum_{k=1}^{n} \frac{1}{k^2} \;\le\; 2 - \frac{1}{n} \;<\; 2 .
\]
\end{lemma}

\begin{proof}
Since $\frac{1}{k(k+1)} = \frac{1}{k} - \frac{1}{k+1}$, all terms but the first and the last cancel:
\begin{align*}
  \sum_{k=1}^{n} \Bigl( \frac{1}{k} - \frac{1}{k+1} \Bigr)
    &= \Bigl( 1 - \frac{1}{2} \Bigr) + \Bigl( \frac{1}{2} - \frac{1}{3} \Bigr) + \dots
       + \Bigl( \frac{1}{n} - \frac{1}{n+1} \Bigr) \\
    &= 1 - \frac{1}{n+1} .
\end{align*}
For $k \ge 2$ we have $k^2 > k(k-1)$, so that $\sum_{k=2}^{n} k^{-2} \le \sum_{k=1}^{n-1}
\frac{1}{k(k+1)} = 1 - \frac{1}{n}$; add the term $k = 1$. (In fact $\zeta(2) = \pi^2/6 \approx
1.644934$, so less than $0.36$ is given away.)
\end{proof}

Exercise 3. Show that $f(x) = x^3 - 3x + 1$ has exactly three real roots, and that if $\alpha$ is
one of them, so is $\alpha^2 - 2$. (Hint: put $x = 2\cos\theta$ and use $\cos 3\theta =
4\cos^3\theta - 3\cos\theta$.)
"""

_SCIENCE = """\
A snow crystal begins when a droplet of cloud water, supercooled to perhaps -12 °C, freezes \
around a speck of dust. Water molecules in ice settle into layers of hexagons, and because the \
six corners of such a plate reach farther into the moist air than its flat sides, they collect \
vapour faster and sprout arms. The shape depends sharply on temperature and humidity: thin \
plates grow near -2 °C, needles and hollow columns around -5 °C, and the richly branched \
dendrites of greeting cards only close to -15 °C, where the air is strongly supersaturated.

As the crystal tumbles through the cloud, every arm meets almost the same conditions at the same \
moment, so that all six grow alike without any signal passing between them. No two flakes follow \
quite the same path, however, and a large one holds roughly 10^18 molecules; the number of ways \
to arrange its branches is far greater than the number of crystals that have ever fallen. \
Electron microscopy shows that even small, simple prisms differ in their surface steps, isotopic \
impurities and stacking faults. When a flake warms above the frost point it sublimates from the \
tips inward, losing first the very detail that made it recognisable.
"""

SAMPLE_TEXTS: Final[Mapping[str, str]] = {
    "news": _NEWS,
    "korean": _KOREAN,
    "code": _CODE,
    "math": _MATH,
    "science": _SCIENCE,
}
"""The texts by kind, in the order of nanochat's table."""
