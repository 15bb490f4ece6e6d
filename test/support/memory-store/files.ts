import { notFound } from '../../../src/base/errors.ts'
import { compareTexts } from '../../../src/base/sorting.ts'
import { checkFileQuota, countBlocks } from '../../../src/resources/files/quota.ts'
import { USUAL_PURPOSE } from '../../../src/resources/files/schema.ts'
import type { FileStore } from '../../../src/resources/files/store.ts'
import { addAudit } from './audit.ts'
import { mustBeLive } from './checks.ts'
import { nameFile } from './containers.ts'
import type { Connection, Memory } from './memory.ts'

/** The records of files in memory. */
export const createMemoryFileStore = (connection: Connection): FileStore => ({
  insert: (file, quota, entry, source) =>
    connection.write(memory => {
      mustBeLive(memory, file.workspace_id)
      checkFileQuota(quota, computeUse(memory, file.workspace_id), file.size_bytes)
      memory.files.insert(file.id, file)
      const name = source ? nameFile(source.container_id, source.path) : ''
      if (source && memory.containerFiles.get(name)?.blob === source.blob)
        memory.containerFiles.update(name, { promoted_id: file.id })
      addAudit(memory, entry)
    }),
  find: id => connection.read(({ files }) => files.get(id)),
  listRange: ({ workspace_id, order, after, purpose, limit }) =>
    connection.read(({ files }) => {
      const sign = order === 'asc' ? 1 : -1
      const isBeyond = (id: string) => after === undefined || sign * compareTexts(id, after) > 0
      return files
        .all(file => file.workspace_id === workspace_id && isBeyond(file.id))
        .filter(file => purpose === undefined || (file.purpose ?? USUAL_PURPOSE) === purpose)
        .sort((a, b) => sign * compareTexts(a.id, b.id))
        .slice(0, limit)
    }),
  computeUse: workspace_id => connection.read(memory => computeUse(memory, workspace_id)),
  remove: (id, entry) =>
    connection.write(memory => {
      if (!memory.files.has(id)) throw notFound('File not found')
      memory.files.remove(id)
      if (entry) addAudit(memory, entry)
    }),
  listExpired: (time, limit) =>
    connection.read(({ files }) =>
      files
        .all(({ expires_at }) => expires_at !== null && expires_at <= time)
        .sort((a, b) => compareTexts(a.expires_at ?? '', b.expires_at ?? ''))
        .slice(0, limit),
    ),
  all: () => connection.read(({ files }) => files.all()),
  listDeletedWorkspaces: () =>
    connection.read(({ workspaces }) =>
      workspaces.all(({ deleted_at }) => deleted_at !== null).map(({ id }) => id),
    ),
})

const computeUse = ({ files }: Memory, workspace_id: string) => {
  const own = files.all(file => file.workspace_id === workspace_id)
  const bytes = own.reduce((sum, { size_bytes }) => sum + countBlocks(size_bytes), 0)
  return { bytes, files: own.length }
}
