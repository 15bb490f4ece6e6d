import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { openGateway } from '../../../app/gateway.ts'
import { conflict, denied, GatewayError, invalid, notFound } from '../../../base/errors.ts'
import { getOwn } from '../../../base/json.ts'
import { listNearest } from '../../../base/nearest.ts'
import { giveToOwner } from '../../../base/owner.ts'
import { buildEditorSchema, SCHEMA_FILE } from '../../../config/editor-schema.ts'
import { Config, createDefaultConfig, type ProviderConfig } from '../../../config.ts'
import {
  type EnvironmentProvider,
  findEnvironmentProviders,
} from '../../../resources/providers/environment.ts'
import type { ProviderRow, ProviderVariables } from '../../../resources/providers/provider.ts'
import { PROVIDERS } from '../../../resources/providers.data.ts'
import { protocolNames } from '../../../translation/protocols/registry.ts'
import { findConfigPath, listConfigPaths } from '../../config-file.ts'
import { getDataDirectory } from '../../data-directory.ts'
import type { CommonOptions } from '../../options.ts'
import { printNote } from '../../output.ts'
import { readSecret } from '../../prompt.ts'
import { renderConfig } from './config-text.ts'

/** What `gateway init --provider` takes. */
export interface ProviderOptions extends CommonOptions {
  provider: string
  baseUrl?: string
  check: boolean
  /** Whether a provider that does not answer is an error, and not a note. */
  mustAnswer?: boolean
}

/** A config with one provider, ready to be written. */
export interface PreparedConfig {
  /** Where the config goes, and its text, which has no secret. */
  file: string
  text: string
  /** Where the secret goes; null where the environment has it. */
  secret: { file: string; text: string } | null
  /** A model for a first call. */
  model: string | null
}

/**
 * Asks for a provider's credential unless the environment has it, and checks it with a request that
 * costs nothing. Throws 404 for an unknown provider, 409 where there is a config, 403 for a refused
 * credential, 400 where something is missing or wrong. Writes nothing.
 */
export async function prepareConfig(options: ProviderOptions): Promise<PreparedConfig> {
  const { provider: slug } = options
  const row = requireRow(slug)
  const file = chooseFile(options)
  const given = giveAddress(row, options.baseUrl)
  const secret = needsSecret(row, given) ? await readSecret(`API key of ${row.name}`) : undefined
  const found = requireProvider(slug, { ...given, ...nameSecret(row, secret) })
  const model = await checkProvider(found, options)
  const path = join(getDataDirectory(options), `${slug}.key`)
  const replaced = secret === undefined ? {} : nameSecret(row, `\${file:${locate(path, file)}}`)
  const settings = requireProvider(slug, { ...hideSecrets(row, given), ...replaced }).settings
  return {
    file,
    text: renderConfig({ slug, settings, model }),
    secret: secret === undefined ? null : { file: path, text: `${secret}\n` },
    model,
  }
}

/**
 * Prepares a config with the first provider whose credential the environment has. Undefined where
 * there is none, where there is a config, and where it cannot be used: a note says why.
 */
export async function prepareFoundConfig(
  options: Omit<ProviderOptions, 'provider'>,
): Promise<PreparedConfig | undefined> {
  const [found] = findEnvironmentProviders(process.env, protocolNames).providers
  const { paths } = listConfigPaths(options.config, getDataDirectory(options))
  if (!found || findConfigPath(paths) !== undefined) return undefined
  printNote(`The environment has ${found.variables[0]}: ${found.slug}`)
  try {
    return await prepareConfig({ ...options, provider: found.slug })
  } catch (thrown) {
    printNote(GatewayError.from(thrown).message)
    return undefined
  }
}

/** Writes a prepared config and its secret, readable by their owner only. */
export function writeConfig({ file, text, secret }: PreparedConfig): void {
  if (secret) writeNewFile(secret.file, secret.text)
  writeConfigFile(file, text)
}

/** Writes a new config, and beside it the schema that its first line names for editors. */
export function writeConfigFile(file: string, text: string): void {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  writeFileSync(file, text, NEW_FILE)
  giveToOwner(file)
  const schema = JSON.stringify(buildEditorSchema(Config), null, 2)
  writeNewFile(join(dirname(file), SCHEMA_FILE), `${schema}\n`)
}

const NEW_FILE = { flag: 'wx', mode: 0o600 }

// In place of an older one, whose mode might be another, or that might be a link.
function writeNewFile(path: string, text: string): void {
  rmSync(path, { force: true })
  writeFileSync(path, text, NEW_FILE)
  giveToOwner(path)
}

