import type { VideoStore } from '../../../src/resources/videos.ts'
import type { Connection } from './memory.ts'
import { changedConcurrently } from './table.ts'

/** Jobs that make videos in memory. */
export const createMemoryVideoStore = (connection: Connection): VideoStore => ({
  insert: job =>
    connection.write(({ videos }) => {
      if (videos.all(one => one.generation_id === job.generation_id).length > 0)
        throw changedConcurrently()
      videos.insert(job.id, job)
    }),
  find: id => connection.read(({ videos }) => videos.get(id)),
  list: ({ workspace_id, status, limit }) =>
    connection.read(({ videos }) =>
      videos
        .all(
          job =>
            (workspace_id === null || job.workspace_id === workspace_id) &&
            (status === null || job.status === status),
        )
        .sort((a, b) => compare(b.created_at, a.created_at) || compare(b.id, a.id))
        .slice(0, limit),
    ),
  listOpen: () =>
    connection.read(({ videos }) =>
      videos.all(job => job.ended_at === null).sort((a, b) => compare(a.created_at, b.created_at)),
    ),
  listUntold: () =>
    connection.read(({ videos }) =>
      videos
        .all(job => job.callback_at !== null)
        .sort((a, b) => compare(a.callback_at ?? '', b.callback_at ?? '')),
    ),
  noteCallback: (id, state) =>
    connection.write(({ videos }) => {
      videos.update(id, state)
    }),
  markStarted: id =>
    connection.write(({ videos }) => {
      if (videos.get(id)?.ended_at === null) videos.update(id, { status: 'in_progress' })
    }),
  requestCancel: (id, cancel_requested_at) =>
    connection.write(({ videos }) => {
      if (videos.get(id)?.ended_at !== null) return false
      videos.update(id, { cancel_requested_at })
      return true
    }),
})

const compare = (a: string, b: string): number => (a < b ? -1 : Number(a > b))
