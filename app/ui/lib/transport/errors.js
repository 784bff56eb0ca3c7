// Why a request had no answer.

import { t } from "../strings.js";

/** What the daemon refused, in its own words. */
export class ApiError extends Error {
  constructor(status, error = {}) {
    super(error.message ?? t("refused", { status }));
    this.status = status;
    this.code = error.code ?? null;
    this.param = error.param ?? null;
  }
}

/** The daemon cannot be reached at all. */
export class Unreachable extends Error {}

/** What a cancelled request ends with. */
export const cancelled = () => new DOMException("cancelled", "AbortError");

export const isCancelled = (error) => error?.name === "AbortError";
