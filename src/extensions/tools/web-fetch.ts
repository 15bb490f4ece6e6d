import { isUtf8 } from 'node:buffer'
import { type Static, Type } from '@sinclair/typebox'
import { GatewayError } from '../../base/errors.ts'
import type { Asker } from '../../base/job-worker.ts'
import { type Json, omitUndefined } from '../../base/json.ts'
import { toNanos } from '../../base/money.ts'
import { closed, list, oneOf, optional } from '../../base/schema-builders.ts'
import { VERSION } from '../../base/version.ts'
import type { Config } from '../../config.ts'
import type { DocumentText } from '../../engine/traffic/read-documents.ts'
import type { ToolReading } from '../../language/server-tools.ts'
import type { IncomingResponse } from '../../network/egress.ts'
import { type CheckedUrl, checkUntrustedUrl } from '../../network/untrusted-url.ts'
import type { Egress, UpstreamWorld } from '../../network/world.ts'
import type { ToolWorld } from '../../translation/dialects/world.ts'
import { createAsker } from '../asker.ts'
import type { ServerTool, ToolInvocation, ToolResult } from '../server-tool.ts'
import type { ExtensionWorld } from '../world.ts'
import { allowsUrl, type DomainLists, readDomainLists } from './domains.ts'
import { hasFunction, isRunByAll, leaveNative, listNone, type NativeForm } from './native-form.ts'
import { requireMatch } from './parameters.ts'
import { cleanText, cutBytes, cutText, markAsData } from './untrusted-text.ts'
import { buildFailedResult, runUse, ToolFailure, type UseLimit } from './use-limit.ts'
import {
  type ConfiguredFetchEngine,
  chooseFetchEngine,
  findFetchEngineObstacle,
} from './web-fetch/choose-engine.ts'
import type { PageQuestion, ReadPage } from './web-fetch/engine.ts'
import { convertHtml, type ReadablePage } from './web-fetch/html-to-text.ts'
import { FETCH_ENGINES } from './web-fetch/registry.ts'
import { describeStatus, readJson, sendToEngine } from './web-search/search.ts'

/** What a site lets robots read. */
interface RobotRules {
  allows(url: string): boolean
  /** Until when they hold, in steady milliseconds. */
  until: number
}

/** As much of a `robots.txt` is read; a search engine reads 500 KiB (RFC 9309, 2.5). */
const LARGEST = 512 * 1024
/** An hour: RFC 9309 (2.4) allows a day. */
const LIFETIME = 3_600_000
const MOST_SITES = 1_000

// The rules of sites, by the way out through which they were read.
const caches = new WeakMap<Egress, Map<string, RobotRules>>()

/**
 * Throws `ToolFailure` if the site's `robots.txt` does not let a robot read the URL. It is fetched
 * as untrusted as the page itself, once an hour (RFC 9309).
 */
async function checkRobots(world: UpstreamWorld, url: string, limit: UseLimit): Promise<void> {
  const { origin } = new URL(url)
  const sites = caches.get(world.egress) ?? new Map<string, RobotRules>()
  caches.set(world.egress, sites)
  const known = sites.get(origin)
  const rules =
    known && known.until > world.clock.ticks() ? known : await readRules(world, origin, limit)
  // The oldest goes first, so that the list stays short.
  sites.delete(origin)
  sites.set(origin, rules)
  for (const oldest of sites.keys()) {
    if (sites.size <= MOST_SITES) break
    sites.delete(oldest)
  }
  if (!rules.allows(url)) throw new ToolFailure('The site’s robots.txt does not allow this page')
}

async function readRules(
  world: UpstreamWorld,
  origin: string,
  limit: UseLimit,
): Promise<RobotRules> {
  const request = { url: `${origin}/robots.txt`, maxBytes: LARGEST, checkPage: () => undefined }
  const page = await fetchPage(world, request, limit).catch(() => null)
  // Where the rules cannot be read, nothing is allowed; where there are none, everything is
  // (RFC 9309, 2.3.1).
  if (page === null || page.status >= 500 || page.status === 429)
    throw new ToolFailure('The site’s robots.txt cannot be read')
  const until = world.clock.ticks() + LIFETIME
  if (page.status !== 200) return { allows: () => true, until }
  return { allows: await parseRules(page, origin), until }
}

async function parseRules(page: FetchedPage, origin: string): Promise<RobotRules['allows']> {
  // Loaded on first use: few calls need it, and every start would pay for it.
  const { default: parseRobots } = await import('robots-parser')
  const robots = parseRobots(`${origin}/robots.txt`, keepRules(page.bytes.toString('utf8')))
  return url => robots.isAllowed(url, ROBOT) ?? true
}

