import type { Database } from 'bun:sqlite'
import { isObject, isRawJson, type Json, parseObject } from '../../base/json.ts'
import type { Seal } from '../../base/seal.ts'
import { type Content, SEALED, sealText, sealVersion, tryToOpen } from '../sql/presets/sealing.ts'

/** Seals the versions that an earlier program has stored. It belongs in a migration. */
export function sealStoredVersions(db: Database, seal: () => Seal): void {
  for (const row of listVersions(db)) {
    const version = sealVersion({ ...row, config: parseObject(row.config) ?? {} }, seal)
    if (JSON.stringify(version.config) !== row.config) writeVersion(db, version)
  }
}

/**
 * Seals what another secret has sealed with the current one. A text that it does not open stays as
 * it is. It belongs in a transaction.
 */
export function resealVersions(db: Database, current: () => Seal, previous: () => Seal): void {
  for (const row of listVersions(db).filter(({ config }) => config.includes(`"${SEALED}"`))) {
    const config = resealValue(parseObject(row.config) ?? {}, row.id, { current, previous }) as Json
    writeVersion(db, { ...row, config })
  }
}

function resealValue(
  value: unknown,
  id: string,
  seals: Record<'current' | 'previous', () => Seal>,
): unknown {
  if (Array.isArray(value)) return value.map(item => resealValue(item, id, seals))
  if (!isObject(value) || isRawJson(value)) return value
  const sealed = value[SEALED]
  const text = typeof sealed === 'string' ? tryToOpen(sealed, id, seals.previous) : undefined
  if (text !== undefined) return sealText(text, id, seals.current)
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, resealValue(member, id, seals)]),
  )
}

const listVersions = (db: Database) =>
  db
    .query<Omit<Content, 'config'> & { config: string }, []>(
      'select id, system_prompt, config from preset_versions',
    )
    .all()

const writeVersion = (db: Database, { id, system_prompt, config }: Content): void =>
  void db
    .query('update preset_versions set system_prompt = ?, config = ? where id = ?')
    .run(system_prompt, JSON.stringify(config), id)
