import { type GatewayError, invalid } from '../base/errors.ts'

/** Something that is wrong in the config: where, and a sentence. */
export interface ConfigIssue {
  message: string
  /**
   * Returns the names on the way to the setting, for its place in the file. A function, as a name
   * that is not known may be a misplaced secret.
   */
  getNames(): string[]
}

/** Something that is wrong in the config, before it is an error. */
export interface FoundIssue {
  /** The names on the way to the setting. */
  names: string[]
  message: string
  /** The setting as errors name it; its names with dots between where it is left out. */
  field?: string
}

/** Creates one error of everything that is wrong in a config: one line for each. */
export function createConfigError(found: FoundIssue[]): GatewayError {
  const issues = found.map(
    ({ names, message }): ConfigIssue => ({ message, getNames: () => names }),
  )
  const [first] = found
  const error = invalid(
    issues.map(({ message }) => message).join('\n'),
    first?.field ?? first?.names.join('.'),
  )
  return error.with({ metadata: { ...error.metadata, issues } })
}
