import { type Kysely, type Selectable, sql } from 'kysely'
import { notFound } from '../../base/errors.ts'
import { BLOCK, checkFileQuota } from '../../resources/files/quota.ts'
import { USUAL_PURPOSE } from '../../resources/files/schema.ts'
import type { CopySource, FileStore, StoredFile } from '../../resources/files/store.ts'
import { buildAuditInsert } from './audit.ts'
import type { Tables } from './tables.ts'
import { checkWorkspaceReference } from './workspaces.ts'
import { check, toColumns, type Write } from './write.ts'

/** Creates the store of the records of files in SQL. `writeFreeing` is for deletions. */
export const createFileStore = (
  kysely: Kysely<Tables>,
  write: Write,
  writeFreeing: Write,
): FileStore => ({
  insert: (file, quota, entry, source) =>
    write(
      checkWorkspaceReference(kysely, file.workspace_id),
      check(selectUse(kysely, file.workspace_id), ([row]) =>
        checkFileQuota(quota, row ?? NOTHING, file.size_bytes),
      ),
      kysely.insertInto('files').values(toColumns<Row>(file)),
      ...(source ? [markCopied(kysely, source, file.id)] : []),
      buildAuditInsert(kysely, entry),
    ),
  async find(id) {
    const query = kysely.selectFrom('files').selectAll().where('id', '=', id)
    const row = await query.executeTakeFirst()
    return row && toFile(row)
  },
  async listRange({ workspace_id, now, order, after, purpose, limit }) {
    const all = kysely
      .selectFrom('files')
      .selectAll()
      .where('workspace_id', '=', workspace_id)
      .where(({ eb, or }) => or([eb('expires_at', 'is', null), eb('expires_at', '>', now)]))
    const own =
      purpose === undefined
        ? all
        : all.where(({ fn, val }) => fn.coalesce('purpose', val(USUAL_PURPOSE)), '=', purpose)
    const rest = after === undefined ? own : own.where('id', order === 'asc' ? '>' : '<', after)
    return (await rest.orderBy('id', order).limit(limit).execute()).map(toFile)
  },
  async computeUse(workspace_id) {
    return (await selectUse(kysely, workspace_id).executeTakeFirst()) ?? NOTHING
  },
  remove: (id, entry) =>
    writeFreeing(
      check(kysely.selectFrom('files').select('id').where('id', '=', id), ([row]) => {
        if (!row) throw notFound('File not found')
      }),
      kysely.deleteFrom('files').where('id', '=', id),
      ...(entry ? [buildAuditInsert(kysely, entry)] : []),
    ),
  async listExpired(time, limit) {
    const expired = kysely.selectFrom('files').selectAll().where('expires_at', '<=', time)
    return (await expired.orderBy('expires_at').limit(limit).execute()).map(toFile)
  },
  all: async () => (await kysely.selectFrom('files').selectAll().execute()).map(toFile),
  async listDeletedWorkspaces() {
    const query = kysely.selectFrom('workspaces').select('id').where('deleted_at', 'is not', null)
    return (await query.execute()).map(({ id }) => id)
  },
})

const markCopied = (
  kysely: Kysely<Tables>,
  { container_id, path, blob }: CopySource,
  promoted_id: string,
) =>
  kysely
    .updateTable('container_files')
    .set({ promoted_id })
    .where('container_id', '=', container_id)
    .where('path', '=', path)
    .where('blob', '=', blob)

const selectUse = (kysely: Kysely<Tables>, workspace_id: string) =>
  kysely
    .selectFrom('files')
    .select([SUM_OF_BLOCKS.as('bytes'), sql<number>`count(*)`.as('files')])
    .where('workspace_id', '=', workspace_id)

/** What files take on a disk: as `countBlocks`. An index has all that this reads. */
export const SUM_OF_BLOCKS = sql<number>`coalesce(sum(
  case when size_bytes = 0 then ${sql.lit(BLOCK)}
  else (size_bytes + ${sql.lit(BLOCK - 1)}) / ${sql.lit(BLOCK)} * ${sql.lit(BLOCK)} end), 0)`

const NOTHING = { bytes: 0, files: 0 }

type Row = Selectable<Tables['files']>

const toFile = (row: Row): StoredFile => ({ ...row, downloadable: row.downloadable === 1 })
