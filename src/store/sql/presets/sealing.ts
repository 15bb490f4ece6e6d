import type { Database } from 'bun:sqlite'
import { replaceCredentials } from '../../../base/credential.ts'
import { isObject, isRawJson, type Json, parseObject } from '../../../base/json.ts'
import type { Seal } from '../../../base/seal.ts'
import type { PresetVersion } from '../../../resources/presets/store.ts'

type Content = Pick<PresetVersion, 'id' | 'system_prompt' | 'config'>

/** The member that holds a sealed text. */
const SEALED = '$sealed'
/** The member of a config that holds a system prompt with a credential in it. */
const SYSTEM_PROMPT = '$system_prompt'

/**
 * Seals every text of a version that is or contains a credential, as it is stored. The version's id
 * is the context, so a sealed text that is copied into another preset does not open there.
 */
export function sealVersion<Version extends Content>(version: Version, seal: () => Seal): Version {
  const sealOwn = (text: string) => sealText(text, version.id, seal)
  const replace = (value: unknown) =>
    replaceCredentials(value, { whole: sealOwn, partial: sealOwn })
  const prompt = replace(version.system_prompt)
  const config = replace(version.config) as Json
  if (!isObject(prompt)) return { ...version, config }
  return { ...version, system_prompt: null, config: { ...config, [SYSTEM_PROMPT]: prompt } }
}

/**
 * Opens what `sealVersion` has sealed. A text that was sealed with another secret stays sealed, and
 * is refused where it is used.
 */
export function openVersion<Version extends Content>(version: Version, seal: () => Seal): Version {
  const { [SYSTEM_PROMPT]: prompt, ...config } = openValue(version.config, version.id, seal) as Json
  return { ...version, config, system_prompt: (prompt as string) ?? version.system_prompt }
}

function openValue(value: unknown, id: string, seal: () => Seal): unknown {
  if (Array.isArray(value)) return value.map(item => openValue(item, id, seal))
  if (!isObject(value) || isRawJson(value)) return value
  const sealed = value[SEALED]
  const text = typeof sealed === 'string' ? tryToOpen(sealed, id, seal) : undefined
  if (text !== undefined) return text
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, openValue(member, id, seal)]),
  )
}

// Without its secret the gateway must still start.
function tryToOpen(sealed: string, id: string, seal: () => Seal): string | undefined {
  try {
    return seal().open(sealed, id)
  } catch {
    return undefined
  }
}

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

const sealText = (text: string, id: string, seal: () => Seal) => ({
  [SEALED]: seal().seal(text, id, crypto.getRandomValues(new Uint8Array(12))),
})

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
