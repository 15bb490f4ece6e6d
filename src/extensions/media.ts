import { checkDataUrl, isDataUrl } from '../base/data-url.ts'
import { GatewayError, invalid } from '../base/errors.ts'
import { isObject, type Json } from '../base/json.ts'
import { beginMemory } from '../engine/attempt.ts'
import type { MediaReference } from '../engine/kinds/media.ts'
import type { CallTarget } from '../engine/run.ts'
import type { Block } from '../language/message.ts'
import type { Kind, Work } from '../language/work.ts'
import { fetchMedia } from '../network/media.ts'
import { checkUntrustedUrl, refusePrivateHost } from '../network/untrusted-url.ts'
import { openReading } from './reading-memory.ts'
import type { ExtensionWorld } from './world.ts'

/** What may be fetched for one call: how many files, and how many bytes. */
const MAX_URLS = 32
const LARGEST_OF_ONE = 20 * 1024 * 1024
const LARGEST_OF_ALL = 64 * 1024 * 1024

/**
 * Returns the call with every URL that its provider does not fetch itself replaced by a data URL. A
 * self-hosted provider fetches none: it may stand in a network that callers cannot reach.
 * Each is fetched once, however many endpoints are tried: `media` holds what was fetched. Returns
 * the call itself, and no promise, if there is nothing to fetch, as in most. Throws 400 for media
 * that cannot be fetched, and for those at an address of a private network, also if a provider
 * fetches them.
 */
export function inlineMedia<K extends Kind>(
  world: ExtensionWorld,
  call: Work[K]['call'],
  { kind, takesUrls, ownSchemes = [], fetchesUrls, media, run, cancellation }: CallTarget<K>,
): Work[K]['call'] | Promise<Work[K]['call']> {
  const { listMedia, readRichContents } = kind.understanding
  const all = listMedia(call)
  for (const { url, field } of all) {
    if (isDataUrl(url)) checkDataUrl(url, field)
    else refusePrivateHost(world, url, field)
  }
  if (all.length === 0 && fetchesUrls) return call
  const unread = fetchesUrls ? [] : listUnreadOrigins(readRichContents(call), all, ownSchemes)
  const references = all.filter(
    reference =>
      (!fetchesUrls || !takesUrls.includes(reference.kind)) && /^https?:/i.test(reference.url),
  )
  if (references.length === 0 && unread.length === 0) return call
  return fetchReferences(world, call, { kind, media, run, cancellation }, references, unread)
}

// A function of its own, so that calls without media make no closures.
function fetchReferences<K extends Kind>(
  world: ExtensionWorld,
  call: Work[K]['call'],
  target: Pick<CallTarget<K>, 'kind' | 'media' | 'run' | 'cancellation'>,
  references: MediaReference[],
  unread: UnreadOrigin[],
): Promise<Work[K]['call']> {
  return target.cancellation
    .awaitUnlessCancelled(checkUnreadOrigins(world, unread))
    .then(() => fetchMissing(world, target, references))
    .then(urls => {
      checkSize(references, urls)
      return target.kind.understanding.replaceUrls(call, urls)
    })
}

/**
 * Throws 400 for references to more bytes than may be fetched for one call: a URL is fetched once, but
 * the provider gets what it leads to wherever it stands.
 */
function checkSize(references: MediaReference[], urls: Map<string, string>): void {
  let characters = 0
  for (const { url } of references) {
    const data = urls.get(url) ?? ''
    characters += data.length - data.indexOf(',') - 1
  }
  if (characters > 4 * (Math.ceil(LARGEST_OF_ALL / 3) + MAX_URLS))
    throw invalid(`The request: expected URLs of at most ${LARGEST_OF_ALL} bytes of media`)
}

/**
 * Fetches what is not in `media` yet, as data URLs by their URL, and returns `media`. What is large
 * waits for memory. Throws 400 for media that cannot be fetched, and for too many.
 */
