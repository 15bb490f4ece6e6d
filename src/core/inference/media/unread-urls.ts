import { invalid } from '../../errors.ts'
import { isDataUrl } from '../../kernel/data-url.ts'
import type { Block } from '../../language/message.ts'
import { checkUntrustedUrl } from '../../upstream/untrusted-url.ts'
import type { InferenceWorld } from '../world.ts'

/**
 * Lists the origins of URLs that go on to a provider although the gateway does not know what they
 * are for: in parts and fields that have no type here. Throws 400 for media by another scheme than
 * http, https and data, and for such URLs anywhere: a server may open files for them. `ownSchemes`
 * begin addresses at the provider itself, which open none.
 */
export function listUnreadOrigins(
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
export interface UnreadOrigin {
  origin: string
  field: string | undefined
}

const readField = (block: Block) => ('field' in block ? block.field : undefined)

/** Each has to be looked up. */
const MAX_ORIGINS = 64

/** Throws 400 unless all of these origins are public. */
export async function checkUnreadOrigins(
  world: InferenceWorld,
  origins: UnreadOrigin[],
): Promise<void> {
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

// A list of what is left, as a deep value would exhaust the stack.
function collectOrigins(
  value: unknown,
  origins: Map<string, string | undefined>,
  field: string | undefined,
): void {
  const left = [value]
  while (left.length > 0) {
    const next = left.pop()
    if (typeof next === 'string' && isUrl(next)) {
      const origin = toOrigin(next, field)
      if (!origins.has(origin)) origins.set(origin, field)
    }
    if (typeof next === 'object' && next !== null)
      for (const member of Object.values(next)) left.push(member)
  }
}

// URL parsers skip what is not visible before a URL, drop line breaks in it, and take backslashes
// for slashes.
const URL_START = /^[^!-~]*(?:[a-z][a-z0-9+.-]{0,30}:[/\\]|file:)/i
const isUrl = (text: string) => URL_START.test(text.slice(0, 200).replace(/[\t\n\r]/g, ''))

function toOrigin(text: string, field: string | undefined): string {
  const url = URL.parse(text)
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:')
    throw invalid(`${field ?? 'The content'}: expected no URLs other than http and https`, field)
  return url.origin
}
