import { notFound } from '../../../src/base/errors.ts'
import { compareTexts } from '../../../src/base/sorting.ts'
import { isSuccessor } from '../../../src/network/containers/names.ts'
import { checkHomeQuota } from '../../../src/network/containers/quota.ts'
import type { ContainerFile, ContainerStore } from '../../../src/network/containers/store.ts'
import { countBlocks } from '../../../src/resources/files/quota.ts'
import { addAudit } from './audit.ts'
import { mustBeLive } from './checks.ts'
import type { Connection, Memory } from './memory.ts'
import { changedConcurrently, compareByFields } from './table.ts'

/** Containers in memory. */
export const createMemoryContainerStore = (connection: Connection): ContainerStore => ({
  insert: container =>
    connection.write(memory => {
      const { workspace_id, name } = container
      mustBeLive(memory, workspace_id)
      if (findNamed(memory, workspace_id, name)) throw changedConcurrently()
      memory.containers.insert(container.id, container)
    }),
  find: (workspace_id, name) => connection.read(memory => findNamed(memory, workspace_id, name)),
  findSuccessor: (workspace_id, first) =>
    connection.read(({ containers }) =>
      containers
        .all(one => one.workspace_id === workspace_id && one.ended_at === null)
        .filter(({ name }) => isSuccessor(name, first))
        .sort((a, b) => compareTexts(b.id, a.id))
        .at(0),
    ),
  listUsable: workspace_id =>
    connection.read(memory =>
      memory.containers
        .all(one => one.ended_at === null)
        .filter(one => workspace_id === undefined || one.workspace_id === workspace_id)
        .sort(compareByFields('last_used_at', 'id'))
        .map(one => {
          const files = memory.containerFiles.all(file => file.container_id === one.id)
          return { ...one, files: files.length, bytes: sumBytes(files) }
        }),
    ),
  changeFiles: ({ container_id, put, removed, last_used_at }, quota) =>
    connection.write(memory => {
      mustBeUsable(memory, container_id)
      for (const path of [...removed, ...put.map(file => file.path)])
        memory.containerFiles.remove(nameFile(container_id, path))
      for (const file of put) memory.containerFiles.insert(nameFile(container_id, file.path), file)
      memory.containers.update(container_id, { last_used_at })
      if (put.length > 0) checkHomeQuota(quota, sumUse(listOf(memory, quota.workspace_id)))
    }),
  listFiles: ({ container_id, after, limit }) =>
    connection.read(({ containerFiles }) =>
      containerFiles
        .all(file => file.container_id === container_id)
        .filter(({ path }) => after === undefined || comparePaths(path, after) > 0)
        .sort((a, b) => comparePaths(a.path, b.path))
        .slice(0, limit),
    ),
  findFile: (container_id, path) =>
    connection.read(({ containerFiles }) => containerFiles.get(nameFile(container_id, path))),
  end: (id, ended_at, entry) =>
    connection.write(memory => {
      mustBeUsable(memory, id)
      removeFiles(memory, id)
      if (ended_at === null) memory.containers.remove(id)
      else memory.containers.update(id, { ended_at })
      if (entry) addAudit(memory, entry)
    }),
  hasBlob: (workspace_id, blob) =>
    connection.read(memory => listOf(memory, workspace_id).some(file => file.blob === blob)),
})

/** Removes the containers of a workspace, with their files. */
export function removeContainers(memory: Memory, workspace_id: string): void {
  for (const { id } of memory.containers.all(one => one.workspace_id === workspace_id)) {
    removeFiles(memory, id)
    memory.containers.remove(id)
  }
}

function removeFiles({ containerFiles }: Memory, container_id: string): void {
  for (const { path } of containerFiles.all(file => file.container_id === container_id))
    containerFiles.remove(nameFile(container_id, path))
}

export const nameFile = (container_id: string, path: string) => `${container_id} ${path}`

// As SQLite compares texts: by their bytes.
const comparePaths = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b))

const sumBytes = (files: ContainerFile[]) => files.reduce((sum, file) => sum + file.size_bytes, 0)

const sumUse = (files: ContainerFile[]) => ({
  files: files.length,
  bytes: files.reduce((sum, file) => sum + countBlocks(file.size_bytes), 0),
})

const findNamed = ({ containers }: Memory, workspace_id: string, name: string) =>
  containers.all(one => one.workspace_id === workspace_id && one.name === name).at(0)

const listOf = ({ containers, containerFiles }: Memory, workspace_id: string) =>
  containerFiles.all(file => containers.get(file.container_id)?.workspace_id === workspace_id)

function mustBeUsable({ containers }: Memory, id: string): void {
  if (containers.get(id)?.ended_at !== null) throw notFound('Container not found')
}
