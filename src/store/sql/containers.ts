import { type Kysely, sql } from 'kysely'
import { notFound } from '../../base/errors.ts'
import { isSuccessor, RESTART } from '../../network/containers/names.ts'
import { checkHomeQuota } from '../../network/containers/quota.ts'
import type { ContainerStore } from '../../network/containers/store.ts'
import { buildAuditInsert } from './audit.ts'
import { SUM_OF_BLOCKS } from './files.ts'
import type { Tables } from './tables.ts'
import { checkWorkspaceReference } from './workspaces.ts'
import { check, type Statement, type Write } from './write.ts'

/** Creates the store of containers in SQL. `writeFreeing` is for deletions. */
export const createContainerStore = (
  kysely: Kysely<Tables>,
  write: Write,
  writeFreeing: Write,
): ContainerStore => ({
  insert: container =>
    write(
      checkWorkspaceReference(kysely, container.workspace_id),
      kysely.insertInto('containers').values(container),
    ),
  find: (workspace_id, name) =>
    selectOf(kysely, workspace_id).where('name', '=', name).executeTakeFirst(),
  async findSuccessor(workspace_id, name) {
    const successors = selectOf(kysely, workspace_id)
      .where('name', '>', name + RESTART)
      .where('name', '<', `${name}${RESTART}g`)
      .where('ended_at', 'is', null)
      .orderBy('id', 'desc')
    return (await successors.execute()).find(container => isSuccessor(container.name, name))
  },
  listUsable: workspace_id => listUsable(kysely, workspace_id),
  changeFiles: (change, quota) => write(...buildChange(kysely, change, quota)),
  listFiles: ({ container_id, after, limit }) => {
    const own = selectFiles(kysely, container_id)
    const rest = after === undefined ? own : own.where('path', '>', after)
    return rest.orderBy('path').limit(limit).execute()
  },
  findFile: (container_id, path) =>
    selectFiles(kysely, container_id).where('path', '=', path).executeTakeFirst(),
  end: (id, ended_at, entry) =>
    writeFreeing(
      checkUsable(kysely, id),
      kysely.deleteFrom('container_files').where('container_id', '=', id),
      ended_at === null
        ? kysely.deleteFrom('containers').where('id', '=', id)
        : kysely.updateTable('containers').set({ ended_at }).where('id', '=', id),
      ...(entry ? [buildAuditInsert(kysely, entry)] : []),
    ),
  async hasBlob(workspace_id, blob) {
    const query = kysely
      .selectFrom('container_files')
      .innerJoin('containers', 'containers.id', 'container_files.container_id')
      .select('path')
      .where('blob', '=', blob)
      .where('workspace_id', '=', workspace_id)
    return (await query.executeTakeFirst()) !== undefined
  },
})

const selectOf = (kysely: Kysely<Tables>, workspace_id: string) =>
  kysely.selectFrom('containers').selectAll().where('workspace_id', '=', workspace_id)

const selectFiles = (kysely: Kysely<Tables>, container_id: string) =>
  kysely.selectFrom('container_files').selectAll().where('container_id', '=', container_id)

const listUsable = (kysely: Kysely<Tables>, workspace_id: string | undefined) => {
  const usable = kysely
    .selectFrom('containers')
    .leftJoin('container_files', 'container_files.container_id', 'containers.id')
    .selectAll('containers')
    .select([
      sql<number>`count(path)`.as('files'),
      sql<number>`coalesce(sum(size_bytes), 0)`.as('bytes'),
    ])
    .where('ended_at', 'is', null)
    .groupBy('containers.id')
    .orderBy('last_used_at')
    .orderBy('containers.id')
  const own = workspace_id === undefined ? usable : usable.where('workspace_id', '=', workspace_id)
  return own.execute()
}

function buildChange(
  kysely: Kysely<Tables>,
  { container_id, put, removed, last_used_at }: Parameters<ContainerStore['changeFiles']>[0],
  quota: Parameters<ContainerStore['changeFiles']>[1],
): Statement[] {
  const gone = [...removed, ...put.map(({ path }) => path)]
  return [
    checkUsable(kysely, container_id),
    ...gone.map(path =>
      kysely
        .deleteFrom('container_files')
        .where('container_id', '=', container_id)
        .where('path', '=', path),
    ),
    ...put.map(file => kysely.insertInto('container_files').values(file)),
    kysely.updateTable('containers').set({ last_used_at }).where('id', '=', container_id),
    // What only shrinks is never too much.
    ...(put.length > 0
      ? [
          check(selectUse(kysely, quota.workspace_id), ([row]) =>
            checkHomeQuota(quota, row ?? { files: 0, bytes: 0 }),
          ),
        ]
      : []),
  ]
}

const selectUse = (kysely: Kysely<Tables>, workspace_id: string) =>
  kysely
    .selectFrom('container_files')
    .innerJoin('containers', 'containers.id', 'container_files.container_id')
    .select([sql<number>`count(*)`.as('files'), SUM_OF_BLOCKS.as('bytes')])
    .where('workspace_id', '=', workspace_id)

const checkUsable = (kysely: Kysely<Tables>, id: string) =>
  check(
    kysely.selectFrom('containers').select('id').where('id', '=', id).where('ended_at', 'is', null),
    ([row]) => {
      if (!row) throw notFound('Container not found')
    },
  )
