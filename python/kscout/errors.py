"""Errors of the library: one class per code, under one base.

    try:
        selector = kscout.Selector.load("models/none")
    except kscout.NotFound as error:
        print(error, error.code)

The message names the value, the limit and the remedy.
"""


class Error(RuntimeError):
    """Base of everything that kscout raises on its own account."""

    code = ""


class InvalidArgument(Error, ValueError):
    """Could never work; fix the call."""

    code = "invalid_argument"


class NotFound(Error, LookupError):
    """A named file, device, model or kernel is absent."""

    code = "not_found"


class Unsupported(Error):
    """A fair request that no code here serves."""

    code = "unsupported"


class CorruptData(Error):
    """Bytes do not match their format or checksum."""

    code = "corrupt_data"


class DeviceFailure(Error):
    """The operating system, a driver or a kernel reported an error."""

    code = "device_failure"


by_code = {kind.code: kind for kind in (InvalidArgument, NotFound, Unsupported, CorruptData, DeviceFailure)}
