"""Times of modules, checked with a pencil: modules here take as long as they are told, on a clock that they move."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from weftrace.costs.cost import Phase
from weftrace.flops.runtime.count.clock import EventTicks, StepClock
from weftrace.flops.runtime.count.tracker import Tracker
from weftrace.flops.values import OUTSIDE

F, B, R, O = Phase.FORWARD, Phase.BACKWARD, Phase.RECOMPUTE, Phase.OPTIMIZER  # noqa: E741
CPU = torch.device("cpu")


class Hand:
    """A clock that stands still until somebody moves it; or that moves by `tick` each time it is read."""

    def __init__(self, tick: int = 0) -> None:
        self.ns = 0
        self.tick = tick

    def __call__(self) -> int:
        self.ns += self.tick
        return self.ns


class _Spend(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, hand: Hand, forward_ns: int, backward_ns: int) -> torch.Tensor:
        ctx.hand, ctx.backward_ns = hand, backward_ns
        ctx.save_for_backward(x)
        hand.ns += forward_ns
        return x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        assert ctx.saved_tensors
        ctx.hand.ns += ctx.backward_ns
        return gradients[0] * 2, None, None, None


def spend(x: torch.Tensor, hand: Hand, forward_ns: int, backward_ns: int) -> torch.Tensor:
    """x doubled, which takes so long."""
    out: torch.Tensor = _Spend.apply(x, hand, forward_ns, backward_ns)  # type: ignore[no-untyped-call]
    return out


class Work(nn.Module):
    """Takes forward_ns, and backward_ns in the backward."""

    def __init__(self, hand: Hand, forward_ns: int, backward_ns: int) -> None:
        super().__init__()
        self.hand, self.forward_ns, self.backward_ns = hand, forward_ns, backward_ns
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return spend(x * self.weight, self.hand, self.forward_ns, self.backward_ns)


class Pair(nn.Module):
    """a, then 7 of its own (70 back), then b, then 9 (90 back)."""

    def __init__(self, hand: Hand) -> None:
        super().__init__()
        self.hand = hand
        self.a = Work(hand, 100, 1000)
        self.b = Work(hand, 200, 2000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return spend(self.b(spend(self.a(x), self.hand, 7, 70)), self.hand, 9, 90)


class Timed:
    """A model on a clock."""

    def __init__(self, model: nn.Module, hand: Hand) -> None:
        self.tracker = Tracker(model)
        self.hand = hand
        self.clock = StepClock(self.tracker, CPU, now=hand)

    @contextmanager
    def step(self) -> Any:
        with self.tracker.watch():
            self.clock.start_step()
            try:
                yield
            finally:
                self.clock.end_step()

    @property
    def found(self) -> dict[tuple[str, Phase], list[int]]:
        """Samples that are not all zero, by path."""
        return {(f.path, phase): values for (f, phase), values in self.clock.samples.items() if any(values)}

    def last(self) -> dict[tuple[str, Phase], int]:
        return {place: values[-1] for place, values in self.found.items() if values[-1]}


def on(model: Callable[[Hand], nn.Module]) -> tuple[Any, Timed, Hand]:
    hand = Hand()
    built = model(hand)
    return built, Timed(built, hand), hand


X = torch.ones(3)
ONE_STEP = {("a", F): 100, ("", F): 7 + 9, ("b", F): 200, ("b", B): 2000, ("", B): 70 + 90, ("a", B): 1000}


def test_forward_and_backward_by_hand() -> None:
    model, timed, hand = on(Pair)
    with timed.step():
        hand.ns += 5  # loading
        model(X).sum().backward()
        hand.ns += 3
    assert timed.last() == {**ONE_STEP, (OUTSIDE, F): 8}
    assert timed.clock.step_ns == [5 + 316 + 3160 + 3] == [sum(timed.last().values())]


def test_a_step_is_the_sum_of_its_modules_even_when_each_reading_takes_time() -> None:
    hand = Hand(tick=1)
    model = Pair(hand)
    timed = Timed(model, hand)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        with timed.step():
            start = hand.ns  # when the first mark was made
            model(X).sum().backward()
            optimizer.step()
            end = hand.ns + 1
        installed_ns = timed.clock._backward.installed_ns
        assert sum(values[-1] for values in timed.clock.samples.values()) == timed.clock.step_ns[-1]
        # Installing reads the clock for its start, its mark and its end; the mark after it ends the time left out.
        assert installed_ns == 2
        assert timed.clock.step_ns[-1] + installed_ns == end - start
    # Marks: the step's start; 3 modules entered and left; weftrace's own, then root, b, root, a, outside; a's
    # parameter, which comes after the last node, and outside again; the nodes done, the backward ended; the optimizer's
    # start and end; the step's end. The dummy's calls read the clock once a mark.
    assert timed.clock.own_ns == (1 + 6 + 6 + 2 + 2 + 2 + 1) * 1 + installed_ns


def test_each_step_has_a_sample_and_the_absent_have_zero() -> None:
    model, timed, hand = on(Pair)
    with timed.step():
        model(X)
    with timed.step():
        model.b(X)
    with timed.step():
        hand.ns += 4
    assert timed.found == {
        ("a", F): [100, 0, 0],
        ("", F): [16, 0, 0],
        ("b", F): [200, 200, 0],
        (OUTSIDE, F): [0, 0, 4],
    }
    assert timed.clock.step_ns == [316, 200, 4]


def test_set_aside_keeps_the_counted_step_apart() -> None:
    model, timed, _ = on(Pair)
    with timed.step():
        model(X)
    timed.clock.set_aside()
    assert (timed.clock.counted_ns, timed.clock.step_ns, timed.clock.samples) == (316, [], {})
    with timed.step():
        model(X).sum().backward()
    assert timed.last() == ONE_STEP and timed.clock.step_ns == [3476]


def test_the_optimizer_is_a_phase() -> None:
    hand = Hand()
    model = Pair(hand)
    timed = Timed(model, hand)

    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.register_step_post_hook(lambda *_: setattr(hand, "ns", hand.ns + 11))
    with timed.step():
        optimizer.step()
        hand.ns += 2
    assert timed.last() == {(OUTSIDE, O): 11, (OUTSIDE, F): 2}


def test_gradient_accumulation_adds_up() -> None:
    model, timed, _ = on(Pair)
    with timed.step():
        for _ in range(4):
            model(X).sum().backward()
    assert timed.last() == {place: 4 * ns for place, ns in ONE_STEP.items()}


def test_micro_batches_in_one_backward() -> None:
    model, timed, hand = on(Pair)
    with timed.step():
        first = spend(model(X), hand, 50, 500)  # between the calls, in no module
        (first + model(X)).sum().backward()
    assert timed.last() == {**{place: 2 * ns for place, ns in ONE_STEP.items()}, (OUTSIDE, F): 50, (OUTSIDE, B): 500}


def test_a_graph_that_is_run_twice() -> None:
    model, timed, _ = on(Pair)
    with timed.step():
        loss = model(X).sum()
        loss.backward(retain_graph=True)
        loss.backward()
    assert timed.last() == {place: ns * (2 if place[1] is B else 1) for place, ns in ONE_STEP.items()}


def test_a_loss_that_is_a_module_has_its_own_backward() -> None:
    class Loss(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return spend(x, hand, 30, 300).sum()

    model, timed, hand = on(Pair)
    with timed.step():
        Loss()(model(X)).backward()
    assert timed.last() == {**ONE_STEP, (f"{OUTSIDE}.(Loss)", F): 30, (f"{OUTSIDE}.(Loss)", B): 300}


def test_the_backward_of_a_loss_that_is_no_module_is_outside() -> None:
    model, timed, hand = on(Pair)
    with timed.step():
        spend(model(X), hand, 30, 300).sum().backward()
    assert timed.last() == {**ONE_STEP, (OUTSIDE, F): 330}


class Two(nn.Module):
    """Outputs of two branches, in a dictionary; b was called between a's two operators' nodes."""

    def __init__(self, hand: Hand) -> None:
        super().__init__()
        self.hand, self.pair, self.c = hand, Pair(hand), Work(hand, 400, 4000)

    def forward(self, x: torch.Tensor) -> dict[str, Any]:
        early = spend(x * self.c.weight, self.hand, 1, 10)
        middle = self.pair(x)
        return {"first": (spend(early, self.hand, 2, 20),), "second": [self.c(middle)]}


TWO = {**{(f"pair.{p}".rstrip("."), phase): ns for (p, phase), ns in ONE_STEP.items()}, ("c", F): 400, ("c", B): 4000}


def test_several_outputs_in_one_backward() -> None:
    model, timed, _ = on(Two)
    with timed.step():
        out = model(X)
        (out["first"][0] + out["second"][0]).sum().backward()
    assert timed.last() == {**TWO, ("", F): 3, ("", B): 30}


@dataclass
class Output:
    first: torch.Tensor
    second: Any = None


def test_interleaved_branches_found_one_after_the_other() -> None:
    """The node of `second` runs first and its plan does not know `first`, whose nodes lie between its own."""

    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = Work(hand, 1, 10), Work(hand, 2, 200), Work(hand, 3, 3000)

        def forward(self, x: torch.Tensor) -> Output:
            a = self.a(x)
            b = self.b(x)
            again = self.a(a)
            b = spend(self.b(b), hand, 4, 40000)
            return Output(first=b, second=self.c(again))

    hand = Hand()
    model = Branches()
    timed = Timed(model, hand)
    for swap in (False, True):
        with timed.step():
            out = model(X)
            ((out.second + out.first) if swap else (out.first + out.second)).sum().backward()
        assert timed.last() == {
            ("a", F): 2,
            ("b", F): 4,
            ("c", F): 3,
            ("", F): 4,
            ("a", B): 20,
            ("b", B): 400,
            ("c", B): 3000,
            ("", B): 40000,
        }


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_runs_again_in_a_phase_of_its_own(reentrant: bool) -> None:
    class Checkpointed(Pair):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = spend(self.a(x), self.hand, 7, 70)
            return spend(checkpoint(self.b, x, use_reentrant=reentrant), self.hand, 9, 90)

    model, timed, _ = on(Checkpointed)
    for _ in range(2):
        with timed.step():
            model(X.clone().requires_grad_()).sum().backward()
        assert timed.last() == {**ONE_STEP, ("b", R): 200}


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_in_checkpoints(reentrant: bool) -> None:
    class Inner(Pair):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.b, self.a(x), use_reentrant=reentrant)

    class Outer(nn.Module):
        def __init__(self, hand: Hand) -> None:
            super().__init__()
            self.inner = Inner(hand)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return checkpoint(self.inner, x, use_reentrant=reentrant)

    model, timed, _ = on(Outer)
    with timed.step():
        model(X.clone().requires_grad_()).sum().backward()
    times = timed.last()
    backward = {place: ns for place, ns in times.items() if place[1] is B}
    assert backward == {("inner.a", B): 1000, ("inner.b", B): 2000}
    assert times["inner.a", R] == 100 and times["inner.b", R] in (200, 400)  # once for each checkpoint around it
    assert sum(times.values()) == timed.clock.step_ns[0]


def test_frozen_layers_take_no_backward() -> None:
    model, timed, _ = on(Pair)
    model.a.weight.requires_grad_(False)
    with timed.step():
        model(X).sum().backward()
    assert timed.last() == {place: ns for place, ns in ONE_STEP.items() if place != ("a", B)} | {("", B): 90}


def test_a_module_used_twice() -> None:
    class Twice(Pair):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.a(self.b(self.a(x)))

    model, timed, _ = on(Twice)
    with timed.step():
        model(X).sum().backward()
    assert timed.last() == {("a", F): 200, ("b", F): 200, ("a", B): 2000, ("b", B): 2000}


def test_a_parameter_of_another_module_is_that_modules() -> None:
    """The weight belongs to `held`, which never runs: what its accumulation takes is held's, and no more."""

    class Borrower(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.held = Work(hand, 0, 0)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return spend(spend(x, hand, 1, 10) * self.held.weight, hand, 2, 20)

    hand = Hand()
    model = Borrower()
    model.held.weight.register_post_accumulate_grad_hook(lambda parameter: setattr(hand, "ns", hand.ns + 500))
    timed = Timed(model, hand)
    with timed.step():
        model(X.clone().requires_grad_()).sum().backward()
    assert timed.last() == {("", F): 3, ("", B): 30, ("held", B): 500}


def test_only_some_gradients_are_asked_for() -> None:
    model, timed, _ = on(Pair)
    with timed.step():
        torch.autograd.grad(model(X).sum(), [model.b.weight])
    assert timed.last() == {("a", F): 100, ("", F): 16, ("b", F): 200, ("b", B): 2000, ("", B): 90}


def test_no_gradients_at_all() -> None:
    model, timed, _ = on(Pair)
    with timed.step(), torch.no_grad():
        model(X)
    with timed.step(), torch.inference_mode():
        model(X)
    assert timed.found == {("a", F): [100, 100], ("", F): [16, 16], ("b", F): [200, 200]}


class Boom(Exception):
    pass


def test_an_error_in_a_backward_leaves_the_clock_running() -> None:
    class Breaks(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            hand.ns += 5
            raise Boom

    class Breaking(Pair):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.b(Breaks.apply(self.a(x)))  # type: ignore[no-untyped-call]
            return out

    model, timed, hand = on(Breaking)
    with timed.step(), pytest.raises(Boom):
        model(X).sum().backward()
    with timed.step():
        model.b(X).sum().backward()
    assert timed.found == {("a", F): [100, 0], ("b", F): [200, 200], ("b", B): [2000, 2000], ("", B): [5, 0]}


def test_gradients_of_gradients() -> None:
    model, timed, _ = on(Pair)
    with timed.step():
        x = X.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        (gradient.pow(2).sum() + model(x).sum()).backward()
    assert sum(timed.last().values()) == timed.clock.step_ns[0]


def test_results_and_graphs_are_the_programs_own() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Linear(8, 2), nn.Dropout(0.5))
    x = torch.randn(5, 4)

    def gradients() -> list[torch.Tensor]:
        torch.manual_seed(1)
        model.zero_grad()
        out = model(x)
        out.add_(1)  # the output may still be changed in place
        out.pow(2).sum().backward()
        return [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]

    plain = gradients()
    timed = Timed(model, Hand())
    with timed.step():
        assert all(torch.equal(a, b) for a, b in zip(plain, gradients(), strict=True))
        out = model(x)
        graph = weakref.ref(out.grad_fn.metadata.setdefault("kept", Output(first=x)))  # dies with its node
        del out
        gc.collect()
        assert graph() is None
    assert timed.tracker.moved is None


def test_no_hook_stays_in_a_graph_or_on_modules() -> None:
    from torch.nn.modules.module import _global_forward_hooks, _global_forward_pre_hooks

    model, timed, _ = on(Pair)
    before = len(_global_forward_hooks), len(_global_forward_pre_hooks)
    with timed.step():
        loss = model(X).sum()
        loss.backward(retain_graph=True)
    assert (len(_global_forward_hooks), len(_global_forward_pre_hooks)) == before
    reads = []
    timed.clock._backward._take = lambda: reads.append(1)
    loss.backward()
    assert not reads
    timed.clock.close()
    timed.clock.close()


# -- events of a device


class FakeEvent:
    made: ClassVar[list[FakeEvent]] = []

    def __init__(self, hand: Hand) -> None:
        self.hand, self.ns = hand, -1
        FakeEvent.made.append(self)

    def record(self, stream: Any) -> None:
        assert stream == "the stream"
        self.ns = self.hand.ns

    def elapsed_time(self, other: FakeEvent) -> float:
        return (other.ns - self.ns) / 1e6


def test_events_are_waited_for_once_a_step_and_used_again() -> None:
    hand, waits = Hand(), []
    model = Pair(hand)
    tracker = Tracker(model)
    FakeEvent.made.clear()
    ticks = EventTicks(make=lambda: FakeEvent(hand), stream=lambda: "the stream", wait=lambda: waits.append(1))
    clock = StepClock(tracker, CPU, now=hand, ticks=ticks)
    assert clock.source == "cuda events"
    waits.clear()
    made = []
    with tracker.watch():
        for _ in range(3):
            clock.start_step()
            model(X).sum().backward()
            clock.end_step()
            made.append(len(FakeEvent.made))
    assert clock.step_ns == [3476] * 3 and len(waits) == 3 and made[0] == made[2]
    found = {(frame.path, phase): values for (frame, phase), values in clock.samples.items() if any(values)}
    assert found == {place: [ns] * 3 for place, ns in ONE_STEP.items()}


def test_events_of_two_streams_never_give_negative_times() -> None:
    """Events at 0, 5, 3 (another stream was ahead), 9: positions 0, 5, 5, 9."""
    hand = Hand()
    ticks = EventTicks(make=lambda: FakeEvent(hand), stream=lambda: "the stream", wait=lambda: None)
    taken = []
    for ns in (0, 5, 3, 9):
        hand.ns = ns
        taken.append(ticks.take())
    assert ticks.read(taken) == [0, 5, 5, 9]
    assert ticks.read([]) == []


def test_frames_are_those_of_the_tracker() -> None:
    model, timed, _ = on(Pair)
    with timed.step():
        model(X)
    frames = {*timed.tracker.frames.values(), timed.tracker.outside}
    assert {frame for frame, _ in timed.clock.samples} <= frames
