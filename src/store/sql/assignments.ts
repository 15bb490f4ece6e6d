import { type Kysely, sql } from 'kysely'
import { NO_MARK, PackedRows } from '../../base/packed-rows.ts'
import {
  ASSIGNMENT_MARKS,
  ASSIGNMENT_PACKING,
  groupAssignees,
} from '../../limits/assignments/packing.ts'
import type { Assignment, AssignmentStore } from '../../limits/assignments/store.ts'
import { buildAuditInsert } from './audit.ts'
import type { Tables } from './tables.ts'
import { type OpenReader, readInTurns } from './turns.ts'
import type { Write } from './write.ts'

/** Creates the store of guardrail assignments in SQL, with a table for keys and one for members. */
export function createAssignmentStore(
  kysely: Kysely<Tables>,
  write: Write,
  openReader: OpenReader,
): AssignmentStore {
  let reader: ReturnType<OpenReader> | undefined
  return {
    async all(names) {
      reader ??= openReader('guardrail_keys', renderAssignment)
      const assigned = kysely
        .selectFrom('guardrail_members')
        .select(['id', 'guardrail_id', 'user_id as assignee', 'assigned_by', 'created_at'])
      const listMembers = async (rows: typeof assigned): Promise<Assignment[]> =>
        (await rows.execute()).map(member => ({ ...member, kind: 'member' }))
      if (!names) {
        const pages = await readInTurns(reader)
        return PackedRows.pack(ASSIGNMENT_PACKING, pages, await listMembers(assigned))
      }
      const { keys, members } = groupAssignees(names)
      return [
        ...(await reader.readSome('key_hash', keys)).map(ASSIGNMENT_PACKING.parse),
        ...(members.length > 0 ? await listMembers(assigned.where('user_id', 'in', members)) : []),
      ]
    },
    assign(assignments, entry) {
      return write(
        ...assignments.flatMap(assignment => [
          buildDelete(kysely, assignment),
          buildInsert(kysely, assignment),
        ]),
        buildAuditInsert(kysely, entry),
      )
    },
    unassign(assignments, entry) {
      return write(
        ...assignments.map(({ kind, id }) => kysely.deleteFrom(TABLES[kind]).where('id', '=', id)),
        buildAuditInsert(kysely, entry),
      )
    },
  }
}

const renderAssignment: Parameters<OpenReader>[1] = list => {
  const [first, others] = [
    ['key_hash', 'created_at'],
    ['guardrail_id', 'id', 'assigned_by'],
  ]
  const mark = sql.lit(NO_MARK + ASSIGNMENT_MARKS.key)
  return list([...first.map(name => sql.ref(name)), mark, ...others.map(name => sql.ref(name))])
}

const TABLES = { key: 'guardrail_keys', member: 'guardrail_members' } as const

const buildDelete = (kysely: Kysely<Tables>, { kind, assignee }: Assignment) =>
  kind === 'key'
    ? kysely.deleteFrom('guardrail_keys').where('key_hash', '=', assignee)
    : kysely.deleteFrom('guardrail_members').where('user_id', '=', assignee)

const buildInsert = (kysely: Kysely<Tables>, { kind, assignee, ...rest }: Assignment) =>
  kind === 'key'
    ? kysely.insertInto('guardrail_keys').values({ ...rest, key_hash: assignee })
    : kysely.insertInto('guardrail_members').values({ ...rest, user_id: assignee })
