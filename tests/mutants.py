r"""Deliberate mistakes, each of which the quick tests must find: ``python tests/mutants.py``.

Every mistake is made in a copy of the source, and the quick tests of its subject are run
until one fails; ``--only TEXT`` takes the mutants whose path or text has it.
"""
# ruff: noqa: E501

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
_ALL = "tests/unit tests/properties tests/contract"


class Mutant(NamedTuple):
    r"""A mistake: ``old`` stands once in the file and becomes ``new``."""

    path: str
    old: str
    new: str
    tests: str  # where it should be found, files or words for ``-k``


MUTANTS = [
    # Where an assumption holds, and what acts on it.
    Mutant("confidence/assumptions.py", "status = self.status if self.domain.covers(X) else self.everywhere", "status = self.status", "tests/contract/test_domain.py"),
    Mutant("confidence/domain.py", "return X is not None and bool(self.mask(X).all())", "return X is None or bool(self.mask(X).all())", "tests/contract/test_domain.py"),
    Mutant("confidence/tasks.py", "        if outside == 0:", "        if outside < len(inputs):", "tests/contract/test_domain.py"),
    Mutant("certificates/task.py", "asked = torch.cat([asked, self.beside])", "pass", "tests/contract/test_domain.py"),
    Mutant("safety.py", "inside &= each.band.assumptions.mask(X)", "pass", "tests/contract/test_domain.py"),
    Mutant("certificates/words.py", "return settled and may_act and not self.obstacle", "return settled and not self.obstacle", "tests/contract/test_domain.py"),
    Mutant("certificates/pareto.py", "dominated=possible & ~rivals", "dominated=~rivals", "tests/unit/test_pareto.py"),
    Mutant("acquisition/ucb.py", "searched.widest_every = 1 if whole else searched.widest_every", "pass", "tests/contract/test_domain.py"),
    Mutant("certificates/level_sets.py", "    spend(sample_delta)\n", "", "tests/unit/test_claims.py"),
    # How many points fail together, and which pairs a front may leave out.
    Mutant("confidence/dual.py", "weight = math.sqrt(float(self.grid.squared_widths[node])) / distance", "weight = 0.9 * math.sqrt(float(self.grid.squared_widths[node])) / distance", "tests/unit/test_failures_at_once.py"),
    Mutant("certificates/pareto.py", "slack = _ROUND_OFF * (high - low)", "slack = -0.2 * (high - low)", "tests/unit/test_pareto.py"),
    # Formulas of the fit and of the set.
    Mutant("confidence/radius.py", "float(log_dets) + confidence", "0.5 * float(log_dets) + confidence", "tests/unit/test_exactness.py tests/unit/test_fit.py"),
    Mutant("confidence/radius.py", "tau_ref, confidence = float(taus[0]), 2.0 * math.log(1.0 / delta)", "tau_ref, confidence = float(taus[0]), math.log(1.0 / delta)", "tests/unit/test_exactness.py tests/unit/test_fit.py"),
    Mutant("confidence/radius.py", "2.0 * math.log(len(taus))", "math.log(len(taus))", "tests/unit/test_fit.py"),
    Mutant("confidence/radius.py", "length * (2.0 * root + length)", "length * (root + length)", "tests/unit/test_model_error.py"),
    Mutant("confidence/radius.py", "shares = (_PREDICTION_SHARE, 1.0", "shares = (3.0 * _PREDICTION_SHARE, 1.0", "tests/unit/test_prequential.py"),
    Mutant("confidence/filters.py", "return log_dets - count * torch.log1p(-self.floors", "return log_dets + count * torch.log1p(-self.floors", "tests/unit/test_fit.py tests/unit/test_claims.py"),
    Mutant("confidence/filters.py", "2.0 * xlogy(weights, weights).sum()", "xlogy(weights, weights).sum()", "tests/unit/test_fit.py tests/unit/test_high_precision.py"),
    Mutant("confidence/filters.py", "2.0 * math.log(2.0 * _NUM_HYBRIDS / 0.2)", "2.0 * math.log(_NUM_HYBRIDS / 0.2)", "tests/unit/test_fit.py"),
    Mutant("confidence/radius.py", "self.radius.slack + regularizer * self.ball**2 + drop", "self.radius.slack + regularizer * self.ball + drop", "tests/unit/test_exactness.py"),
    Mutant("confidence/dual.py", "self.mean_terms = sign * functions", "self.mean_terms = functions", "tests/unit/test_exactness.py tests/contract"),
    Mutant("confidence/least_norm.py", "left = 1.0 / (self.lam / tau + 1.0)", "left = 1.0 / (self.lam / tau + 2.0)", "tests/unit/test_norms.py"),
    Mutant("confidence/ridge.py", "norm + math.sqrt((log_det + 2.0", "norm + math.sqrt((log_det + 1.0", "tests/unit/test_baselines.py"),
    Mutant("confidence/ridge.py", "(1.0 + 2.0 / horizon) / noise_std**2", "(1.0 + 2.0 / horizon) / noise_std", "tests/unit/test_baselines.py"),
    Mutant("papers/srinivas.py", "math.pi**2 / (6.0 * delta)", "math.pi**2 / (3.0 * delta)", "tests/unit/test_baselines.py"),
    Mutant("papers/streaming.py", "1.0 + math.sqrt(2.0 * constant / t)", "1.0 + math.sqrt(constant / t)", "tests/unit/test_streaming.py"),
    Mutant("papers/bkb.py", "math.hypot(noise + norm * inside, norm * math.sqrt(share))", "noise + norm * inside", "tests/unit/test_bkb.py"),
    Mutant("papers/meta.py", "(delta * n * (n - t - 1))", "(delta * n * (n - t))", "tests/unit/test_meta.py"),
    Mutant("confidence/counts.py", "limit = limit + (slope * (latent - self.data.mean))", "limit = limit - (slope * (latent - self.data.mean))", "tests/unit/test_likelihood_set.py"),
    # What keeps a band's status, and its copy of the model.
    Mutant("confidence/band.py", "band.limited(self.sources, flaws, self.direction)", "band.limited(self.sources, flaws, 1)", "tests/unit/test_bands_at.py"),
    Mutant("confidence/band.py", "band.limited(sources, tuple(flaws), ", "band.limited(sources, (), ", "tests/unit/test_bands_at.py"),
    Mutant("confidence/band.py", 'given["model"] = reads(given["model"])', 'reads(given["model"])', "tests/unit/test_bands_at.py"),
    Mutant("confidence/assumptions.py", "elif order.index(item.status) <= max(map(order.index, present)):", "elif order.index(item.status) >= max(map(order.index, present)):", "tests/unit/test_bands_at.py tests/unit/test_assumptions.py"),
    Mutant("certificates/task.py", "once[key].relaxed(max(norm_factor, 1.0), noise_factor)", "once[key].relaxed(norm_factor, noise_factor)", "tests/unit/test_claims.py"),
    Mutant("_numerics/kernels.py", "if _agrees(reading(kernel, factor), kernel, factor, inputs):", "if True:", "tests/unit/test_kernels.py"),
    # Signs, shares of delta, transforms and sides, one or more in each room.
    Mutant("confidence/assumptions.py", "else sum(filter(None, deltas))", "else max(filter(None, deltas))", "tests/unit/test_assumptions.py tests/unit/test_constrained.py"),
    Mutant("confidence/band.py", 'each["delta"] = delta * share / sum(shares)', 'each["delta"] = delta', "tests/unit/test_bands_at.py"),
    Mutant("confidence/combined.py", "return sign if self.weights[index] > 0 else -sign", "return sign", "tests/unit/test_scalarized.py"),
    Mutant("confidence/combined.py", "return self.joined(gains) + 2.0 * self.error", "return self.joined(gains) + self.error", "tests/unit/test_model_error.py"),
    Mutant("confidence/combined.py", "gain = torch.minimum(gain, end - least)", "gain = torch.minimum(gain, end + least)", "tests/unit/test_claims.py"),
    Mutant("confidence/family.py", "return (norm_bound / _UNIT_NORM) ** 2", "return norm_bound / _UNIT_NORM", "tests/unit/test_family.py"),
    Mutant("confidence/radius.py", "levels / (levels + noise_factor**2 * (1.0 - levels))", "levels / (levels + (1.0 - levels) / noise_factor**2)", "tests/unit/test_claims.py"),
    Mutant("data/kernel_family.py", "log_share = _log_weight(ratio, dimension) - log_nested", "log_share = _log_weight(ratio, dimension) - 2.0 * log_nested", "tests/unit/test_family.py"),
    Mutant("data/exact.py", "- 2.0 * covariance", "- covariance", "tests/unit/test_certificates.py tests/unit/test_guarded.py"),
    Mutant("data/outcome_map.py", "shift = gain if sign == -1 else 0.0", "shift = 0.0", "tests/unit/test_outcome_transforms.py"),
    Mutant("acquisition/ucb.py", "1 if self.maximize == (self._weight > 0) else -1", "1 if self.maximize else -1", "tests/unit/test_certificates.py tests/unit/test_acquisition.py tests/unit/test_guarded.py"),
    Mutant("confidence/band.py", "self.outcome_map.inverse(self._sides(X))", "self._sides(X)", "tests/unit/test_outcome_transforms.py"),
    Mutant("papers/srinivas.py", "width = math.sqrt(scale * float(beta))", "width = scale * float(beta)", "tests/unit/test_baselines.py"),
    Mutant("bandit/kernel_bandit.py", "squared + taus * norm**2 - form", "squared + 0.9 * taus * norm**2 - form", "tests/unit/test_bandits.py"),
    Mutant("certificates/boxes.py", "halves = cells.halves * (1.0 - 0.5 * side)", "halves = cells.halves * (1.0 - 0.6 * side)", "tests/unit/test_certificates.py"),
    Mutant("certificates/boxes.py", "(value[1] + change(centres, halves)).clamp_max(limit)", "(value[1] + 0.5 * change(centres, halves)).clamp_max(limit)", "tests/unit/test_certificates.py"),
    Mutant("certificates/regret.py", "certificate.gap <= self.gap", "certificate.gap >= self.gap", "tests/unit/test_certificates.py"),
    Mutant("pairs.py", "for count in counts) - 2.0 * math.log(delta)", "for count in counts) - math.log(delta)", "tests/unit/test_claims.py"),
    Mutant("confidence/outcome_constraints.py", "low, high = (lower, upper) if self.sign > 0 else (upper, lower)", "low, high = lower, upper", "tests/unit/test_constrained.py tests/unit/test_safety.py"),
    Mutant("safety.py", "inside = self.margin(X) >= 0.0", "inside = self.margin(X) >= -0.1", "tests/unit/test_safety.py"),
    Mutant("papers/meta_model.py", "((count - 1) / (count - t - 1))", "((count - 1) / (count - t))", "tests/unit/test_meta.py"),
    Mutant("papers/thompson.py", "drawn = (values @ basis) * (lam / (lam + regularizer))", "drawn = (values @ basis) * (regularizer / (lam + regularizer))", "tests/unit/test_thompson.py"),
    Mutant("diagnostics.py", "gain = 0.5 * float(torch.log1p", "gain = float(torch.log1p", "tests/unit/test_information_gain.py"),
    Mutant("bandit/kernel_bandit.py", "2.0 * pivot.log() - self.regularizers.log()", "2.0 * pivot.log()", "tests/unit/test_bandits.py"),
    Mutant("papers/bkb_bandit.py", "self._information + math.log(1.0 / self.rule.delta)", "self._information", "tests/unit/test_bkb_bandit.py"),
    Mutant("data/nystrom.py", "(targets.square() * tau / (eigenvalues + tau))", "(targets.square() / (eigenvalues + tau))", "tests/unit/test_nystrom.py"),
    # What trains and what is remembered of it.
    Mutant("papers/bkb_variational.py", "0.5 * excess - half.diagonal()", "0.5 * excess - 0.5 * half.diagonal()", "tests/unit/test_bkb_variational.py"),
    Mutant("papers/bkb_variational.py", "self._observed(prior, self.likelihood.noise.double().squeeze())", "self._observed(prior, self.likelihood.noise.detach().double().squeeze())", "tests/unit/test_bkb_variational.py"),
    Mutant("papers/bkb_variational.py", "torch.tensor(trained).to", "torch.zeros_like(self.was_trained).to", "tests/unit/test_bkb_variational.py"),
    Mutant("papers/bkb_variational.py", "if before == parts and all(", "if before == parts or all(", "tests/unit/test_bkb_variational.py"),
    Mutant("papers/bkb.py", '"noise" in known.estimated - state.estimated', '"noise" in state.estimated - known.estimated', "tests/unit/test_bkb_variational.py"),
    Mutant("_numerics/kernels.py", "self.kernel(right, left).to_dense().mT", "self.kernel(left, right).to_dense()", "tests/unit/test_kernels.py"),
    # What replicates and designs say.
    Mutant("confidence/pointwise.py", "torch.log1p(product) + 2.0 * level", "torch.log1p(product) + level", "tests/unit/test_pointwise.py"),
    Mutant("confidence/pointwise.py", "order * (order + 1.0) if", "order if", "tests/unit/test_pointwise.py"),
    Mutant("confidence/pointwise.py", "math.log(2.0 / share) + log_size", "math.log(1.0 / share) + log_size", "tests/unit/test_pointwise.py"),
    Mutant("confidence/pointwise.py", "deviation + math.sqrt(energy) * apart", "deviation + 0.0 * apart", "tests/unit/test_pointwise.py"),
    Mutant("confidence/pointwise.py", "sign * across * height", "across * height", "tests/unit/test_pointwise.py"),
    Mutant("confidence/pointwise.py", "self.noise_factor * deviation", "deviation", "tests/unit/test_pointwise.py"),
    Mutant("confidence/noise.py", "chi2.ppf([1.0 - delta, delta]", "chi2.ppf([1.0 - delta, 1.0 - delta]", "tests/unit/test_pointwise.py"),
    Mutant("confidence/noise.py", "(1.0 - self.share) * delta / self.num_levels", "delta / self.num_levels", "tests/unit/test_pointwise.py"),
    Mutant("confidence/noise.py", "low * _STEP**level", "low * _STEP ** (level - 1)", "tests/unit/test_pointwise.py"),
    Mutant("confidence/combined.py", "torch.minimum(above, end) - least", "end - least", "tests/unit/test_pointwise.py"),
    Mutant("confidence/limits.py", "(alone.lower > upper) | (alone.upper < lower)", "(alone.lower > upper) & (alone.upper < lower)", "tests/unit/test_pointwise.py"),
    Mutant("confidence/band.py", "else delta / self._deltas", "else delta", "tests/unit/test_pointwise.py"),
]  # fmt: skip


