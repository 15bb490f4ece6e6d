import { Command, InvalidArgumentError, Option } from 'commander'
import { invalid } from '../../base/errors.ts'
import type { Provider } from '../../resources/providers/provider.ts'
import { getDataDirectory } from '../data-directory.ts'
import { CUT, type Fields } from '../fields.ts'
import { defineNoun, defineVerbs } from '../noun.ts'
import {
  addPlaceOptions,
  addShapeOptions,
  type CommonOptions,
  parseDuration,
  parseNumber,
} from '../options.ts'
import { print, printResult } from '../output.ts'

const verb = defineVerbs(() => import('../../resources/providers.ts'), {
  needs: { data: false },
})
const checkVerb = defineVerbs(() => import('../../extensions/tools/provider-check.ts'), {
  needs: { data: false, secrets: true },
})

/** Creates a command that asks the running server about one endpoint: its circuits are in memory. */
function createHandledCommand(name: string, description: string): Command {
  const command = new Command(name)
    .description(description)
    .argument('<endpoint...>', 'its id, as gateway status, watch and generations get show it')
  return addPlaceOptions(addShapeOptions(command, 'print exactly what the server answers'))
}

async function handleEndpoint(
  options: CommonOptions,
  request: Record<string, unknown>,
): Promise<void> {
  const { askServer } = await import('../feed.ts')
  const answer = (await askServer(getDataDirectory(options), request)) as {
    data: { endpoint: string; cooldown: { seconds_left: number } | null }
  }
  await printResult(options, answer, ({ data: { endpoint, cooldown } }) =>
    print(cooldown ? `${endpoint} rests for ${cooldown.seconds_left} s` : `${endpoint} is awake`),
  )
}

/** In seconds, as the server bounds it. */
const LONGEST_REST = 86_400

function parseRest(text: string): number {
  const seconds = /^\d+[smhd]$/.test(text) ? parseDuration(text) : 0
  if (seconds < 1 || seconds > LONGEST_REST)
    throw new InvalidArgumentError('expected a time such as 10m or 2h, from 1s to 24h')
  return seconds
}

const createRestCommand = () =>
  createHandledCommand('rest', 'let an endpoint of the running server rest: calls ask it last')
    .option('--for <time>', 'how long: 10m, 2h', parseRest, 600)
    .action((endpoint: string[], options: CommonOptions & { for: number }) =>
      handleEndpoint(options, { do: 'rest', endpoint: endpoint.join(' '), seconds: options.for }),
    )

const createWakeCommand = () =>
  createHandledCommand('wake', 'end every cooldown of an endpoint of the running server').action(
    (endpoint: string[], options: CommonOptions) =>
      handleEndpoint(options, { do: 'wake', endpoint: endpoint.join(' ') }),
  )

const TIMEOUT: Fields = {
  options: [
    new Option('--timeout <seconds>', 'how long each check may take')
      .argParser(parseNumber)
      .default(10),
  ],
  read: ({ timeout }: { timeout: number }) => checkTimeout(timeout),
}

/** `gateway providers`: known providers, and which are configured. */
export const createProvidersCommand = () =>
  defineNoun('providers', 'providers of models', [
    verb('list', 'list the providers', [CUT], core => core.listProviders).printAs(
      ({ data }, { gateway: { catalog }, printList }) =>
        printList(
          ['PROVIDER', 'NAME', 'PROTOCOL', 'STATE'],
          data.flatMap(({ slug: listed }) => {
            const provider = catalog.providers.get(listed)
            return provider
              ? [[listed, provider.name, provider.protocol, describeState(provider)]]
              : []
          }),
        ),
    ),
    checkVerb(
      'check [provider...]',
      'check the configured providers and engines with requests that cost nothing',
      [TIMEOUT],
      (core, { timeout }: { timeout: number }) =>
        async (gateway, _, providers) => {
          const { data } = await core.checkAll(gateway, providers, timeout * 1000)
          if (data.some(({ ok }) => ok === false)) process.exitCode = 1
          return { data }
        },
    ).printAs({
      PROVIDER: ({ provider, credential }) =>
        credential === undefined ? provider : `${provider} ${credential}`,
      STATE: ({ ok }) => (ok === null ? '?' : ok ? 'ok' : 'WRONG'),
      STATUS: ({ status }) => status,
      MS: ({ milliseconds }) => milliseconds,
      FOUND: ({ error }) => error,
    }),
    createRestCommand(),
    createWakeCommand(),
  ])

const describeState = ({ configured, pool }: Provider): string =>
  pool
    ? `configured: ${pool.credentials.map(({ name }) => name).join(', ')}`
    : configured
      ? 'configured'
      : '-'

const LONGEST_SECONDS = 600

function checkTimeout(seconds: number): Record<string, never> {
  if (seconds <= 0 || seconds > LONGEST_SECONDS)
    throw invalid(`--timeout: expected a number of seconds above 0, to ${LONGEST_SECONDS}`)
  return {}
}
