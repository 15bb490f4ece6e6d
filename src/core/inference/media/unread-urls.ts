import { invalid } from '../../errors.ts'
import { isDataUrl } from '../../kernel/data-url.ts'
import type { Block } from '../../language/message.ts'
import { checkUntrustedUrl } from '../../upstream/untrusted-url.ts'
import type { InferenceWorld } from '../world.ts'

/**
 * Lists the origins of URLs that go on to a provider although the gateway does not know what they
 * are for: in parts and fields that have no type here. Throws 400 for media by another scheme than
 * http, https and data, and for such URLs anywhere: a server may open files for them.
 */
export function listUnreadOrigins(
  contents: Block[][],
  references: { kind: string; url: string }[],
): string[] {
  for (const { kind, url } of references)
    if (!isSentAsBytes(url)) throw invalid(`The ${kind}: expected an http, https or data URL`)
  let origins: Set<string> | undefined
  for (const blocks of contents)
    for (const block of blocks) {
      const unread = listUnread(block)
      if (unread === undefined) continue
      origins ??= new Set()
      collectOrigins(unread, origins)
    }
  if (!origins) return NO_ORIGINS
  if (origins.size > MAX_ORIGINS)
    throw invalid(`The content: expected URLs of at most ${MAX_ORIGINS} hosts`)
  return [...origins]
}

// Most calls have no such fields.
const NO_ORIGINS: string[] = []

/** Each has to be looked up. */
const MAX_ORIGINS = 64

/** Throws 400 unless all of these origins are public. */
export async function checkUnreadOrigins(world: InferenceWorld, origins: string[]): Promise<void> {
  await Promise.all(origins.map(origin => checkUntrustedUrl(world, origin)))
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
function collectOrigins(value: unknown, origins: Set<string>): void {
  const left = [value]
  while (left.length > 0) {
    const next = left.pop()
    if (typeof next === 'string' && isUrl(next)) origins.add(toOrigin(next))
    if (typeof next === 'object' && next !== null)
      for (const member of Object.values(next)) left.push(member)
  }
}

// URL parsers skip what is not visible before a URL, drop line breaks in it, and take backslashes
// for slashes.
const URL_START = /^[^!-~]*(?:[a-z][a-z0-9+.-]{0,30}:[/\\]|file:)/i
const isUrl = (text: string) => URL_START.test(text.slice(0, 200).replace(/[\t\n\r]/g, ''))

function toOrigin(text: string): string {
  const url = URL.parse(text)
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:')
    throw invalid('The content: expected no URLs other than http and https')
  return url.origin
}
