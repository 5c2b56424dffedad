"""Errors of the runtime."""

from lawfit.errors import LawfitError


class TargetError(LawfitError):
    """A folder holds no usable target model, or the runtime's packages are absent."""


class CommitError(LawfitError):
    """A commit would publish rows that verification did not produce."""


class TrainingError(LawfitError):
    """Training rows, caches or checkpoints do not fit together."""


class ManifestMismatch(LawfitError):
    """A drafter does not belong to the target that it is loaded against."""
