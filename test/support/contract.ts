import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { SHARED } from './shared.ts'

const FILE = join(SHARED, 'contract/openapi.json')

/** The public API’s OpenAPI document; undefined if it is not on this machine. */
export const contract: { paths: unknown } | undefined = existsSync(FILE)
  ? await Bun.file(FILE).json()
  : undefined
