import { readFileSync } from 'node:fs'
import { chmod, mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

const FIXTURES = resolve(import.meta.dir, '../fixtures/data-directories')

/** The data directories of earlier releases, by their schema (`scripts/old-data.ts` makes them). */
export const OLD_SCHEMAS = [24]

/** Unpacks the data directory of an earlier release: the caller removes it. */
export async function unpackOldData(schema: number): Promise<{ data: string; key: string }> {
  const data = await mkdtemp(join(tmpdir(), `gateway-schema-${schema}-`))
  const file = Bun.file(join(FIXTURES, `schema-${schema}.tar.gz`))
  await new Bun.Archive(await file.bytes()).extract(data)
  await chmod(join(data, 'secret.key'), 0o600)
  return { data, key: readFileSync(join(data, 'app-key'), 'utf8') }
}
