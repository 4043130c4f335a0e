"""What vLLM says when it cannot."""

import msgspec

REASONS = {
    100: "Continue",
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Content Too Large",
    429: "Too Many Requests",
    500: "Internal Server Error",
    502: "Bad Gateway",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}
TYPES = {
    400: "BadRequestError",
    404: "NotFoundError",
    413: "BadRequestError",
    429: "TooManyRequestsError",
    503: "ServiceUnavailableError",
}


class DialectError(Exception):
    """The client's mistake, with the answer that it gets."""

    def __init__(self, message: str, status: int = 400, param: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param


def reason(status: int) -> str:
    return REASONS.get(status, "Error")


def error_body(status: int, message: str, param: str | None = None) -> bytes:
    kind = TYPES.get(status, "InternalServerError")
    error = {"message": message, "type": kind, "param": param, "code": status}
    return msgspec.json.encode({"error": error})
