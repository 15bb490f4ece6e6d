import type { Owner } from '../../../src/resources/workspaces/store.ts'
import type { Store } from '../../../src/store/store.ts'
import type { Connection } from './memory.ts'

/** The owner of the gateway in memory. */
export const createMemoryOwnerStore =
  (connection: Connection): Store['owner'] =>
  candidate =>
    connection.write(({ meta }) => {
      for (const [name, value] of Object.entries(candidate))
        if (!meta.has(name)) meta.insert(name, { value })
      const entries = Object.keys(candidate).map(name => [name, meta.get(name)?.value])
      return Object.fromEntries(entries) as Owner
    })
