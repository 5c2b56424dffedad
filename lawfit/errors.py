"""The errors that a caller of lawfit can meet; every message says what came, what was expected, and where."""


class LawfitError(Exception):
    """Root of all errors raised on purpose; a command shows its message as one line and exits with 2."""


class LogFormatError(LawfitError):
    """A file or frame is not a valid round log."""


class FitError(LawfitError):
    """A fit was asked for with settings that cannot be carried out, or the optimiser failed."""


class NotIdentified(LawfitError):
    """The log does not hold what is needed to identify the law that was asked for."""
