// Why a request failed.

import { t } from "../strings.js";

/** An error response, with the daemon's own message. */
export class ApiError extends Error {
  constructor(status, error = {}) {
    super(error.message ?? t("refused", { status }));
    this.status = status;
    this.code = error.code ?? null;
    this.param = error.param ?? null;
  }
}

/** The daemon did not answer, or not to the end. */
export class Unreachable extends Error {}

export const isUnreachable = (error) => error instanceof Unreachable;

/** The error of a cancelled request. */
export const cancelled = () => new DOMException("cancelled", "AbortError");

export const isCancelled = (error) => error?.name === "AbortError";
