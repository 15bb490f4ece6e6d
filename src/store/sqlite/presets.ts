import type { Database } from 'bun:sqlite'
import { parseObject } from '../../base/json.ts'
import type { Seal } from '../../base/seal.ts'
import { type Content, sealVersion } from '../sql/presets/sealing.ts'

/** Seals the versions that an earlier program has stored. It belongs in a migration. */
export function sealStoredVersions(db: Database, seal: () => Seal): void {
  for (const row of listVersions(db)) {
    const version = sealVersion({ ...row, config: parseObject(row.config) ?? {} }, seal)
    if (JSON.stringify(version.config) !== row.config) writeVersion(db, version)
  }
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
