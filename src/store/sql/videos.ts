import { type Kysely, sql } from 'kysely'
import type { EndedJob } from '../../observability/generations/store.ts'
import type { VideoJob, VideoStore } from '../../resources/videos.ts'
import { parseMoney } from './ledger.ts'
import type { Tables } from './tables.ts'
import { prepare, type Statement, type Write } from './write.ts'

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

const toVideoJob = (row: Row): VideoJob => ({
  ...row,
  is_byok: row.is_byok === 1,
  own: parseMoney(row.own),
  byok: parseMoney(row.byok),
  cost: parseMoney(row.cost),
})

const END = `update videos set status = ?, error = ?, outputs = ?, cost = ?, ended_at = ?, details = '',
  callback_at = case when callback_url is null then null else ? end where id = ?`

/** Ends a job, in the recorder's transaction, so that a job that has ended is charged. */
export const endVideo = ({ id, status, error, outputs, cost, ended_at }: EndedJob): Statement =>
  prepare(END, status, error, outputs, cost, ended_at, ended_at, id)