/** The most rules of one site, the most characters of one, and of all with a wildcard. */
const MOST_RULES = 5_000
const LONGEST_RULE = 512
const MOST_WILDCARDS = 10_000

/**
 * Returns the lines that hold rules, as many as are compared with a URL in milliseconds: a rule with
 * wildcards takes time with its length times the URL's.
 */
function keepRules(text: string): string {
  const kept: string[] = []
  let [rules, wildcards] = [0, 0]
  for (const line of text.split(/[\r\n]+/)) {
    const name = /^\s*(user-agent|allow|disallow)\s*:/i.exec(line.slice(0, 100))?.[1]
    if (name === undefined || line.length > LONGEST_RULE) continue
    if (name.toLowerCase() !== 'user-agent' && ++rules > MOST_RULES) break
    if (line.includes('*')) wildcards += line.length
    if (line.includes('*') && wildcards > MOST_WILDCARDS) continue
    kept.push(line)
  }
  return kept.join('\n')
}

const Domains = list(Type.String({ maxLength: 300 }))

/** The parameters of the tool (wire reference D.6). */
const WebFetchParameters = Type.Object(
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
  /** The tool as Anthropic's API has it; absent for the gateway's own. */
  native?: NativeForm
}

/**
 * The tool that reads a page or a document (wire reference D.6). The gateway fetches it itself, from
 * public hosts only, or has a service of the config do that.
 */
export const webFetch: ServerTool<WebFetchOptions> = {
  name: 'web_fetch',
  schema: WebFetchParameters,
  readOptions,
  nativeTypes: { messages: /^web_fetch_\d{8}$/ },
  readNative,
  delegate: (world, call, { native }) =>
    native && (isRunByAll(world, call) || hasFunction(call, FUNCTION.name))
      ? leaveNative(call, native)
      : null,
  findObstacle: ({ config }, { engine, native }) => {
    if (native) return null
    if (!config.web_fetch.enabled) return SWITCHED_OFF
    const chosen = chooseFetchEngine(config, engine)
    return chosen && 'obstacle' in chosen ? chosen.obstacle : null
  },
  listParts: ({ config }) => [
    { name: 'gateway', obstacle: config.web_fetch.enabled ? null : SWITCHED_OFF },
    ...FETCH_ENGINES.map(engine => ({
      name: engine.name,
      obstacle: findFetchEngineObstacle(config, engine),
    })),
  ],
  findService({ config }, { engine }) {
    const chosen = chooseFetchEngine(config, engine)
    // A page that the gateway reads itself is asked for at its site, by a URL that a model wrote.
    if (chosen === null) {
      const { data_policy } = config.web_fetch
      return { name: 'web_fetch', provider: 'web', model: 'web', data_policy, isNoProvider: true }
    }
    if ('obstacle' in chosen) return null
    const { name } = chosen.engine
    const { data_policy } = chosen.settings
    return { name: `the service ${name}`, provider: name, model: name, data_policy }
  },
  priceUse: ({ config }, { engine }) => toNanos(findPrice(config, engine) ?? 0),
  listFunctions: () => [FUNCTION],
  describeUse: (_, { input }) => (typeof input.url === 'string' ? { url: input.url } : {}),
  run: runFetch,
}

/** Reads the tool as Anthropic's API has it. What it says of citations is the provider's alone. */
function readNative(
  { config }: ToolWorld,
  entry: Json,
  { at = 0 }: ToolReading,
): WebFetchOptions | null {
  if (!config.web_fetch.enabled) return null
  const parameters = omitUndefined({
    allowed_domains: listNone(entry.allowed_domains),
    blocked_domains: listNone(entry.blocked_domains),
    max_content_tokens: entry.max_content_tokens ?? undefined,
    max_uses: entry.max_uses ?? undefined,
  })
  try {
    return { ...readOptions(parameters, ''), native: { value: entry, at } }
  } catch {
    return null
  }
}

const SWITCHED_OFF = 'web_fetch is switched off (web_fetch.enabled)'

