import type { Kysely } from 'kysely'
import { notFound } from '../../base/errors.ts'
import type { ResponseStore, StoredResponse } from '../../resources/responses/store.ts'
import { buildAuditInsert } from './audit.ts'
import { selectFitting } from './erasing.ts'
import { createRemoval } from './evictions.ts'
import { SUM_OF_BLOCKS } from './files.ts'
import type { Tables } from './tables.ts'
import { checkWorkspaceReference } from './workspaces.ts'
import { check, follow, prepare, type Statement, type Write } from './write.ts'

/** Creates the store of responses in SQL. */
export const createResponseStore = (kysely: Kysely<Tables>, write: Write): ResponseStore => ({
  insert: (response, items, judge) =>
    write(
      checkWorkspaceReference(kysely, response.workspace_id),
      check(selectUse(kysely, response.workspace_id), ([row]) => judge(row?.bytes ?? 0)),
      kysely.insertInto('responses').values(response),
      ...insertItems(response, items),
    ),
  async end({ id, ...ended }, items, entry) {
    let isEnded = false
    const open = selectResponses(kysely).where('id', '=', id).where('status', '=', 'queued')
    await write(
      follow(open, ([row]) => {
        isEnded = row !== undefined
        if (!row) return []
        const update = kysely.updateTable('responses').set(ended).where('id', '=', id)
        const audit = entry ? [buildAuditInsert(kysely, entry)] : []
        return [update, ...insertItems(row, items), ...audit]
      }),
    )
    return isEnded
  },
  find: id => selectResponses(kysely).where('id', '=', id).executeTakeFirst(),
  async listUncancelled(ids) {
    const rows = kysely
      .selectFrom('responses')
      .select('id')
      .where('id', 'in', ids)
      .where('status', '<>', 'cancelled')
    return (await rows.execute()).map(({ id }) => id)
  },
  findByItem: (key_hash, item_id) =>
    selectResponses(kysely)
      .innerJoin('response_items', 'response_items.response_id', 'responses.id')
      .where('response_items.key_hash', '=', key_hash)
      .where('item_id', '=', item_id)
      .executeTakeFirst(),
  async computeUse(workspace_id) {
    return (await selectUse(kysely, workspace_id).executeTakeFirst())?.bytes ?? 0
  },
  remove: (id, entry) =>
    write(
      check(kysely.selectFrom('responses').select('id').where('id', '=', id), ([row]) => {
        if (!row) throw notFound('Response not found')
      }),
      kysely.deleteFrom('responses').where('id', '=', id),
      buildAuditInsert(kysely, entry),
    ),
  removeBefore: createRemoval(write, 'responses', REMOVE_OLD),
})

const REMOVE_OLD = `delete from responses where sequence in (${selectFitting(
  'select sequence, size_bytes from responses where created_at < ? order by created_at limit 1000',
)}) returning 1`

const selectResponses = (kysely: Kysely<Tables>) =>
  kysely
    .selectFrom('responses')
    .select(['responses.id', 'workspace_id', 'responses.key_hash', 'status', 'created_at'])
    .select(['size_bytes', 'sealed'])

const selectUse = (kysely: Kysely<Tables>, workspace_id: string) =>
  kysely
    .selectFrom('responses')
    .select(SUM_OF_BLOCKS.as('bytes'))
    .where('workspace_id', '=', workspace_id)

/** In one statement, whatever their number. */
const insertItems = (
  { id, key_hash }: Pick<StoredResponse, 'id' | 'key_hash'>,
  items: string[],
): Statement[] =>
  items.length === 0 ? [] : [prepare(INSERT_ITEMS, key_hash, id, JSON.stringify(items))]

const INSERT_ITEMS = `insert into response_items (key_hash, item_id, response_id)
  select ?, value, ? from json_each(?) where true
  on conflict (key_hash, item_id) do update set response_id = excluded.response_id`
