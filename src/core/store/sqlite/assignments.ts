import { type Kysely, sql } from 'kysely'
import type { Assignment, AssignmentStore } from '../../policy/assignments/store.ts'
import { buildAuditInsert } from './audit.ts'
import type { Tables } from './tables.ts'
import { readInTurns, type Share } from './turns.ts'
import type { Write } from './write.ts'

/** Creates the store of guardrail assignments in SQL, with a table for keys and one for members. */
export function createAssignmentStore(kysely: Kysely<Tables>, write: Write): AssignmentStore {
  return {
    async all() {
      const keys = await readInTurns(
        (after, count) =>
          kysely
            .selectFrom('guardrail_keys')
            .select([...SHARED, 'key_hash as assignee'])
            .where(PLACE.expression, '>', after)
            .orderBy(PLACE.expression)
            .limit(count)
            .execute(),
        createConversion('key'),
      )
      const members = await readInTurns(
        (after, count) =>
          kysely
            .selectFrom('guardrail_members')
            .select([...SHARED, 'user_id as assignee'])
            .where(PLACE.expression, '>', after)
            .orderBy(PLACE.expression)
            .limit(count)
            .execute(),
        createConversion('member'),
      )
      return [...keys, ...members]
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

const PLACE = sql<number>`rowid`.as('place')

/** What both tables have. */
const SHARED = [PLACE, 'id', 'guardrail_id', 'assigned_by', 'created_at'] as const

// One copy of what many have in common: there may be as many as keys.
const createConversion =
  (kind: Assignment['kind']) =>
  (row: Omit<Assignment, 'kind'>, share: Share): Assignment => ({
    id: row.id,
    guardrail_id: share(row.guardrail_id),
    kind,
    assignee: row.assignee,
    assigned_by: share(row.assigned_by),
    created_at: share(row.created_at),
  })

const TABLES = { key: 'guardrail_keys', member: 'guardrail_members' } as const

const buildDelete = (kysely: Kysely<Tables>, { kind, assignee }: Assignment) =>
  kind === 'key'
    ? kysely.deleteFrom('guardrail_keys').where('key_hash', '=', assignee)
    : kysely.deleteFrom('guardrail_members').where('user_id', '=', assignee)

const buildInsert = (kysely: Kysely<Tables>, { kind, assignee, ...rest }: Assignment) =>
  kind === 'key'
    ? kysely.insertInto('guardrail_keys').values({ ...rest, key_hash: assignee })
    : kysely.insertInto('guardrail_members').values({ ...rest, user_id: assignee })