def found(mutant: Mutant, folder: Path) -> tuple[bool, str]:
    r"""Whether the tests fail on a mutant, and their last line."""
    source = folder / "kernelucb" / mutant.path
    text = source.read_text()
    if text.count(mutant.old) != 1:
        return False, f"{text.count(mutant.old)} places in {mutant.path}"
    source.write_text(text.replace(mutant.old, mutant.new))
    try:
        files = [each for each in mutant.tests.split() if (ROOT / each).exists()]
        words = mutant.tests.split("-k")[1:]
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        command += files + (["-k", words[0].strip()] if words else [])
        path = f"{folder}{os.pathsep}{ROOT}"
        run = subprocess.run(
            command,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
        )
    finally:
        source.write_text(text)
    lines = [line for line in run.stdout.splitlines() if line.startswith("FAILED")]
    return run.returncode == 1, (lines or run.stdout.splitlines()[-1:] or [""])[0]


def main() -> int:
    r"""Try all mutants; the exit status is the number that was not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="a part of a path or of a mistake")
    only = parser.parse_args().only
    chosen = [each for each in MUTANTS if only in f"{each.path} {each.old} {each.new}"]
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "src" / "kernelucb", Path(folder) / "kernelucb")
        for number, mutant in enumerate(chosen, 1):
            ok, line = found(mutant, Path(folder))
            missed += not ok
            verdict = "found" if ok else "MISSED"
            print(
                f"{number}/{len(chosen)} {verdict} {mutant.path}: {mutant.new}\n    {line}",
                flush=True,
            )
    print(f"{len(chosen) - missed} of {len(chosen)} found")
    return missed


if __name__ == "__main__":
    sys.exit(main())