export async function fetchMissing<K extends Kind>(
  world: ExtensionWorld,
  { media, run, cancellation }: Pick<CallTarget<K>, 'media' | 'run' | 'cancellation'>,
  references: MediaReference[],
): Promise<Map<string, string>> {
  const missing = [
    ...new Map(references.map(reference => [reference.url, reference])).values(),
  ].filter(reference => !media.has(reference.url))
  if (missing.length > MAX_URLS)
    throw invalid(
      `The request refers to more than ${MAX_URLS} URLs that have to be fetched for this provider`,
    )
  const maxBytes = Math.min(
    LARGEST_OF_ONE,
    Math.floor(LARGEST_OF_ALL / Math.max(missing.length, 1)),
  )
  const branches = cancellation.createBranches(missing.length)
  const onLarge = openReading(world, () => beginMemory(world, run))
  const fetching = missing.map(async ({ kind, url, field }, i) => {
    const { media_type, data } = await fetchMedia(world, url, {
      kind,
      ...(field === undefined ? {} : { field }),
      maxBytes,
      ...(branches[i] ? { cancellation: branches[i] } : {}),
      onLarge,
    })
    media.set(url, `data:${media_type};base64,${data}`)
  })
  try {
    await Promise.all(fetching)
  } finally {
    for (const branch of branches) branch.cancel(DOWNLOADS_OVER)
  }
  return media
}

const DOWNLOADS_OVER = new GatewayError('unmapped', 'The downloads are over')

/**
 * Lists the origins of URLs that go on to a provider which may fetch them: in parts and fields that
 * the gateway sends as they came. Data is no URL, however it begins: a tool's output, the address of
 * a page that was found. Throws 400 for media by another scheme than http, https and data, and for
 * such URLs in those fields: a server may open files for them. `ownSchemes` begin addresses at the
 * provider itself, which open none.
 */
function listUnreadOrigins(
  contents: Block[][],
  references: { kind: string; url: string; field?: string }[],
  ownSchemes: string[] = [],
): UnreadOrigin[] {
  for (const { kind, url, field } of references)
    if (!isSentAsBytes(url) && !ownSchemes.some(scheme => url.startsWith(scheme)))
      throw invalid(`${field ?? `The ${kind}`}: expected an http, https or data URL`, field)
  let origins: Map<string, string | undefined> | undefined
  for (const blocks of contents)
    for (const block of blocks) {
      const unread = listUnread(block)
      if (unread === undefined) continue
      origins ??= new Map()
      collectOrigins(unread, origins, readField(block))
    }
  if (!origins) return NO_ORIGINS
  if (origins.size > MAX_ORIGINS)
    throw invalid(`The content: expected URLs of at most ${MAX_ORIGINS} hosts`)
  return Array.from(origins, ([origin, field]) => ({ origin, field }))
}

// Most calls have no such fields.
const NO_ORIGINS: UnreadOrigin[] = []

/** The origin of a URL, and the field in which it was found first, if that is known. */
interface UnreadOrigin {
  origin: string
  field: string | undefined
}

const readField = (block: Block) => ('field' in block ? block.field : undefined)

/** Each has to be looked up. */
const MAX_ORIGINS = 64

/** Throws 400 unless all of these origins are public. */
async function checkUnreadOrigins(world: ExtensionWorld, origins: UnreadOrigin[]): Promise<void> {
  await Promise.all(origins.map(({ origin, field }) => checkUntrustedUrl(world, origin, field)))
}

/** Lists the values of a block that are sent as they came. */
function listUnread(block: Block): unknown {
  if (block.type === 'other') return block.value
  const extra = 'extra' in block ? block.extra : undefined
  if (block.type !== 'file') return extra
  const { file_data = '', ...rest } = block.file
  return isSentAsBytes(file_data) ? [extra, rest] : [extra, block.file]
}

const isSentAsBytes = (url: string) => isDataUrl(url) || /^https?:/i.test(url)

