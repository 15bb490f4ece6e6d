import type { ByokStore } from '../../../src/resources/byok/store.ts'
import { addAudit } from './audit.ts'
import { mustBeLive } from './checks.ts'
import type { Connection } from './memory.ts'

/** Callers' own provider keys in memory. */
export const createMemoryByokStore = (connection: Connection): ByokStore => ({
  all: () =>
    connection.read(({ byok }) =>
      byok.all(row => row.deleted_at === null).map(({ deleted_at: _, ...key }) => key),
    ),
  insert: (key, entry) =>
    connection.write(memory => {
      mustBeLive(memory, key.workspace_id)
      memory.byok.insert(key.id, { ...key, deleted_at: null })
      addAudit(memory, entry)
    }),
  update: (id, change, entry) =>
    connection.write(memory => {
      memory.byok.update(id, change)
      addAudit(memory, entry)
    }),
  remove: (id, deleted_at, entry) =>
    connection.write(memory => {
      memory.byok.update(id, { sealed: '', deleted_at })
      addAudit(memory, entry)
    }),
})