/** Returns what one page costs, in USD; undefined if it has no price. */
function findPrice(config: Config, engine: string): number | undefined {
  const chosen = chooseFetchEngine(config, engine)
  if (chosen === null) return config.web_fetch.usd_per_fetch
  return 'obstacle' in chosen ? undefined : chosen.settings.usd_per_fetch
}

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
  world: ExtensionWorld,
  invocation: ToolInvocation<WebFetchOptions>,
): Promise<ToolResult> {
  const { options, input, uses } = invocation
  const { web_fetch: settings } = world.config
  const most = Math.min(options.max_uses ?? Number.POSITIVE_INFINITY, settings.max_uses)
  if (!settings.enabled) return buildFailedResult(SWITCHED_OFF)
  if (uses >= most) return buildFailedResult(`No more pages: this call may read ${most}`)
  const { url } = input
  if (typeof url !== 'string') return buildFailedResult('url: expected a URL')
  const chosen = chooseFetchEngine(world.config, options.engine)
  if (chosen && 'obstacle' in chosen) return buildFailedResult(chosen.obstacle)
  const seconds = chosen?.settings.timeout_seconds ?? settings.timeout_seconds
  const result = await runUse(invocation, seconds * 1000, limit =>
    chosen
      ? askAllowed(world, chosen, url, options, limit)
      : readAllowed(world, invocation, url, limit),
  )
  return toItem(result, url)
}

/** Reads a page itself. */
async function readAllowed(
  world: ExtensionWorld,
  { options, run }: ToolInvocation<WebFetchOptions>,
  url: string,
  limit: UseLimit,
): Promise<ToolResult> {
  const page = await fetchAllowed(world, url, options, limit)
  // One character more shows that the text was cut.
  const read = await readFetchedPage(world, page, {
    mostCharacters: countBytes(world, options) + 1,
    asker: createAsker(run, limit),
  })
  return renderPage(world, { ...page, ...read }, options)
}

/** Has a service read a page of the sites that the call allows. */
async function askAllowed(
  world: ExtensionWorld,
  chosen: ConfiguredFetchEngine,
  url: string,
  options: WebFetchOptions,
  limit: UseLimit,
): Promise<ToolResult> {
  if (!allowsUrl(options.domains, url)) throw NOT_ALLOWED
  const question = { url, maxCharacters: countBytes(world, options) + 1 }
  const page = await askFetchEngine(world, chosen, question, limit)
  const status = page.status ?? 200
  if (status < 200 || status > 299) throw refuseStatus(status)
  const final = page.url !== null && URL.canParse(page.url) ? page.url : url
  if (!allowsUrl(options.domains, final)) throw NOT_ALLOWED
  return renderPage(world, { ...page, url: final, status, isCut: false }, options)
}

const NOT_ALLOWED = new ToolFailure('This site is not among those that may be read')

const refuseStatus = (status: number): ToolFailure =>
  new ToolFailure(`The page answered with the status ${status}`, { httpStatus: status })

/** Fetches a page of the sites that the call allows, and which allow it. */
async function fetchAllowed(
  world: ExtensionWorld,
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
        if (!allowsUrl(domains, each)) throw NOT_ALLOWED
        if (robots) await checkRobots(world, each, limit)
      },
    },
    limit,
  )
  if (page.status < 200 || page.status > 299) throw refuseStatus(page.status)
  return page
}

/** English texts have about four characters a token, and others about as many bytes. */
const BYTES_PER_TOKEN = 4
const LONGEST_TITLE = 300

/** A page as it was read. */
type PageText = Pick<FetchedPage, 'url' | 'status' | 'isCut'> & ReadablePage

/** Returns how many bytes of a page a model is given at most. */
function countBytes({ config }: ExtensionWorld, { max_content_tokens }: WebFetchOptions): number {
  const most = config.web_fetch.max_content_tokens
  return Math.min(max_content_tokens ?? most, most) * BYTES_PER_TOKEN
}

