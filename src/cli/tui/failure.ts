import { describeSystemError } from '../system-errors.ts'

/** Describes in a sentence why something failed: what the system or the database says, in words. */
export const describeFailure = (thrown: unknown): string =>
  describeSystemError(thrown) ?? (thrown instanceof Error ? thrown.message : String(thrown))
