import type { Packing } from '../../base/packed-rows.ts'
import type { Assignment } from './store.ts'

/** The marks of assignments: every row is of a key. */
export const ASSIGNMENT_MARKS = { member: 1, key: 2 } as const

/** How assignments are held in memory: there may be as many as keys. */
export const ASSIGNMENT_PACKING: Packing<Assignment> = {
  parse: parseAssignment,
  getName: buildAssigneeName,
  getGroup: ({ guardrail_id }) => guardrail_id,
  getMark: ({ kind }) => ASSIGNMENT_MARKS[kind],
  tie: 'field',
  getTie: ({ id }) => id,
}

/**
 * Builds the name that the assignment of a key or a member is kept under: a key's is its hash itself,
 * since there may be very many.
 */
export function buildAssigneeName({
  kind,
  assignee,
}: Pick<Assignment, 'kind' | 'assignee'>): string {
  return kind === 'key' ? assignee : `member ${assignee}`
}

/** Finds whose assignments are kept under these names. */
export function groupAssignees(names: string[]): { keys: string[]; members: string[] } {
  const start = buildAssigneeName({ kind: 'member', assignee: '' })
  const [members, keys] = [true, false].map(isMember =>
    names.filter(name => name.startsWith(start) === isMember),
  ) as [string[], string[]]
  return { keys, members: members.map(name => name.slice(start.length)) }
}

/** The fields of a row. */
type Row = [
  key_hash: string,
  created_at: string,
  mark: number,
  guardrail_id: string,
  id: string,
  assigned_by: string | null,
]

function parseAssignment(fields: unknown[]): Assignment {
  const [assignee, created_at, , guardrail_id, id, assigned_by] = fields as Row
  return { id, guardrail_id, kind: 'key', assignee, assigned_by, created_at }
}