function renderPage(world: ExtensionWorld, page: PageText, options: WebFetchOptions): ToolResult {
  const price = findPrice(world.config, options.engine)
  const whole = cleanText(page.text).trim()
  const content = cutBytes(whole, countBytes(world, options))
  const title = page.title === null ? null : cutText(cleanText(page.title), LONGEST_TITLE)
  const isCut = page.isCut || content.length < whole.length
  const text = markAsData(page.url, [title, content].filter(Boolean).join('\n\n'))
  return {
    ...(price === undefined ? {} : { cost: toNanos(price) }),
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

/** Returns what people read in a page or a file. Throws `ToolFailure` if that is not known. */
async function readFetchedPage(
  world: ExtensionWorld,
  page: FetchedPage,
  { mostCharacters, asker }: { mostCharacters: number; asker: Asker },
): Promise<ReadablePage> {
  const type = page.type === '' ? guessType(page.bytes) : page.type
  if (HTML.has(type)) return convertHtml(decodeText(page), page.url, mostCharacters)
  if (isTextType(type)) return { title: null, text: decodeText(page).slice(0, mostCharacters) }
  const document = DOCUMENTS.has(type) ? await readDocument(world, page, asker) : null
  if (document === null)
    throw new ToolFailure(`Pages of the type ${describeType(type)} cannot be read`)
  return { title: null, text: document.text }
}

const HTML = new Set(['text/html', 'application/xhtml+xml'])

const isTextType = (type: string): boolean =>
  type.startsWith('text/') || TEXTS.has(type) || /\+(json|xml)$/.test(type)

const TEXTS = new Set([
  ...['application/json', 'application/xml', 'application/javascript', 'application/yaml'],
  ...['application/x-yaml', 'application/x-ndjson', 'application/ld+json', 'application/toml'],
])

const OFFICE = 'application/vnd.openxmlformats-officedocument.'
const DOCUMENTS = new Set([
  ...['application/pdf', 'application/octet-stream'],
  ...['wordprocessingml.document', 'spreadsheetml.sheet', 'presentationml.presentation'].map(
    kind => OFFICE + kind,
  ),
])

// The server's own words may be anything.
const describeType = (type: string): string =>
  /^[a-z]+\/[a-z0-9.+-]{1,80}$/.test(type) ? type : 'that its server states'

/** Reads a document; null for bytes that are none. */
async function readDocument(
  { documents }: ExtensionWorld,
  { bytes, isCut }: FetchedPage,
  asker: Asker,
): Promise<DocumentText | null> {
  if (isCut) throw new ToolFailure('The file is too large')
  try {
    return await documents.read(new Uint8Array(bytes), 'The file', asker)
  } catch (thrown) {
    const isOurs = thrown instanceof GatewayError && thrown.type === 'invalid_request'
    throw new ToolFailure(isOurs ? thrown.message : 'The file cannot be read')
  }
}

const SAMPLE = 1_024

function guessType(bytes: Buffer): string {
  const start = bytes.subarray(0, SAMPLE)
  if (start.subarray(0, 5).toString('latin1') === '%PDF-') return 'application/pdf'
  if (start.includes(0)) return 'application/octet-stream'
  return /<(!doctype html|html|head|body)/i.test(start.toString('latin1'))
    ? 'text/html'
    : 'text/plain'
}

/** Decodes a text by its marks, its server's word or its own, in this order. */
function decodeText({ bytes, charset, type }: FetchedPage): string {
  const named = findMark(bytes) ?? charset ?? (HTML.has(type) ? findOwnCharset(bytes) : null)
  if (named === null || isUtf8(bytes)) return UTF8.decode(bytes)
  try {
    return new TextDecoder(named).decode(bytes)
  } catch {
    return UTF8.decode(bytes)
  }
}

const UTF8 = new TextDecoder()

function findMark(bytes: Buffer): string | null {
  if (bytes[0] === 0xff && bytes[1] === 0xfe) return 'utf-16le'
  return bytes[0] === 0xfe && bytes[1] === 0xff ? 'utf-16be' : null
}

const findOwnCharset = (bytes: Buffer): string | null =>
  /<meta[^>]{0,200}?charset\s{0,4}=\s{0,4}["']?([\w.:-]{1,40})/i.exec(
    bytes.subarray(0, SAMPLE).toString('latin1'),
  )?.[1] ?? null

/**
 * Has a service read a page. It is told URLs of public hosts only: it cannot read others, and they
 * may be secret. Throws `ToolFailure` with a sentence that has nothing of the service's own
 * words, which might repeat the key, and `invalid_request` for a URL that may not be called.
 */
async function askFetchEngine(
  world: UpstreamWorld,
  { engine, settings }: ConfiguredFetchEngine,
  question: PageQuestion,
  limit: UseLimit,
): Promise<ReadPage> {
  await limit.race(checkUntrustedUrl(world, question.url))
  const branch = limit.open()
  try {
    const request = engine.buildRequest(question, settings)
    const incoming = await sendToEngine(world, engine, settings, request, branch)
    if (incoming.status !== 200)
      throw new ToolFailure(describeStatus(`The service ${engine.name}`, 'pages', incoming.status))
    const page = engine.readPage(await readJson(incoming))
    if (page === null) throw new ToolFailure(`The service ${engine.name} sent no page`)
    if ('failed' in page) throw describeUnread(engine.name, page.failed)
    return page
  } finally {
    limit.release(branch)
  }
}

const describeUnread = (name: string, status: number | null): ToolFailure =>
  new ToolFailure(
    status === null
      ? `The service ${name} could not read the page`
      : `The service ${name} could not read the page, which answered with the status ${status}`,
    status === null ? {} : { httpStatus: status },
  )

/** What to fetch, and how much of it. */
interface PageRequest {
  url: string
  /** The most bytes, decompressed. What follows is not read. */
  maxBytes: number
  /** Called with every URL before it is asked for, redirects included. Throws to refuse it. */
  checkPage: (url: string) => Promise<void> | void
}

/** What a URL led to. */
interface FetchedPage {
  /** The URL after redirects. */
  url: string
  status: number
  /** The type that the server states, in lower case: `text/html`; empty if it states none. */
  type: string
  /** The charset that the server states; null if it states none. */
  charset: string | null
  bytes: Buffer
  /** Whether there was more than `maxBytes`. */
  isCut: boolean
}

const MAX_REDIRECTS = 5
const REDIRECTS = [301, 302, 303, 307, 308]

/**
 * Fetches a page that a model named. Only public hosts are called, each at the address that was
 * checked, redirects included (`upstream/untrusted-url.ts`). Throws `ToolFailure`, or
 * `invalid_request` for a URL that may not be called.
 */
async function fetchPage(
  world: UpstreamWorld,
  request: PageRequest,
  limit: UseLimit,
): Promise<FetchedPage> {
  let checked = await limit.race(checkUntrustedUrl(world, request.url))
  for (let redirects = 0; redirects <= MAX_REDIRECTS; redirects++) {
    await request.checkPage(checked.url)
    const result = await requestPage(world, checked, request.maxBytes, limit)
    if (typeof result !== 'string') return result
    checked = await limit.race(checkUntrustedUrl(world, result, undefined, checked.url))
  }
  throw new ToolFailure(`The page redirects more than ${MAX_REDIRECTS} times`)
}

/** How the gateway names itself to sites, and what `robots.txt` calls it. */
const ROBOT = 'gateway-fetch'

const HEADERS = {
  accept: 'text/html,application/xhtml+xml,text/plain;q=0.9,application/json;q=0.9,*/*;q=0.5',
  'accept-encoding': 'identity',
  'accept-language': 'en,*;q=0.5',
  'user-agent': `Mozilla/5.0 (compatible; ${ROBOT}/${VERSION})`,
  connection: 'close',
}

/** Requests a URL. Returns the page, or the target of a redirect. Always closes the connection. */
async function requestPage(
  world: UpstreamWorld,
  checked: CheckedUrl,
  maxBytes: number,
  limit: UseLimit,
): Promise<FetchedPage | string> {
  const branch = limit.open()
  try {
    const incoming = await world.egress.send(
      { method: 'GET', ...checked, headers: HEADERS, body: '' },
      branch,
    )
    const target = REDIRECTS.includes(incoming.status) ? incoming.header('location') : null
    return target ?? (await readPage(checked.url, incoming, maxBytes))
  } finally {
    limit.release(branch)
  }
}

async function readPage(
  url: string,
  incoming: IncomingResponse,
  maxBytes: number,
): Promise<FetchedPage> {
  const [type = '', ...parameters] = (incoming.header('content-type') ?? '').split(';')
  const charset = parameters.map(one => /^\s*charset\s*=\s*"?([\w.:-]{1,40})/i.exec(one)?.[1])
  const { status } = incoming
  return {
    ...{ url, status, type: type.trim().toLowerCase() },
    charset: charset.find(one => one !== undefined) ?? null,
    ...(await gatherBytes(incoming, maxBytes)),
  }
}

const FIRST_ROOM = 64 * 1024

// One buffer that doubles: a list of chunks would be many times larger if they came byte by byte.
async function gatherBytes(
  incoming: IncomingResponse,
  maxBytes: number,
): Promise<{ bytes: Buffer; isCut: boolean }> {
  let buffer: Buffer = Buffer.allocUnsafe(Math.min(FIRST_ROOM, maxBytes))
  let size = 0
  for (let bytes = await incoming.read(); bytes; bytes = await incoming.read()) {
    const kept = bytes.subarray(0, maxBytes - size)
    if (size + kept.length > buffer.length) buffer = enlarge(buffer, size + kept.length, maxBytes)
    buffer.set(kept, size)
    size += kept.length
    if (kept.length < bytes.length) return { bytes: buffer.subarray(0, size), isCut: true }
  }
  return { bytes: buffer.subarray(0, size), isCut: false }
}

function enlarge(buffer: Buffer, minimum: number, maxBytes: number): Buffer {
  const larger = Buffer.allocUnsafe(Math.max(Math.min(buffer.length * 2, maxBytes), minimum))
  larger.set(buffer)
  return larger
}
