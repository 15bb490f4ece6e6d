import { createHash, createPublicKey, verify } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { GatewayError, invalid } from '../../base/errors.ts'
import { parseObject } from '../../base/json.ts'
import type { Config } from '../../config.ts'
import data from '../models.data.json' with { type: 'file' }
import { PROVIDERS } from '../providers.data.ts'
import type { CatalogData, ModelRow } from './rows.ts'

/** The known models as the data file has them, by slug. */
export interface BuiltInModels {
  rows: Map<string, ModelRow>
  /** Maps each alias to its slug. */
  aliases: Map<string, string>
  /** The day of the data, ISO 8601. */
  generated: string
  /** Whether the data is that of `gateway models update`, and not the program's own. */
  isInstalled: boolean
  /** Why the installed data is not used, where there is some; null if it is well. */
  problem: string | null
}

/** Where `gateway models update` installs data, and the keys of those who may sign it. */
export interface InstalledCatalog {
  file: string
  keys: string[]
}

/** Says where installed data is in a data directory. */
export const locateCatalog = (
  data: string,
  { catalog: { public_keys: keys } }: Pick<Config, 'catalog'>,
): InstalledCatalog => ({ file: join(data, 'catalog.signed'), keys })

/**
 * Returns a function that reads the data on its first call and keeps it: later the file may be that
 * of another version, while this process still runs. Installed data is read instead of the built-in
 * one unless that is newer.
 */
export function createBuiltInReader(
  installed: InstalledCatalog | null = null,
): () => BuiltInModels {
  let builtIn: BuiltInModels | undefined
  return () => {
    builtIn ??= installed ? readNewer(shareBuiltIn(), installed) : shareBuiltIn()
    return builtIn
  }
}

let shared: WeakRef<BuiltInModels> | undefined

// All gateways of a process serve by one copy. It is not kept where all serve by installed data.
function shareBuiltIn(): BuiltInModels {
  const known = shared?.deref()
  if (known) return known
  const builtIn = readBuiltIn()
  shared = new WeakRef(builtIn)
  return builtIn
}

/**
 * Returns whether the data is embedded in the executable, where it cannot change. In a checkout it
 * is a file.
 */
export const isEmbedded = (): boolean => data.startsWith('/$bunfs/')

/**
 * Reads the data. It takes a few milliseconds, so it is deferred until a model is needed. Throws
 * where the file is damaged.
 */
export function readBuiltIn(file: string = data): BuiltInModels {
  try {
    return { ...toModels(JSON.parse(readFileSync(file, 'utf8'))), isInstalled: false }
  } catch (cause) {
    // For the operator who starts the program. A caller learns that something is wrong, not where.
    throw new Error(`${file}: the built-in catalogue cannot be read`, { cause })
  }
}

const toModels = ({ models, aliases, generated }: CatalogData) => ({
  rows: new Map(models.map(row => [row.id, row])),
  aliases: new Map(Object.entries(aliases)),
  generated,
  problem: null,
})

// A gateway whose installed data is damaged serves by its own.
function readNewer(builtIn: BuiltInModels, { file, keys }: InstalledCatalog): BuiltInModels {
  if (!existsSync(file)) return builtIn
  try {
    const installed = openSignedCatalog(readFileSync(file), keys)
    return installed.generated < builtIn.generated ? builtIn : installed
  } catch (thrown) {
    return { ...builtIn, problem: `${file}: ${GatewayError.from(thrown).message}` }
  }
}

/** The first line of a signed file. The data follows it. */
export interface CatalogSeal {
  /** The form of the file. */
  catalog: 1
  /** Of the data, in hexadecimal digits. */
  sha256: string
  /** Of `buildSignedText`, by ed25519, in base64. */
  signature: string
}

/** Builds what a signature is of. */
export const buildSignedText = (sha256: string): Buffer =>
  Buffer.from(`gateway-catalog/1 ${sha256}`)

/**
 * Opens a signed file of data. Endpoints of providers that this version does not know are left out.
 * Throws `invalid_request` where it is damaged, or signed by none of these keys: each is base64 of
 * its SubjectPublicKeyInfo.
 */
export function openSignedCatalog(bytes: Buffer, keys: string[]): BuiltInModels {
  const end = bytes.indexOf('\n')
  const seal = parseObject(bytes.subarray(0, Math.max(end, 0)).toString())
  if (seal?.catalog !== 1) throw invalid('it is no signed catalogue that this version reads')
  const text = bytes.subarray(end + 1)
  const sha256 = createHash('sha256').update(text).digest('hex')
  if (seal.sha256 !== sha256) throw invalid('its checksum is wrong: it was cut or changed')
  if (keys.length === 0)
    throw invalid('catalog.public_keys in gateway.yaml: expected the key of whoever signed it')
  const signature = Buffer.from(String(seal.signature), 'base64')
  if (!keys.some(key => verify(null, buildSignedText(sha256), toPublicKey(key), signature)))
    throw invalid('it is signed by none of catalog.public_keys')
  return { ...leaveOutUnknown(toModels(readData(text))), isInstalled: true }
}

const toPublicKey = (key: string) =>
  createPublicKey({ key: Buffer.from(key, 'base64'), format: 'der', type: 'spki' })

function readData(text: Buffer): CatalogData {
  const { generated, aliases, models } = parseObject(text.toString()) ?? {}
  const isCatalog = typeof generated === 'string' && Array.isArray(models) && aliases !== undefined
  if (!isCatalog) throw invalid('it is signed, but holds no catalogue')
  return { generated, aliases, models } as CatalogData
}

function leaveOutUnknown<Models extends Pick<BuiltInModels, 'rows'>>(models: Models): Models {
  const rows = [...models.rows.values()].flatMap(row => {
    const endpoints = row.endpoints.filter(({ provider }) => Object.hasOwn(PROVIDERS, provider))
    return endpoints.length > 0 ? [[row.id, { ...row, endpoints }] as const] : []
  })
  return { ...models, rows: new Map(rows) }
}
