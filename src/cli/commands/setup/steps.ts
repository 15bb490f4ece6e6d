import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Gateway } from '../../../app/gateway.ts'
import { GatewayError, invalid } from '../../../base/errors.ts'
import { listNearest } from '../../../base/nearest.ts'
import { toPrintable } from '../../../base/printable.ts'
import { findEnvironmentProviders } from '../../../resources/providers/environment.ts'
import type { ProviderRow } from '../../../resources/providers/provider.ts'
import { PROVIDERS } from '../../../resources/providers.data.ts'
import { protocolNames } from '../../../translation/protocols/registry.ts'
import { listConfigPaths } from '../../config-file.ts'
import { getDataDirectory } from '../../data-directory.ts'
import { loadConfig } from '../../options.ts'
import { print, printNote } from '../../output.ts'
import { askLine, canAsk } from '../../prompt.ts'
import { withGateway, withNewGateway } from '../../with-gateway.ts'
import { type PreparedConfig, prepareConfig, writeConfig } from '../init/provider.ts'
import { printFirstKeys } from '../init.ts'
import type { SetupOptions } from '../setup.ts'

/** What is said to a model in the first call. */
const FIRST_WORDS = 'Say hello to the operator of a new gateway, in one short sentence.'

/**
 * Asks for a provider and its key, checks it, writes the config, makes the first keys and calls a
 * model. A step whose result is there already is passed over. Throws 400 where something has to be
 * asked and there is no terminal, and what the steps throw.
 */
export async function setUp(options: SetupOptions): Promise<void> {
  const existing = findConfig(options)
  if (existing !== undefined && options.provider !== undefined)
    throw new GatewayError(
      'conflict',
      `${resolve(existing)} exists already: add the provider there, or leave --provider out`,
    )
  if (existing === undefined) await addProvider(options)
  else printNote(`1. ${resolve(existing)} is there already, and is kept`)
  await addKeys(options)
  if (options.call) await makeFirstCall(options)
  print('')
  print(`gateway serve${namePlace(options)} serves the API; gateway tui shows what it does.`)
}

function findConfig(options: SetupOptions): string | undefined {
  const { paths } = listConfigPaths(options.config, getDataDirectory(options))
  return paths.find(path => existsSync(path))
}

async function addProvider(options: SetupOptions): Promise<void> {
  const provider = options.provider ?? (await askProvider())
  const prepared = await prepareWithRetries({ ...options, provider })
  const { createDefaultConfig } = await import('../../../config.ts')
  const write = () => writeConfig(prepared)
  await withNewGateway(options, write, createDefaultConfig())
  printNote(`1. Wrote ${prepared.file}`)
}

/** How often a key may be typed that the provider refuses. */
const MOST_TRIES = 3

async function prepareWithRetries(
  options: SetupOptions & { provider: string },
): Promise<PreparedConfig> {
  for (let left = MOST_TRIES; ; left--) {
    try {
      return await prepareConfig({ ...options, mustAnswer: false })
    } catch (thrown) {
      const isRefused = thrown instanceof GatewayError && thrown.type === 'permission_denied'
      if (!isRefused || left === 1 || !canAsk()) throw thrown
      printNote(thrown.message)
    }
  }
}

/** The providers that most people begin with. */
const USUAL = ['openai', 'anthropic', 'google', 'mistral', 'groq', 'openrouter', 'ollama']

async function askProvider(): Promise<string> {
  if (!canAsk()) throw invalid('--provider: expected one, as there is no terminal to ask on')
  const known = Object.keys(PROVIDERS).filter(isAskable)
  const [found] = findEnvironmentProviders(process.env, protocolNames).providers
  const initial = found?.slug ?? 'openai'
  if (found) printNote(`The environment has a key for ${found.slug}`)
  printNote(`Providers: ${USUAL.filter(slug => known.includes(slug)).join(', ')}, …`)
  for (;;) {
    const slug = (await askLine('Which provider?', initial)).toLowerCase()
    if (known.includes(slug)) return slug
    const [nearest] = listNearest(slug, known, 2)
    const hint = nearest ? `did you mean ${nearest}?` : 'gateway providers list shows them'
    printNote(`${toPrintable(slug)} is no provider that can be set up here: ${hint}`)
  }
}

const isAskable = (slug: string): boolean =>
  (PROVIDERS as Record<string, ProviderRow>)[slug]?.variables !== undefined

async function addKeys(options: SetupOptions): Promise<void> {
  const { createFirstKeys } = await import('../../../resources/workspaces.ts')
  const keys = await withNewGateway(options, createFirstKeys)
  if (!keys) return printNote('2. The data directory has API keys already: gateway keys list')
  printNote('2. Made the data directory and its first API keys')
  printFirstKeys(keys)
}

async function makeFirstCall(options: SetupOptions): Promise<void> {
  const model = options.model ?? (await findModel(options))
  if (model === undefined)
    return printNote('3. No model of this config is known: gateway try MODEL Hello makes a call')
  printNote(`3. Asking ${model}`)
  const { openAsker } = await import('../try/asker.ts')
  const { printStream } = await import('../try/text.ts')
  const messages = [{ role: 'user', content: FIRST_WORDS }]
  const body = { model, messages, stream: true, stream_options: { include_usage: true } }
  await openAsker(options, asker => printStream(asker, body)).catch(thrown => {
    // What was set up stands; who is asked may be down, or the network.
    if (!(thrown instanceof GatewayError) || !NO_ANSWER.has(thrown.type)) throw thrown
    printNote(`3. ${thrown.message}: gateway try ${model} Hello asks again`)
  })
}

const NO_ANSWER = new Set<string>(['provider_unavailable', 'timeout'])

/** Finds a model for the first call: the config's own default, else a cheap one of a provider. */
async function findModel(options: SetupOptions): Promise<string | undefined> {
  const { config } = await loadConfig(options, { withoutSecrets: true })
  if (config.default_model) return config.default_model
  const { findExampleModel } = await import('../../../resources/models/example.ts')
  const find = ({ catalog }: Gateway) =>
    Object.keys(config.providers)
      .map(slug => findExampleModel(catalog, slug)?.id)
      .find(id => id !== undefined)
  return withGateway(options, find)
}

const namePlace = ({ data, config }: SetupOptions): string =>
  (data === undefined ? '' : ` --data ${data}`) +
  (config === undefined ? '' : ` --config ${config}`)
