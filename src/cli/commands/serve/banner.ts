import { resolve } from 'node:path'
import type { Gateway } from '../../../app/gateway.ts'
import { toPrintable } from '../../../base/printable.ts'
import { VERSION } from '../../../base/version.ts'
import { describeDatabase } from '../../../config/storage.ts'
import { getConsoleUrl } from '../../../config.ts'
import type { EnvironmentProvider } from '../../../resources/providers/environment.ts'
import type { ConfigFile } from '../../config-file.ts'
import { print } from '../../output.ts'
import { printFirstKeys } from '../init.ts'

/** What `gateway serve` says about itself when it starts. */
export interface Start {
  url: string
  /** The data directory, and whether this start made it. */
  data: string
  isNew: boolean
  configFile: ConfigFile
  /** A config in the current directory that was not read. */
  skipped: string | undefined
  /** The first keys: made and shown on a terminal only. */
  keys: FirstKeys | undefined
}

interface FirstKeys {
  management_key: string
  inference_key: string
}

/**
 * Returns what runs and where, for a log: names only. Never contains a secret.
 */
export const listStartFacts = (gateway: Gateway, { configFile, url, data }: Start) => ({
  version: VERSION,
  data: resolve(data),
  ...(gateway.config.storage.postgres
    ? { database: describeDatabase(gateway.config.storage.postgres.url) }
    : {}),
  config: configFile.file === null ? null : resolve(configFile.file),
  providers: listCallable(gateway),
  environment: Object.fromEntries(configFile.environment.providers.map(toNames)),
  docs: `${url}/docs`,
})

const toNames = ({ slug, variables }: EnvironmentProvider): [string, string[]] => [slug, variables]

/**
 * Prints what runs and where, for a person. The line with the address comes last: a program that
 * waits for it has then read everything. Never prints a secret, except the first keys.
 */
export async function printBanner(gateway: Gateway, start: Start): Promise<void> {
  print(`gateway ${VERSION}`)
  for (const [name, value] of describeStart(gateway, start))
    print(toPrintable(`  ${name.padEnd(9)}  ${value}`))
  if (start.keys) printFirstKeys(start.keys)
  else if (gateway.memory.keys.size === 0)
    print(`There is no API key yet: ${spellCommand('keys create --name me', start)} makes one`)
  if (start.keys || gateway.memory.keys.size === 0) await printExample(gateway, start)
  print(`gateway listens on ${start.url}`)
}

function describeStart(gateway: Gateway, start: Start): [string, string][] {
  const { configFile, skipped } = start
  const { environment, file } = configFile
  const { postgres } = gateway.config.storage
  return [
    ['data', `${resolve(start.data)}${start.isNew ? ' (new)' : ''}`],
    ...(postgres ? ([['database', describeDatabase(postgres.url)]] as [string, string][]) : []),
    ['config', file === null ? 'none: the defaults' : resolve(file)],
    ...(skipped === undefined ? [] : ([['not read', skipped]] as [string, string][])),
    ['providers', describeProviders(gateway, environment.providers)],
    ...environment.ignored.map(
      ({ variable, reason }) => ['ignored', `${variable}: ${reason}`] as [string, string],
    ),
    ...(gateway.config.server.console
      ? ([['console', `${findConsoleUrl(gateway, start)}/console`]] as [string, string][])
      : []),
    ['docs', `${start.url}/docs`],
  ]
}

const findConsoleUrl = (gateway: Gateway, { url }: Start): string =>
  gateway.config.server.console_host === undefined ? url : getConsoleUrl(gateway)

function describeProviders(gateway: Gateway, found: EnvironmentProvider[]): string {
  const sources = new Map(found.map(({ slug, variables }) => [slug, variables[0]]))
  const described = listCallable(gateway).map(slug =>
    sources.has(slug) ? `${slug} (${sources.get(slug)})` : slug,
  )
  const sandbox = 'sandbox (built in, free, needs no key)'
  return [...described.filter(name => name !== 'sandbox'), sandbox].join(', ')
}

const listCallable = ({ catalog }: Gateway): string[] =>
  [...catalog.providers.values()].flatMap(({ configured, slug }) => (configured ? slug : []))

/** Prints a first call, to a real model where there is one. */
async function printExample(gateway: Gateway, { url, keys }: Start): Promise<void> {
  const { findExampleModel } = await import('../../../resources/models/example.ts')
  // The sandbox has no prices, and the built-in catalogue is not read for it.
  const slugs = listCallable(gateway).filter(slug => slug !== 'sandbox')
  const models = slugs.values().map(slug => findExampleModel(gateway.catalog, slug)?.id)
  const body = JSON.stringify({
    model: models.find(id => id !== undefined) ?? 'sandbox/echo',
    stream: true,
    messages: [{ role: 'user', content: 'Hello there' }],
  })
  const key = keys?.inference_key ?? '$KEY'
  print('Try it:')
  print(`  curl -N ${url}/api/v1/chat/completions -H "Authorization: Bearer ${key}" -d '${body}'`)
}

// The default directory needs no flag, and npm's checkout has no `gateway` on its path.
function spellCommand(line: string, { data }: Start): string {
  const path = /^[\w./-]+$/.test(data) ? data : `'${data.replaceAll("'", "'\\''")}'`
  const program = process.env.npm_lifecycle_event === 'start' ? NPM : 'gateway'
  return `${program} ${line}${data === './gateway-data' ? '' : ` --data ${path}`}`
}

const NPM = 'npm run --silent gateway --'