function requireRow(slug: string): ProviderRow {
  const row = getOwn<ProviderRow>(PROVIDERS, slug)
  if (!row) {
    const nearest = findNamesake(slug)
    const hint = nearest ? `did you mean ${nearest}?` : 'gateway providers list shows them'
    throw notFound(`${slug} is no known provider: ${hint}`)
  }
  if (!row.variables)
    throw invalid(`${slug}: expected its settings in gateway.yaml, as docs/configuration.md shows`)
  return row
}

/** What people call providers after their models, and after the variable of their key. */
const NAMESAKES: Record<string, string> = {
  ...{ gemini: 'google', claude: 'anthropic', gpt: 'openai', chatgpt: 'openai', grok: 'xai' },
  ...{ kimi: 'moonshotai', qwen: 'alibaba' },
}

/** Finds the provider that a name which is none most likely means. */
function findNamesake(name: string): string | undefined {
  return (
    getOwn<string>(NAMESAKES, name.toLowerCase()) ?? listNearest(name, Object.keys(PROVIDERS), 2)[0]
  )
}

// A config that exists, or that would no longer be read, is somebody's work.
function chooseFile(options: ProviderOptions): string {
  const { paths, isNamed } = listConfigPaths(options.config, getDataDirectory(options))
  const existing = paths.find(path => existsSync(path))
  if (existing !== undefined)
    throw conflict(`${resolve(existing)} exists already: add the provider there`)
  return (isNamed ? paths[0] : undefined) ?? join(getDataDirectory(options), 'gateway.yaml')
}

type Variables = Record<string, string | undefined>

const giveAddress = ({ variables }: ProviderRow, address: string | undefined): Variables => {
  const [name] = variables?.base_url ?? []
  return name === undefined || address === undefined
    ? process.env
    : { ...process.env, [name]: address }
}

const needsSecret = ({ keyless, variables }: ProviderRow, env: Variables): boolean =>
  !keyless && !listSecrets(variables).some(name => env[name])

const listSecrets = (variables: ProviderVariables = {}): string[] =>
  [
    variables.api_key,
    variables.access_key_id,
    variables.secret_access_key,
    variables.session_token,
  ].flatMap(names => names ?? [])

const nameSecret = ({ variables }: ProviderRow, secret: string | undefined): Variables =>
  secret === undefined ? {} : { [variables?.api_key?.[0] ?? '']: secret }

const hideSecrets = ({ variables }: ProviderRow, env: Variables): Variables => ({
  ...env,
  ...Object.fromEntries(
    listSecrets(variables).flatMap(name => (env[name] ? [[name, `\${${name}}`]] : [])),
  ),
})

// What is not in the environment is put there, so that everything is read and checked as one.
function requireProvider(slug: string, env: Variables): EnvironmentProvider {
  const { providers, ignored } = findEnvironmentProviders(env, protocolNames)
  const found = providers.find(one => one.slug === slug)
  if (found) return found
  const wrong = ignored.find(one => one.slug === slug)
  if (wrong) throw invalid(`${wrong.variable}: ${wrong.reason}`)
  throw invalid(`${slug}: expected --base-url, the address before the protocol’s own path`)
}

/** In milliseconds. */
const CHECK_TIME = 10_000

/** Checks the credential. Returns a model for a first call. */
async function checkProvider(
  { slug, settings }: EnvironmentProvider,
  { check: isChecked, mustAnswer = true }: ProviderOptions,
): Promise<string | null> {
  const { checkProviders } = await import('../../../network/provider-check.ts')
  const { findExampleModel } = await import('../../../resources/models/example.ts')
  const gateway = await openGateway({ config: createConfig(slug, settings) })
  try {
    const [result] = isChecked
      ? (await checkProviders(gateway, [slug], CHECK_TIME)).data
      : [{ ok: null, error: 'not checked' }]
    const isRefused = result?.ok === false && (mustAnswer || result.status !== null)
    if (isRefused)
      throw denied(`${slug}: ${result.error}; nothing was written (--no-check writes it anyway)`)
    printNote(`${slug}: ${result?.ok ? 'the credential works' : result?.error}`)
    if (result?.ok === false) printNote('The key is written unchecked: gateway providers check')
    return findExampleModel(gateway.catalog, slug)?.id ?? null
  } finally {
    await gateway.close()
  }
}

const createConfig = (slug: string, settings: ProviderConfig): Config => ({
  ...createDefaultConfig(),
  providers: { [slug]: settings },
})

/** Returns how a config file names another file: below its directory, or by its whole path. */
function locate(path: string, configFile: string): string {
  const below = relative(dirname(resolve(configFile)), resolve(path))
  return below.startsWith('..') ? resolve(path) : below
}
