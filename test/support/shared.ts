import { join, resolve } from 'node:path'

/** The folder of the public contract and real providers' answers, outside of this repository. */
export const SHARED = resolve(
  process.env.GATEWAY_SHARED ?? join(import.meta.dir, '../../../shared'),
)
