import type { Database } from 'bun:sqlite'
import type { Compilable, Kysely } from 'kysely'
import type { DesignatedPreset, PresetStore, PresetVersion } from '../catalog/presets.ts'
import { conflict } from '../errors.ts'
import { parseObject } from '../kernel/json.ts'
import type { Tables } from './tables.ts'

/**
 * Presets in SQL. What writes two rows is synchronous inside, as the recorder is: they share one connection, and a transaction
 * that waited in the middle would take calls' records into it.
 */
export function presetStore(kysely: Kysely<Tables>, db: Database): PresetStore {
  const write = writer(db)
  return {
    all: async () => (await designated(kysely).execute()).map(designatedOf),
    async insert(designated) {
      const { designated_version, ...preset } = designated
      write(kysely.insertInto('presets').values(preset), versionInsert(kysely, designated_version))
    },
    async designate(version, updated_at) {
      const change = { designated_version_id: version.id, updated_at }
      const update = kysely.updateTable('presets').set(change).where('id', '=', version.preset_id)
      write(versionInsert(kysely, version), update)
    },
    update: async (id, change) => void (await kysely.updateTable('presets').set(change).where('id', '=', id).execute()),
    async versions(preset_id, offset, limit) {
      const query = kysely.selectFrom('preset_versions').selectAll().where('preset_id', '=', preset_id)
      return (await query.orderBy('version').offset(offset).limit(limit).execute()).map(versionOf)
    },
    async version(preset_id, version) {
      const query = kysely.selectFrom('preset_versions').selectAll().where('preset_id', '=', preset_id)
      const row = await query.where('version', '=', version).executeTakeFirst()
      return row && versionOf(row)
    },
  }
}

// One statement, so that no other process can move the pointer in between.
const designated = (kysely: Kysely<Tables>) =>
  kysely
    .selectFrom('presets')
    .innerJoin('preset_versions as version', 'version.id', 'presets.designated_version_id')
    .selectAll('presets')
    .select(['version.version', 'version.creator_id', 'version.system_prompt', 'version.config'])
    .select(['version.created_at as version_created_at', 'version.updated_at as version_updated_at'])

type Row = Awaited<ReturnType<ReturnType<typeof designated>['execute']>>[number]

function designatedOf(row: Row): DesignatedPreset {
  const { version, creator_id, system_prompt, config, version_created_at, version_updated_at, ...preset } = row
  const { id: preset_id, designated_version_id: id } = preset
  const times = { created_at: version_created_at, updated_at: version_updated_at }
  return { ...preset, designated_version: versionOf({ id, preset_id, version, creator_id, system_prompt, config, ...times }) }
}

const versionInsert = (kysely: Kysely<Tables>, version: PresetVersion) =>
  kysely.insertInto('preset_versions').values({ ...version, config: JSON.stringify(version.config) })

/** Statements in one transaction, at once. Throws 409 for a row that is there already. */
function writer(db: Database) {
  const transaction = db.transaction((statements: Compilable[]) => {
    for (const statement of statements) {
      const { sql, parameters } = statement.compile()
      db.query(sql).run(...(parameters as never[]))
    }
  })
  return (...statements: Compilable[]): void => {
    try {
      transaction.immediate(statements)
    } catch (error) {
      throw isTaken(error) ? conflict('This preset was changed at the same moment. Please try again.') : error
    }
  }
}

const isTaken = (error: unknown) => error instanceof Error && 'code' in error && error.code === 'SQLITE_CONSTRAINT_UNIQUE'

const versionOf = (row: Tables['preset_versions']): PresetVersion => ({ ...row, config: parseObject(row.config) ?? {} })