/** Parts and items of known types that hold parts which may be fetched, and where. */
const PARTS: Record<string, string> = {
  additional_tools: 'tools',
  computer_call_output: 'output',
  custom_tool_call_output: 'output',
  document: 'source',
  function_call_output: 'output',
  image: 'source',
  mcp_tool_result: 'content',
  message: 'content',
  namespace: 'tools',
  search_result: 'content',
  tool_result: 'content',
  tool_search_output: 'tools',
  web_fetch_result: 'content',
  web_fetch_tool_result: 'content',
}

/** Those that are data alone, but for the fields of `FETCHED`: what a model said, did and found. */
const WITHOUT_PARTS = new Set(
  `apply_patch_call apply_patch_call_output bash_code_execution_tool_result char_location
  code_execution_tool_result code_interpreter_call compaction compaction_trigger computer_call
  container_file_citation content_block_location context_compaction custom custom_tool_call
  fallback file_citation file_path file_search_call function function_call image_generation_call
  input_text item_reference local_shell_call local_shell_call_output mcp_approval_request
  mcp_approval_response mcp_call mcp_list_tools mcp_tool_use output_text page_location reasoning
  redacted_thinking refusal search_result_location server_tool_use shell_call shell_call_output
  text text_editor_code_execution_tool_result thinking tool_reference tool_search_call
  tool_search_tool_result url_citation web_search_call web_search_result
  web_search_result_location web_search_tool_result`.split(/\s+/),
)

/** Fields that servers fetch, whatever they say that they are a part of. */
const FETCHED = [
  ...['image_url', 'video_url', 'audio_url', 'file_url', 'file_data', 'file_id'],
  ...['connector_url', 'server_url'],
]

/** Fields of parts without a known type whose texts are data. */
const DATA = new Set(
  `arguments call_id citations annotations code command content cwd description diff
  encrypted_content encrypted_index error filename id input instructions logs name output patch path
  queries query reason result signature snippet stderr stdout summary text title tool_use_id
  working_directory`.split(/\s+/),
)

// A list of what is left, as a deep value would exhaust the stack.
function collectOrigins(
  value: unknown,
  origins: Map<string, string | undefined>,
  field: string | undefined,
): void {
  const left: Unread[] = [{ value, isData: false }]
  for (let next = left.pop(); next; next = left.pop()) {
    const { value, isData } = next
    if (typeof value === 'string' && !isData && isUrl(value)) {
      const origin = toOrigin(value, field)
      if (!origins.has(origin)) origins.set(origin, field)
    }
    if (Array.isArray(value)) for (const member of value) left.push({ value: member, isData })
    else if (isObject(value)) for (const unread of listMembers(value)) left.push(unread)
  }
}

/** A value in which URLs may stand. Texts in it are none if it is data. */
interface Unread {
  value: unknown
  isData: boolean
}

function listMembers(value: Json): Unread[] {
  const type = String(value.type)
  const part = Object.hasOwn(PARTS, type) ? PARTS[type] : undefined
  if (part === undefined && !WITHOUT_PARTS.has(type))
    return Object.entries(value).map(([name, member]) => ({
      value: member,
      isData: DATA.has(name),
    }))
  const fetched = FETCHED.map(name => ({ value: value[name], isData: false }))
  return part === undefined ? fetched : [...fetched, { value: value[part], isData: true }]
}

// URL parsers skip what is not visible before a URL, drop line breaks in it, and take backslashes
// for slashes. One letter before a colon is a drive of Windows.
const URL_START = /^[^!-~]*(?:[a-z][a-z0-9+.-]{1,30}:[/\\]|file:)/i
const isUrl = (text: string) => URL_START.test(text.slice(0, 200).replace(/[\t\n\r]/g, ''))

function toOrigin(text: string, field: string | undefined): string {
  const url = URL.parse(text)
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:')
    throw invalid(`${field ?? 'The content'}: expected no URLs other than http and https`, field)
  return url.origin
}
