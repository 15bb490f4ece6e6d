import type { Static, TSchema } from '@sinclair/typebox'
import { invalid } from '../../base/errors.ts'
import { describeIssue, findSchemaIssue } from '../../base/schema.ts'

/**
 * Returns the value if it matches the schema. Otherwise throws 400 that names the field, `path` and
 * what is below it.
 */
export function requireMatch<T extends TSchema>(
  schema: T,
  value: unknown,
  path: string,
): Static<T> {
  const issue = findSchemaIssue(schema, value)
  if (!issue) return value as Static<T>
  const field = [path, issue.path].filter(part => part !== '').join('.')
  throw invalid(describeIssue(issue, field || 'The parameters'), field)
}
