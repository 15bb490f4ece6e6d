import { type Static, Type } from '@sinclair/typebox'
import type { ServerTool, ToolInvocation, ToolResult } from '../inference/server-tool.ts'
import type { InferenceWorld } from '../inference/world.ts'
import type { Json } from '../kernel/json.ts'
import { toNanos } from '../kernel/money.ts'
import { closed, list, oneOf, optional } from '../kernel/schema-builders.ts'
import { allowsUrl, type DomainLists, readDomainLists } from './domains.ts'
import { requireMatch } from './parameters.ts'
import { cleanText, cutBytes, cutText, markAsData } from './untrusted-text.ts'
import { buildFailedResult, runUse, ToolFailure, type UseLimit } from './use-limit.ts'
import { type FetchedPage, fetchPage } from './web-fetch/fetch-page.ts'
import { readFetchedPage } from './web-fetch/read-page.ts'
import { checkRobots } from './web-fetch/robots.ts'

const Domains = list(Type.String({ maxLength: 300 }))

/** The parameters of the tool (wire reference D.6). */
export const WebFetchParameters = Type.Object(
  {
    engine: Type.Optional(
      oneOf('auto', 'native', 'openrouter', 'gateway', 'exa', 'parallel', 'firecrawl'),
    ),
    allowed_domains: optional(Domains),
    blocked_domains: optional(Domains),
    max_content_tokens: optional(Type.Integer({ minimum: 1, maximum: 10_000_000 })),
    max_uses: optional(Type.Integer({ minimum: 1, maximum: 1_000_000 })),
  },
  closed,
)

/** What the parameters of the tool say; null where they say nothing. */
export interface WebFetchOptions {
  engine: NonNullable<Static<typeof WebFetchParameters>['engine']>
  domains: DomainLists
  max_content_tokens: number | null
  max_uses: number | null
}

/**
 * The tool that reads a page or a document (wire reference D.6). The gateway fetches it itself, from
 * public hosts only.
 */
export const webFetch: ServerTool<WebFetchOptions> = {
  name: 'web_fetch',
  schema: WebFetchParameters,
  readOptions,
  findObstacle: ({ config }, { engine }) => {
    if (!config.web_fetch.enabled) return SWITCHED_OFF
    return OWN_ENGINES.has(engine)
      ? null
      : `the engine ${engine} is not one of this gateway: expected auto, gateway or openrouter`
  },
  priceUse: ({ config }) => toNanos(config.web_fetch.usd_per_fetch ?? 0),
  listFunctions: () => [FUNCTION],
  describeUse: (_, { input }) => (typeof input.url === 'string' ? { url: input.url } : {}),
  run: runFetch,
}

const SWITCHED_OFF = 'web_fetch is switched off (web_fetch.enabled)'
/** The names of the engine that the gateway itself is. */
const OWN_ENGINES = new Set<string>(['auto', 'gateway', 'openrouter'])

const FUNCTION = {
  name: 'web_fetch',
  description: 'Reads a page or a document on the web by its URL. Returns its text.',
  parameters: {
    type: 'object',
    properties: { url: { type: 'string', description: 'The whole URL, with https://' } },
    required: ['url'],
    additionalProperties: false,
  },
}

function readOptions(parameters: Json, path: string): WebFetchOptions {
  const read = requireMatch(WebFetchParameters, parameters, path)
  return {
    engine: read.engine ?? 'auto',
    domains: readDomainLists(
      [read.allowed_domains, `${path}.allowed_domains`],
      [read.blocked_domains, `${path}.blocked_domains`],
    ),
    max_content_tokens: read.max_content_tokens ?? null,
    max_uses: read.max_uses ?? null,
  }
}

async function runFetch(
  world: InferenceWorld,
  invocation: ToolInvocation<WebFetchOptions>,
): Promise<ToolResult> {
  const { options, input, uses } = invocation
  const { web_fetch: settings } = world.config
  const most = Math.min(options.max_uses ?? Number.POSITIVE_INFINITY, settings.max_uses)
  if (!settings.enabled) return buildFailedResult(SWITCHED_OFF)
  if (uses >= most) return buildFailedResult(`No more pages: this call may read ${most}`)
  const { url } = input
  if (typeof url !== 'string') return buildFailedResult('url: expected a URL')
  const result = await runUse(invocation, settings.timeout_seconds * 1000, async limit => {
    const page = await fetchAllowed(world, url, options, limit)
    return renderPage(world, page, options)
  })
  return toItem(result, url)
}

/** Fetches a page of the sites that the call allows, and which allow it. */
async function fetchAllowed(
  world: InferenceWorld,
  url: string,
  { domains }: WebFetchOptions,
  limit: UseLimit,
): Promise<FetchedPage> {
  const { robots, max_mib } = world.config.web_fetch
  const page = await fetchPage(
    world,
    {
      url,
      maxBytes: max_mib * 1024 * 1024,
      async checkPage(each) {
        if (!allowsUrl(domains, each))
          throw new ToolFailure('This site is not among those that may be read')
        if (robots) await checkRobots(world, each, limit)
      },
    },
    limit,
  )
  if (page.status < 200 || page.status > 299)
    throw new ToolFailure(`The page answered with the status ${page.status}`, {
      httpStatus: page.status,
    })
  return page
}

/** English texts have about four characters a token, and others about as many bytes. */
const BYTES_PER_TOKEN = 4
const LONGEST_TITLE = 300

async function renderPage(
  world: InferenceWorld,
  page: FetchedPage,
  options: WebFetchOptions,
): Promise<ToolResult> {
  const { max_content_tokens: mostTokens, usd_per_fetch } = world.config.web_fetch
  const mostBytes = Math.min(options.max_content_tokens ?? mostTokens, mostTokens) * BYTES_PER_TOKEN
  // One character more shows that the text was cut.
  const read = await readFetchedPage(world, page, mostBytes + 1)
  const whole = cleanText(read.text).trim()
  const content = cutBytes(whole, mostBytes)
  const title = read.title === null ? null : cutText(cleanText(read.title), LONGEST_TITLE)
  const isCut = page.isCut || content.length < whole.length
  const text = markAsData(page.url, [title, content].filter(Boolean).join('\n\n'))
  return {
    ...(usd_per_fetch === undefined ? {} : { cost: toNanos(usd_per_fetch) }),
    text: isCut ? `${text}\nThe page is longer: its rest was cut off.` : text,
    isError: false,
    sources: [{ url: page.url, title }],
    item: {
      ...{ url: page.url, httpStatus: page.status, content },
      ...(title === null ? {} : { title }),
    },
  }
}

const toItem = (result: ToolResult, url: string): ToolResult => ({
  ...result,
  item: { url, ...(result.isError ? { error: result.text } : {}), ...result.item },
})
