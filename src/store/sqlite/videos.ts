import type { Database } from 'bun:sqlite'
import { type Kysely, sql } from 'kysely'
import type { EndedJob } from '../../observability/generations/store.ts'
import type { VideoJob, VideoStore } from '../../resources/videos.ts'
import type { Tables } from './tables.ts'
import type { Write } from './write.ts'

/** Creates the store of jobs that make videos in SQL. */
export const createVideoStore = (kysely: Kysely<Tables>, write: Write): VideoStore => ({
  insert: job =>
    write(kysely.insertInto('videos').values({ ...job, is_byok: Number(job.is_byok) })),
  async find(id) {
    const row = await selectVideos(kysely).where('id', '=', id).executeTakeFirst()
    return row && toVideoJob(row)
  },
  async list({ workspace_id, status, limit }) {
    let rows = selectVideos(kysely)
    if (workspace_id !== null) rows = rows.where('workspace_id', '=', workspace_id)
    if (status !== null) rows = rows.where('status', '=', status)
    const newest = rows.orderBy('created_at', 'desc').orderBy('id', 'desc').limit(limit)
    return (await newest.execute()).map(toVideoJob)
  },
  async listOpen() {
    const open = selectVideos(kysely).where('ended_at', 'is', null).orderBy('created_at')
    return (await open.execute()).map(toVideoJob)
  },
  async listUntold() {
    const untold = selectVideos(kysely).where('callback_at', 'is not', null)
    return (await untold.orderBy('callback_at').execute()).map(toVideoJob)
  },
  noteCallback: (id, state) => write(kysely.updateTable('videos').set(state).where('id', '=', id)),
  markStarted: id =>
    write(
      kysely
        .updateTable('videos')
        .set({ status: 'in_progress' })
        .where('id', '=', id)
        .where('ended_at', 'is', null),
    ),
  async requestCancel(id, cancel_requested_at) {
    await write(
      kysely
        .updateTable('videos')
        .set({ cancel_requested_at })
        .where('id', '=', id)
        .where('ended_at', 'is', null),
    )
    const job = await selectVideos(kysely).where('id', '=', id).executeTakeFirst()
    return job !== undefined && job.ended_at === null
  },
})

const castToText = <Name extends 'own' | 'byok' | 'cost'>(name: Name) =>
  sql<string | null>`cast(${sql.ref(name)} as text)`.as(name)

const selectVideos = (kysely: Kysely<Tables>) =>
  kysely
    .selectFrom('videos')
    .selectAll()
    .select([castToText('own'), castToText('byok'), castToText('cost')])

type Row = Awaited<ReturnType<ReturnType<typeof selectVideos>['execute']>>[number]

const parseMoney = (text: string | null) => (text === null ? null : BigInt(text))

const toVideoJob = (row: Row): VideoJob => ({
  ...row,
  is_byok: row.is_byok === 1,
  own: parseMoney(row.own),
  byok: parseMoney(row.byok),
  cost: parseMoney(row.cost),
})

/**
 * Creates the statement that ends a job. It runs only inside the recorder's transaction, so that a
 * job that has ended is charged.
 */
export function createVideoWriter(db: Database) {
  const end = db.query(
    `update videos set status = ?1, error = ?2, outputs = ?3, cost = ?4, ended_at = ?5, details = '',
      callback_at = iif(callback_url is null, null, ?5)
    where id = ?6`,
  )
  return ({ id, status, error, outputs, cost, ended_at }: EndedJob): void => {
    end.run(status, error, outputs, cost, ended_at, id)
  }
}
