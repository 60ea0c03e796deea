/** A command line that cannot be carried out; the exit code is 2. */
export class UsageError extends Error {}

/** A command that failed for a reason that the message tells; the exit code is 1. */
export class CommandError extends Error {}

/** The controller cannot be reached at present, for a reason that may pass. */
export class UnreachableError extends CommandError {}
