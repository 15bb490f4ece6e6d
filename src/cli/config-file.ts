import { existsSync, readFileSync, statSync } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { GatewayError, invalid } from '../base/errors.ts'
import type { ConfigIssue } from '../config/issues.ts'
import { type Config, type ConfigReading, createDefaultConfig, parseConfig } from '../config.ts'
import type { Environment } from '../resources/providers/environment.ts'
import { DEFAULT_DATA } from './data-directory.ts'

/** A config and the file it was read from. `file` is null for the defaults. */
export interface ConfigFile {
  config: Config
  file: string | null
  /** The text of the file. */
  text: string
  /** The providers that the environment configures: the file does not name them. */
  environment: Environment
}

/** How a config is read. */
export interface ReadingOptions {
  /** Whether providers may lack their secrets. For commands that call no provider. */
  withoutSecrets?: boolean
}

/** Where the config may be, in order. A path that was named has to exist. */
export interface ConfigPaths {
  paths: string[]
  isNamed: boolean
}

const NAME = 'gateway.yaml'

/**
 * Lists where the config may be: at the path that the flag or `GATEWAY_CONFIG` names, else
 * `gateway.yaml` in the data directory. Beside the default data directory, the current directory's
 * is read too: it belongs to that gateway, and to no other.
 */
export function listConfigPaths(flag: string | undefined, data: string): ConfigPaths {
  const path = flag ?? process.env.GATEWAY_CONFIG
  if (path !== undefined) return { paths: [path], isNamed: true }
  const isDefault = resolve(data) === resolve(DEFAULT_DATA)
  return { paths: [join(data, NAME), ...(isDefault ? [NAME] : [])], isNamed: false }
}

/**
 * Finds a config in the current directory that is not read, as another data directory was named.
 */
export function findSkippedConfig({ paths, isNamed }: ConfigPaths): string | undefined {
  const isSkipped = !isNamed && !paths.some(path => resolve(path) === resolve(NAME))
  return isSkipped && existsSync(NAME) ? resolve(NAME) : undefined
}

/**
 * Reads the config at the first of these paths that exists, and adds the providers that the
 * environment configures. Throws `invalid_request` naming the file, and the setting that is wrong.
 */
export async function readConfig(
  { paths, isNamed }: ConfigPaths,
  options: ReadingOptions = {},
): Promise<ConfigFile> {
  const file = isNamed ? paths[0] : findConfigPath(paths)
  return addEnvironment(
    file === undefined
      ? { config: createDefaultConfig(), file: null, text: '' }
      : await openConfigFile(file, options),
    options,
  )
}

async function addEnvironment(
  configFile: Omit<ConfigFile, 'environment'>,
  { withoutSecrets = false }: ReadingOptions,
): Promise<ConfigFile> {
  const { config } = configFile
  if (!config.providers_from_environment)
    return { ...configFile, environment: { providers: [], ignored: [] } }
  const { findEnvironmentProviders, needsCredential } = await import(
    '../resources/providers/environment.ts'
  )
  const { protocolNames } = await import('../translation/protocols/registry.ts')
  const found = findEnvironmentProviders(process.env, protocolNames)
  const isUnnamed = ({ slug }: { slug: string }) => !Object.hasOwn(config.providers, slug)
  const environment = {
    providers: found.providers.filter(isUnnamed),
    ignored: found.ignored.filter(isUnnamed),
  }
  const added = environment.providers.map(({ slug, settings }) => [slug, settings])
  const providers = { ...config.providers, ...Object.fromEntries(added) }
  // The server has their credentials, and this command calls none of them.
  const isUsable = ({ provider }: Endpoint) =>
    !withoutSecrets || Object.hasOwn(providers, provider) || !needsCredential(provider)
  const models = config.models.map(model => ({
    ...model,
    endpoints: model.endpoints.filter(isUsable),
  }))
  return { ...configFile, config: { ...config, providers, models }, environment }
}

type Endpoint = Config['models'][number]['endpoints'][number]

/** Finds the first of these paths where anything exists, whatever it is. */
export const findConfigPath = (paths: string[]): string | undefined =>
  paths.find(path => existsSync(path))

/** In bytes. Reading a larger file would block the server. */
const MAX_BYTES = 16 * 1024 * 1024

