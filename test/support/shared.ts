import { join, resolve } from 'node:path'

/** Where the public contract and real providers' answers are, which are not kept in this repository. `GATEWAY_SHARED` says so when not beside it. */
export const SHARED = resolve(
  process.env.GATEWAY_SHARED ?? join(import.meta.dir, '../../../shared'),
)
