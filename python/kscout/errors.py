"""Errors of the library: one class per code, under one base.

    try:
        selector = kscout.Selector.load("models/none")
    except kscout.NotFound as error:
        print(error, error.code)

The message names the value, the limit and the remedy.
"""


class Error(RuntimeError):
    """Base class of all exceptions of kscout."""

    code = ""


class InvalidArgument(Error, ValueError):
    """The call can never work; correct it."""

    code = "invalid_argument"


class NotFound(Error, LookupError):
    """A named file, device, model or kernel is absent."""

    code = "not_found"


class Unsupported(Error):
    """A valid request that nothing here supports."""

    code = "unsupported"


class MissingPackage(Unsupported, ImportError):
    """A package is needed that is not installed; the message names it."""

    code = "missing_package"


class CorruptData(Error):
    """Bytes do not match their format or checksum."""

    code = "corrupt_data"


class DeviceFailure(Error):
    """The operating system, a driver or a kernel reported an error."""

    code = "device_failure"


by_code = {kind.code: kind for kind in (InvalidArgument, NotFound, Unsupported, CorruptData, DeviceFailure)}