async function openConfigFile(
  file: string,
  options: ReadingOptions,
): Promise<Omit<ConfigFile, 'environment'>> {
  const text = await readText(file)
  const readSecretFile = (path: string) => readSecret(resolve(dirname(file), path))
  const reading = { ...options, readSecretFile }
  try {
    const config = parseConfig(text, process.env, reading)
    if (mayRepeatSetting(text)) await refuseRepeatedSetting(text)
    return { config, file, text }
  } catch (thrown) {
    throw await nameConfigFile(file, await findAllMistakes(text, reading, thrown), text)
  }
}

// What finds it for sure takes time to load.
async function refuseRepeatedSetting(text: string): Promise<void> {
  const { findRepeatedSetting } = await import('./config-file/places.ts')
  const name = findRepeatedSetting(text)
  if (name !== undefined) throw invalid(`${name}: expected once in its section, found twice`, name)
}

// What knows models and plugins takes time to load, so a config that is right does without.
async function findAllMistakes(
  text: string,
  reading: ConfigReading,
  first: unknown,
): Promise<unknown> {
  const { listFurtherIssues } = await import('./config-file/mistakes.ts')
  try {
    parseConfig(text, process.env, { ...reading, listFurtherIssues })
    return first
  } catch (thrown) {
    return thrown
  }
}

/** In bytes. */
const MAX_SECRET_BYTES = 64 * 1024

// A pipe may never end.
function readSecret(path: string): string {
  const stats = statSync(path)
  if (!stats.isFile() || stats.size > MAX_SECRET_BYTES) throw new Error('no file of a secret')
  return readFileSync(path, 'utf8')
}

/**
 * Returns an error with the name of the config file before its message, and with the line and the
 * column of each issue in the file's text.
 */
export async function nameConfigFile(
  file: string | null,
  thrown: unknown,
  text = '',
): Promise<unknown> {
  if (file === null || !(thrown instanceof GatewayError)) return thrown
  const { openPlaces } = await import('./config-file/places.ts')
  const places = openPlaces(text)
  const { field, issues = [{ message: thrown.message, getNames: () => splitField(field) }] } =
    thrown.metadata as { field?: string; issues?: ConfigIssue[] }
  const lines = issues.map(({ message, getNames }) => `${file}${places(getNames())}: ${message}`)
  return thrown.with({ message: lines.join('\n') })
}

const splitField = (field: string | undefined): string[] => (field ? field.split('.') : [])

async function readText(file: string): Promise<string> {
  const { size } = await stat(file).catch(throwUnreadable(file))
  if (size > MAX_BYTES) throw invalid(`${file}: expected at most ${MAX_BYTES} bytes`)
  // To the end and not to that size: the file may have been replaced meanwhile.
  const text = await readFile(file, 'utf8').catch(throwUnreadable(file))
  // `{}` stands for the defaults. An empty file was lost, or is just being written.
  if (text.trim() === '') throw invalid(`${file}: expected settings, found an empty file`)
  return text
}

const throwUnreadable = (file: string) => (cause: unknown) => {
  throw new GatewayError('invalid_request', `${file}: the config file cannot be read`, { cause })
}

/**
 * Tells whether a setting may stand twice in a section of a YAML text: where it does, Bun's parser
 * keeps the last one and says nothing. A quick look, since it is made at each start: what it finds
 * in a text of several lines is none, and a section in braces is passed over.
 */
export function mayRepeatSetting(text: string): boolean {
  const known = new Map<number, Set<string>>()
  for (const line of text.split('\n')) {
    const [, indent = '', dashes = '', , name] = LINE.exec(line) ?? []
    if (BLANK.test(line)) continue
    const column = indent.length + dashes.length
    for (const deeper of known.keys())
      if (deeper > indent.length || (dashes !== '' && deeper === column)) known.delete(deeper)
    if (name === undefined) continue
    const names = known.get(column) ?? new Set()
    if (names.has(name)) return true
    known.set(column, names.add(name))
  }
  return false
}

/** The indentation, the dashes of list items, and the name of a setting. */
const LINE = /^( *)((?:- +)*)(?:(["']?)([\w./:@$*-]+)\3 *:(?= |\r?$))?/
const BLANK = /^\s*(?:#|$)/
